// SPDX-License-Identifier: Apache-2.0
// expect: argument 2 is floating-point and its parameter an integer, so its fraction would be lost
#include <tern/tern.hpp>

struct grid {
  grid(double, int) {}
};

int main() {
#ifdef FINE
  tern::create<grid>(1, 3L);
#else
  tern::create<grid>(1, 3.7);
#endif
}
