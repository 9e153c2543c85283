// SPDX-License-Identifier: Apache-2.0
// expect: the number of arguments differs from the function's parameters
#include <tern/tern.hpp>

struct counter {
  void add(int n) { value += n; }
  int value = 0;
};

#ifdef FINE
int main() { tern::send<&counter::add>(tern::mobile_ptr<counter>(), 1); }
#else
int main() { tern::send<&counter::add>(tern::mobile_ptr<counter>(), 1, 2); }
#endif
