// SPDX-License-Identifier: Apache-2.0
// expect: argument 1 is floating-point and its parameter an integer, so its fraction would be lost
#include <tern/tern.hpp>

int main() {
  tern::remote_promise<int> found;
#ifdef FINE
  found.set_value(3);
#else
  found.set_value(3.7);
#endif
}
