// SPDX-License-Identifier: Apache-2.0
// expect: an invocation's parameters travel by value
#include <tern/tern.hpp>

struct counter {
#ifdef FINE
  void read(int n) { value = n; }
#else
  void read(int& n) { value = n; }
#endif
  int value = 0;
};

int main() { tern::send<&counter::read>(tern::mobile_ptr<counter>(), 1); }
