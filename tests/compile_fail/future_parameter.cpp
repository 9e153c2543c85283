// SPDX-License-Identifier: Apache-2.0
// expect: a future cannot travel
#include <tern/tern.hpp>

#ifdef FINE
void print(int x) { static_cast<void>(x); }
int main() {
  tern::send<&print>(0, tern::async([] { return 1; }).get());
}
#else
void print(tern::future<int> x) { static_cast<void>(x.get()); }
int main() {
  tern::send<&print>(0, tern::async([] { return 1; }));
}
#endif
