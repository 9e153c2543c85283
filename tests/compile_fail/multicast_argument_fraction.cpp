// SPDX-License-Identifier: Apache-2.0
// expect: argument 1 is floating-point and its parameter an integer, so its fraction would be lost
#include <tern/tern.hpp>

void keep(std::size_t) {}

int main() {
#ifdef FINE
  tern::multicast<&keep>(tern::all_ranks, 3);
#else
  tern::multicast<&keep>(tern::all_ranks, 3.7F);
#endif
}
