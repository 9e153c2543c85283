// SPDX-License-Identifier: Apache-2.0
// expect: the function belongs to another class than the pointer
#include <tern/tern.hpp>

struct counter {
  void add(int n) { value += n; }
  int value = 0;
};
struct clock {
  void add(int n) { seconds += n; }
  int seconds = 0;
};

#ifdef FINE
void work(tern::mobile_ptr<counter> c) { tern::send<&counter::add>(c, 1); }
#else
void work(tern::mobile_ptr<counter> c) { tern::send<&clock::add>(c, 1); }
#endif

int main() { work({}); }
