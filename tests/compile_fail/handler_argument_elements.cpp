// SPDX-License-Identifier: Apache-2.0
// expect: argument 1 is floating-point and its parameter an integer, so its fraction would be lost
#include <span>
#include <vector>

#include <tern/tern.hpp>

void keep(std::span<const int>) {}

int main() {
#ifdef FINE
  tern::send<&keep>(0, std::vector<long>{1, 2});
#else
  tern::send<&keep>(0, std::vector<double>{1.5, 2.5});
#endif
}
