// SPDX-License-Identifier: Apache-2.0
/// \file
/// Links all of Tern and uses messages alone: it must have the options of all layers.
#include <cstdio>

#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>

int square(int x) { return x * x; }

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    if (tern::rank() == 0) std::printf("%d\n", tern::call<&square>(tern::size() - 1, 7).get());
  });
}
