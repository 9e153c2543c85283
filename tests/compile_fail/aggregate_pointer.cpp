// SPDX-License-Identifier: Apache-2.0
// expect: this aggregate has a raw pointer among its members, which means nothing on another rank
// names: note
#include <string>
#include <vector>

#include <tern/tern.hpp>

struct note {
  std::string text;
#ifdef FINE
  std::string author;
#else
  const char* author;
#endif
};
void keep(const std::vector<note>&) {}

int main() { tern::send<&keep>(0, std::vector<note>(3)); }
