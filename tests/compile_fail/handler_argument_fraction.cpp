// SPDX-License-Identifier: Apache-2.0
// expect: argument 2 is floating-point and its parameter an integer, so its fraction would be lost
#include <tern/tern.hpp>

void keep(double, int) {}

int main() {
#ifdef FINE
  // Integers of other sizes are checked when the program runs, and so is a double for a float.
  tern::send<&keep>(0, 1, 3L);
#else
  tern::send<&keep>(0, 1, 3.7);
#endif
}
