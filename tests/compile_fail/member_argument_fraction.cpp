// SPDX-License-Identifier: Apache-2.0
// expect: argument 1 is floating-point and its parameter an integer, so its fraction would be lost
#include <tern/tern.hpp>

struct counter {
  void add(long) {}
};

int main() {
  const auto c = tern::create<counter>();
#ifdef FINE
  tern::send<&counter::add>(c, 3);
#else
  tern::send<&counter::add>(c, 3.7);
#endif
}
