// SPDX-License-Identifier: Apache-2.0
// expect: this aggregate has a base class, so its members are not found by themselves
// names: note
#include <string>

#include <tern/tern.hpp>

struct place {
  double x[3];
};
#ifdef FINE
struct note {
  place at;
  std::string text;
};
#else
struct note : place {
  std::string text;
};
#endif
void keep(const note&) {}

int main() { tern::send<&keep>(0, note{}); }
