// SPDX-License-Identifier: Apache-2.0
// expect: this aggregate has more than 16 members, which are not found by themselves
// names: note
#include <string>

#include <tern/tern.hpp>

struct note {
  std::string a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p;
#ifndef FINE
  std::string q;
#endif
};
void keep(const note&) {}

int main() { tern::send<&keep>(0, note{}); }
