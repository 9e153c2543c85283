// SPDX-License-Identifier: Apache-2.0
// expect: a member of this aggregate is a reference, or cannot be initialised by `{}`
// names: note
#include <string>

#include <tern/tern.hpp>

struct note {
#ifdef FINE
  std::string text;
#else
  std::string& text;
#endif
};

int main() {
  std::string text;
  static_cast<void>(tern::pack(note{text}));
}
