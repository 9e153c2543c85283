// SPDX-License-Identifier: Apache-2.0
/// \file
/// Lambdas of one signature in one file, some even in one function, are different handlers.
#include <cstdio>

#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>

static int third(int x) {
  return tern::call<[](int y) { return 3 * y; }>(0, x).get();
}

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    const int one = tern::call<[](int y) { return y; }>(0, 1).get();
    const int two = tern::call<[](int y) { return 20 * y; }>(0, 1).get();
    std::printf("%d\n", one + two + 100 * third(1));
  });
}
