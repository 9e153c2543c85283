// SPDX-License-Identifier: Apache-2.0
// expect: a future cannot travel
#include <chrono>
#include <tern/tern.hpp>

using namespace std::chrono_literals;
#ifdef FINE
int twice(int x) { return 2 * x; }
int main() { return tern::call<&twice>({.timeout = 5ms}, 0, 1).get(); }
#else
tern::future<int> twice(int x) {
  return tern::async([x] { return 2 * x; });
}
int main() { return tern::call<&twice>({.timeout = 5ms}, 0, 1).get().get(); }
#endif
