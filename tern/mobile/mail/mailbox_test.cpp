// SPDX-License-Identifier: Apache-2.0
#include <tern/mobile/mail/mailbox.hpp>

#include <array>
#include <vector>

#include <gtest/gtest.h>

namespace tern::mobile::detail {
namespace {

TEST(mail_list, what_is_put_in_front_comes_first) {
  std::array<mail, 5> all;
  mail_list list, taken;
  EXPECT_EQ(list.pop(), nullptr);
  for (std::size_t i = 0; i < 3; ++i) list.push(&all[i]);
  taken = list.take();
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(taken.pop(), &all[0]);
  for (std::size_t i = 3; i < 5; ++i) list.push(&all[i]);
  list.prepend(taken.take());
  list.prepend(taken.take()); // nothing
  for (std::size_t i = 1; i < 5; ++i) EXPECT_EQ(list.pop(), &all[i]);
  EXPECT_TRUE(list.empty());
  list.prepend(mail_list());
  list.push(&all[0]);
  EXPECT_EQ(list.pop(), &all[0]);
}

TEST(mail_list, also_where_there_was_nothing) {
  std::array<mail, 2> all;
  mail_list front, list;
  front.push(&all[0]);
  list.prepend(front.take());
  list.push(&all[1]);
  EXPECT_EQ(list.pop(), &all[0]);
  EXPECT_EQ(list.pop(), &all[1]);
}

TEST(home_choice, an_object_goes_where_its_messages_come_from) {
  home_choice c;
  int home = 0;
  for (int i = 0; i < 100 && home == 0; ++i) home = c.sent_by(1, home);
  EXPECT_EQ(home, 1);
  EXPECT_EQ(c.sent_by(1, home), 1);
}

TEST(home_choice, neighbours_on_both_sides_leave_it_where_it_is) {
  home_choice c;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(c.sent_by(1, 0), 0);
    EXPECT_EQ(c.sent_by(0, 0), 0);
  }
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(c.sent_by(1 + i % 3, 0), 0); // nor any of many
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(c.sent_by(-1, 0), 0);        // nor a thread that is no worker
}

TEST(home_choice, one_theft_changes_nothing_and_many_do) {
  home_choice c;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(c.delivered_by(1, 0), 0);
    for (int k = 0; k < 2; ++k) EXPECT_EQ(c.delivered_by(0, 0), 0);
  }
  int home = 0, thefts = 0;
  for (; home == 0 && thefts < 100; ++thefts) { // in turn with its home
    home = c.delivered_by(1, home);
    if (home == 0) home = c.delivered_by(0, home);
  }
  EXPECT_EQ(home, 1);
  EXPECT_EQ(thefts, 63);
}

} // namespace
} // namespace tern::mobile::detail
