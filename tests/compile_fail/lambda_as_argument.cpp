// SPDX-License-Identifier: Apache-2.0
// expect: a handler stands in angle brackets, as in send<&f>(rank, x) or send<[](int x) {}>(rank,
// 3)
#include <tern/tern.hpp>

int main(int argc, char**) {
#ifdef FINE
  static_cast<void>(tern::call<[](int captured, int x) { return captured + x; }>(0, argc, 3));
#else
  static_cast<void>(tern::call(
      0, [argc](int x) { return argc + x; }, 3));
#endif
}
