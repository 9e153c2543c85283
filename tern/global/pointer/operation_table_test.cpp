// SPDX-License-Identifier: Apache-2.0
#include <tern/global/pointer/operation_table.hpp>

#include <exception>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/base/error.hpp>

namespace tern::global::detail {
namespace {

using testing::HasSubstr;

std::exception_ptr failure(const char* what) { return std::make_exception_ptr(error(errc::io, what)); }
template <class F> std::string said(F&& f) {
  try {
    f.get();
    return "";
  } catch (const error& e) {
    return e.what();
  }
}

TEST(operation_table, done_is_known_before_and_after_the_end) {
  operation_table all;
  const auto [first, of_first] = all.begin(1);
  const auto [second, of_second] = all.begin(1);
  auto early = of_first->done();
  EXPECT_FALSE(early.ready());
  EXPECT_TRUE(all.end(first, 1, nullptr));
  EXPECT_TRUE(early.ready());
  EXPECT_TRUE(all.end(second, 1, failure("lost")));
  auto late = of_second->done(), again = of_second->done();
  EXPECT_THAT(said(late), HasSubstr("lost"));
  EXPECT_THAT(said(again), HasSubstr("lost"));
  EXPECT_EQ(all.announced(), 2u);
  EXPECT_EQ(all.finished(), 2u);
  EXPECT_EQ(all.failed(), 1u);
}

TEST(operation_table, answers_of_others_and_twice_are_refused) {
  operation_table all;
  const auto [number, of] = all.begin(2);
  EXPECT_FALSE(all.end(number, 1, nullptr));
  EXPECT_FALSE(all.end(number + 1, 2, nullptr));
  EXPECT_TRUE(all.end(number, 2, nullptr));
  EXPECT_FALSE(all.end(number, 2, nullptr));
  EXPECT_FALSE(of->seen());
}

TEST(operation_table, fences_wait_for_what_came_before_them) {
  operation_table all;
  EXPECT_TRUE(all.fence(1).ready()); // nothing has been announced
  EXPECT_TRUE(all.fence().ready());
  const auto a = all.begin(1), b = all.begin(1), elsewhere = all.begin(2);
  auto first = all.fence(1);
  const auto c = all.begin(1);
  auto second = all.fence(1), everywhere = all.fence();
  const auto d = all.begin(1);
  EXPECT_TRUE(all.end(c.first, 1, nullptr)); // out of order
  EXPECT_TRUE(all.end(b.first, 1, nullptr));
  EXPECT_FALSE(first.ready());
  EXPECT_FALSE(second.ready());
  EXPECT_TRUE(all.end(a.first, 1, nullptr));
  EXPECT_TRUE(first.ready());
  EXPECT_TRUE(second.ready());
  EXPECT_FALSE(everywhere.ready());
  EXPECT_TRUE(all.end(elsewhere.first, 2, nullptr));
  EXPECT_TRUE(everywhere.ready());
  EXPECT_FALSE(all.fence(1).ready());
  all.forget(d.first, 1);
  EXPECT_TRUE(all.fence(1).ready());
  EXPECT_EQ(all.announced(), 4u);
}

TEST(operation_table, fences_tell_what_no_done_has_told) {
  operation_table all;
  const auto seen = all.begin(1), unseen = all.begin(1), other = all.begin(1);
  auto told = seen.second->done();
  auto fence = all.fence(1);
  const auto later = all.begin(1);
  all.end(later.first, 1, failure("of later"));
  all.end(seen.first, 1, failure("of the first"));
  all.end(unseen.first, 1, failure("of the second"));
  all.end(other.first, 1, failure("of the third"));
  EXPECT_THAT(said(told), HasSubstr("of the first"));
  EXPECT_THAT(said(fence), HasSubstr("of the second"));
  EXPECT_THAT(said(all.fence()), HasSubstr("of later"));
  EXPECT_EQ(said(all.fence()), ""); // once
}

TEST(operation_table, all_end_when_a_rank_is_lost) {
  operation_table all;
  const auto a = all.begin(1), b = all.begin(2);
  auto done = a.second->done();
  auto fence = all.fence();
  all.abandon(failure("a rank died"));
  EXPECT_THAT(said(done), HasSubstr("a rank died"));
  EXPECT_THAT(said(fence), HasSubstr("a rank died"));
  EXPECT_FALSE(all.end(b.first, 2, nullptr)); // its answer comes too late
}

} // namespace
} // namespace tern::global::detail
