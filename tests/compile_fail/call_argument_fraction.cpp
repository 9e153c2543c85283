// SPDX-License-Identifier: Apache-2.0
// expect: argument 1 is floating-point and its parameter an integer, so its fraction would be lost
#include <tern/tern.hpp>

int keep(int x) { return x; }

int main() {
  using namespace std::chrono_literals;
#ifdef FINE
  static_cast<void>(tern::call<&keep>({.timeout = 1s}, 0, 3));
#else
  static_cast<void>(tern::call<&keep>({.timeout = 1s}, 0, 3.7));
#endif
}
