// SPDX-License-Identifier: Apache-2.0
// A job of several ranks: rank 0 calls a function on each of them and prints the results.
#include <cstdio>
#include <tern/tern.hpp>

int square(int x) { return x * x; }

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    if (tern::rank() != 0) return;
    for (int r = 0; r < tern::size(); ++r) std::printf("rank %d says %d\n", r, tern::call<&square>(r, r + 1).get());
  });
}
