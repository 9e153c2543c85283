// SPDX-License-Identifier: Apache-2.0
#include <tern/base/error.hpp>

#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using tern::errc;
using tern::error;

TEST(error, names_of_all_codes_differ) {
  std::set<std::string_view> names;
  for (std::uint16_t i = 0; i <= static_cast<std::uint16_t>(errc::rank_lost); ++i)
    names.insert(tern::name_of(static_cast<errc>(i)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(errc::rank_lost) + 1);
  EXPECT_FALSE(names.contains("unknown"));
  EXPECT_EQ(tern::name_of(errc::internal), "internal");
  EXPECT_EQ(tern::name_of(errc::invalid_data), "invalid_data");
  EXPECT_EQ(tern::name_of(errc::broken_promise), "broken_promise");
  EXPECT_EQ(tern::name_of(errc::unsupported), "unsupported");
  EXPECT_EQ(tern::name_of(errc::deadlock), "deadlock");
  EXPECT_EQ(tern::name_of(errc::cancelled), "cancelled");
  EXPECT_EQ(tern::name_of(errc::timeout), "timeout");
  EXPECT_EQ(tern::name_of(static_cast<errc>(9999)), "unknown");
}

TEST(error, what_has_all_parts) {
  const unsigned line = __LINE__ + 1;
  const error e(errc::invalid_argument, "rank 7 does not exist", "ranks are 0..3");
  EXPECT_EQ(e.code(), errc::invalid_argument);
  EXPECT_EQ(e.message(), "rank 7 does not exist");
  EXPECT_EQ(e.hint(), "ranks are 0..3");
  EXPECT_EQ(e.place(), "tern/base/error/error_test.cpp:" + std::to_string(line));
  EXPECT_EQ(std::string(e.what()),
            "rank 7 does not exist; ranks are 0..3 [invalid_argument at tern/base/error/error_test.cpp:" +
                std::to_string(line) + "]");
}

TEST(error, what_leaves_out_missing_parts) {
  EXPECT_STREQ(error(errc::io, "disk full", "", std::string()).what(), "disk full [io]");
  EXPECT_STREQ(error(errc::io, "disk full", "", "a.cpp:3").what(), "disk full [io at a.cpp:3]");
  EXPECT_STREQ(error(errc::io, "disk full", "delete something", std::string()).what(),
               "disk full; delete something [io]");
}

TEST(error, copies_are_independent) {
  error a(errc::io, "one", "two", "x:1");
  const error b = a;
  a = error(errc::system, "other", "", "y:2");
  EXPECT_EQ(b.message(), "one");
  EXPECT_EQ(b.place(), "x:1");
  EXPECT_STREQ(b.what(), "one; two [io at x:1]");
  EXPECT_THROW(throw b, std::runtime_error);
}

} // namespace
