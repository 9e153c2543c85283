// SPDX-License-Identifier: Apache-2.0
// Libraries that are opened while the program runs: what is found, what is missing, and what the
// loader says.
#include <tern/hetero/device/dynamic_library.hpp>

#include <cmath>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tern::hetero::detail {
namespace {

TEST(dynamic_library, finds_functions_and_says_which_it_lacks) {
  std::string why;
  dynamic_library maths = dynamic_library::open("libm.so.6", why);
  ASSERT_TRUE(maths) << why;
  EXPECT_EQ(why, "");
  double (*root)(double) = nullptr;
  maths.find(root, "sqrt");
  ASSERT_NE(root, nullptr);
  EXPECT_EQ(root(81.0), 9.0);
  void (*none)() = nullptr;
  maths.find(none, "tern_has_no_such_function", false);
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(maths.missing(), "") << "it is not needed";
  maths.find(none, "tern_lacks_this");
  maths.find(none, "and_that");
  EXPECT_EQ(maths.missing(), "tern_lacks_this, and_that");
}

TEST(dynamic_library, that_is_not_there_is_empty_and_says_why) {
  std::string why;
  EXPECT_FALSE(dynamic_library::open("libtern-first.so.0", why));
  EXPECT_FALSE(dynamic_library::open("libtern-second.so.0", why));
  EXPECT_THAT(why, testing::MatchesRegex(".*libtern-first.so.0: .*; .*libtern-second.so.0: .*"));
}

TEST(dynamic_library, is_open_as_long_as_one_holds_it) {
  std::string why;
  dynamic_library first = dynamic_library::open("libm.so.6", why), second;
  second = std::move(first);
  EXPECT_FALSE(first);
  ASSERT_TRUE(second);
  EXPECT_NE(second.find("cos"), nullptr);
  dynamic_library third(std::move(second));
  EXPECT_FALSE(second);
  EXPECT_NE(third.find("cos"), nullptr);
}

} // namespace
} // namespace tern::hetero::detail
