// SPDX-License-Identifier: Apache-2.0
// Tests with a bug: `--bug NAME` says which one of those that the copies of sources have, and none
// does anything without it.
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "tests/sim/bugs.hpp"

namespace tern::property {
namespace {
std::string wanted;
} // namespace
bool is_wanted(const char* bug) noexcept { return wanted == bug; }
void want_bug(const char* bug) noexcept { wanted = bug ? bug : ""; }
} // namespace tern::property

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc == 3 && std::strcmp(argv[1], "--bug") == 0)
    tern::property::want_bug(argv[2]);
  else if (argc != 1)
    return 2;
  return RUN_ALL_TESTS();
}
