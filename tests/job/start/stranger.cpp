// SPDX-License-Identifier: Apache-2.0
/// \file
/// Another program than endings.cpp: it has other handlers. Started beside it in one job, it must
/// be refused.
#include <cstdio>

#include <tern/net/collectives.hpp>
#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>

double stranger_handler(double x) { return x; }

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    tern::call<&stranger_handler>(0, 1.0).get();
    tern::barrier();
    std::printf("the strangers met\n");
  });
}
