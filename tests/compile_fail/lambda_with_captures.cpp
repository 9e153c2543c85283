// SPDX-License-Identifier: Apache-2.0
// expect: a handler has no state, so a lambda with captures cannot be one: send the captured values
// as arguments
#include <tern/tern.hpp>

int main(int argc, char**) {
  static const auto keep = [argc](int x) { static_cast<void>(argc + x); };
#ifdef FINE
  tern::send<[](int captured, int x) { static_cast<void>(captured + x); }>(0, argc, 3);
  static_cast<void>(keep);
#else
  tern::send<keep>(0, 3);
#endif
}
