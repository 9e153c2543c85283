// SPDX-License-Identifier: Apache-2.0
// expect: this type cannot be
#include <string>

#include <tern/tern.hpp>

struct note {
  std::string text;
#ifdef FINE
  template <class A> void serialize(A& ar) { ar(text); }
#endif
};
void keep(const note& n) { static_cast<void>(n); }

int main() { tern::send<&keep>(0, note{"remember"}); }
