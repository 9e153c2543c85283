// SPDX-License-Identifier: Apache-2.0
#include <tern/global/transfer/landing_budget.hpp>
#include <tern/global/transfer/settings.hpp>

#include <array>
#include <cstddef>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/base/error.hpp>
#include <tern/global/travel.hpp>

namespace tern::global::detail {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

template <class F> std::string option_refusal(F&& set) {
  options opts;
  try {
    set(opts);
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::invalid_option);
    return e.what();
  }
  return "nothing was thrown";
}

TEST(transfer_settings, bad_values_are_told) {
  EXPECT_THAT(option_refusal([](options& o) { o.set(inline_option, -1); }),
              AllOf(HasSubstr("global-inline"), HasSubstr("from 0 to 1048576")));
  EXPECT_THAT(option_refusal([](options& o) { o.set(ahead_option, -5); }),
              AllOf(HasSubstr("global-ahead"), HasSubstr("at least 0")));
  for (const char* bad : {"0", "-1", "4 apples", "M"})
    EXPECT_THAT(
        option_refusal([&](options& o) { o.set(landing_option, bad); }),
        AllOf(HasSubstr("global-landing"), HasSubstr("a number of bytes above 0, with K, M, G or T behind it")));
}

TEST(transfer_settings, are_read) {
  options opts;
  EXPECT_GT(settings(opts).landing, std::uint64_t{1} << 20); // a quarter of the memory
  opts.set(landing_option, "16M");
  opts.set(inline_option, 0);
  opts.set(ahead_option, 0);
  const settings s(opts);
  EXPECT_EQ(s.landing, std::uint64_t{16} << 20);
  EXPECT_EQ(s.inside, 0u);
  EXPECT_EQ(s.ahead, 0u);
  EXPECT_FALSE(s.verify);
}

TEST(transfer_settings, pieces_are_neither_small_nor_few) {
  EXPECT_EQ(piece_bytes(1), std::size_t{256} << 10);
  EXPECT_EQ(piece_bytes(std::size_t{24} << 20), std::size_t{1} << 20);
  EXPECT_EQ(piece_bytes(std::size_t{1} << 30), std::size_t{2} << 20);
}

TEST(transfer_settings, a_checksum_is_never_none) {
  const std::array<std::byte, 4> a{}, b{std::byte{1}};
  EXPECT_NE(checksum(a), 0u);
  EXPECT_NE(checksum(a), checksum(b));
}

TEST(landing_budget, is_kept_in_order) {
  landing_budget b(100);
  EXPECT_TRUE(b.try_enter(60));
  EXPECT_FALSE(b.try_enter(60)); // does not wait
  EXPECT_EQ(b.waiting(), 0u);
  EXPECT_FALSE(b.enter(2, 60));
  EXPECT_FALSE(b.enter(3, 10)); // it would fit, but is not the first
  EXPECT_FALSE(b.try_enter(10));
  EXPECT_THAT(b.leave(60), ElementsAre(2, 3));
  EXPECT_EQ(b.held(), 70u);
  EXPECT_FALSE(b.enter(4, 500)); // larger than all
  EXPECT_THAT(b.leave(60), IsEmpty());
  EXPECT_THAT(b.leave(10), ElementsAre(4)); // alone
  EXPECT_FALSE(b.enter(5, 1));
  EXPECT_THAT(b.leave(500), ElementsAre(5));
  EXPECT_EQ(b.peak(), 500u);
  b.clear();
  EXPECT_EQ(b.held(), 0u);
  EXPECT_TRUE(b.try_enter(100));
}

} // namespace
} // namespace tern::global::detail
