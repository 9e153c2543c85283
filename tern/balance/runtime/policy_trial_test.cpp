// SPDX-License-Identifier: Apache-2.0
#include <tern/balance/runtime/policy_trial.hpp>

#include <gtest/gtest.h>

namespace tern::balance::detail {
namespace {

/// A rank whose share depends on whether the policy acts.
struct rank {
  policy_trial trial;
  double with = 0.8, without = 0.8;
  std::uint32_t came = 1, went = 1;
  double least = 0.5, most = 0.9; ///< of other ranks
  int acting = 0, aside = 0, turns = 0;

  void run(int windows) {
    for (int i = 0; i < windows; ++i) {
      ++(trial.acts() ? acting : aside);
      const bool acts = trial.acts();
      turns += trial.end_window({acts ? with : without, acts ? came : 0, acts ? went : 0, least, most});
    }
  }
  void forget() { acting = aside = turns = 0; }
};

TEST(policy_trial, a_policy_without_gain_stands_aside_for_ever_longer) {
  rank r{.with = 0.7, .without = 0.75};
  EXPECT_TRUE(r.trial.acts());
  r.run(100);
  EXPECT_LE(r.acting, 40);
  EXPECT_TRUE(r.trial.brings_nothing() || r.trial.acts());
  r.run(1000);
  r.forget();
  r.run(3000);
  EXPECT_LE(r.acting, 60);
  EXPECT_GE(r.acting, 3) << "it is tried again";
}

// What is even cannot be made more so.
TEST(policy_trial, where_ranks_are_alike_it_soon_stands_aside) {
  rank r{.with = 0.8, .without = 0.8, .least = 0.78, .most = 0.85};
  r.run(200);
  EXPECT_LE(r.acting, 15);
  rank alone{.least = -1, .most = -1};
  alone.run(200);
  EXPECT_LE(alone.acting, 15);
}

// Not if it is the policy that makes them so.
TEST(policy_trial, where_ranks_are_alike_thanks_to_it_it_acts) {
  rank r{.with = 0.9, .without = 0.6, .least = 0.88, .most = 0.92};
  r.run(1000);
  EXPECT_LE(r.aside, 60);
}

TEST(policy_trial, what_changes_nothing_stands_aside_too) {
  rank r;
  r.run(1000);
  EXPECT_LE(r.acting, 100);
}

TEST(policy_trial, a_policy_of_use_acts_nearly_always) {
  rank r{.with = 0.9, .without = 0.6};
  r.run(1000);
  EXPECT_LE(r.aside, 30);
  EXPECT_GE(r.aside, 2) << "it is known what would be without it";
}

TEST(policy_trial, a_rank_from_which_others_take_does_not_judge) {
  rank r{.with = 0.99, .without = 0.99, .came = 0, .went = 2};
  r.run(1000);
  EXPECT_EQ(r.aside, 0);
  r.went = 0; // they take no more
  r.run(50);
  EXPECT_GT(r.aside, 0);
}

TEST(policy_trial, as_long_as_the_share_grows_it_acts) {
  rank r{.with = 0.3, .without = 0.3};
  for (int i = 0; i < 40; ++i) {
    r.with *= 1.02;
    r.run(1);
  }
  EXPECT_EQ(r.aside, 0);
}

TEST(policy_trial, another_load_is_looked_at_at_once) {
  rank r{.with = 0.7, .without = 0.75};
  r.run(2000);
  while (r.trial.acts()) r.run(1);
  r.run(8);
  r.forget();
  r.without = 0.4; // and now the policy would help
  r.with = 0.9;
  r.run(20);
  EXPECT_GT(r.acting, 0);
  r.run(1000);
  EXPECT_GT(r.acting, 900);
}

TEST(policy_trial, chance_is_no_other_load) {
  rank r{.with = 0.7, .without = 0.75};
  r.run(500);
  while (r.trial.acts()) r.run(1);
  r.run(8);
  for (int i = 0; i < 10; ++i) {
    r.without = 0.55; // one window
    r.run(1);
    r.without = 0.75;
    r.run(4);
  }
  EXPECT_LE(r.turns, 16);
  EXPECT_FALSE(r.trial.acts());
}

TEST(policy_trial, can_be_woken) {
  rank r{.with = 0.7, .without = 0.75};
  EXPECT_FALSE(r.trial.wake()) << "it acts";
  r.run(40);
  while (r.trial.acts()) r.run(1);
  EXPECT_TRUE(r.trial.wake());
  EXPECT_TRUE(r.trial.acts());
  r.run(20);
  r.trial.start();
  EXPECT_TRUE(r.trial.acts());
  EXPECT_LT(r.trial.recent(), 0);
}

TEST(policy_trial, the_same_windows_give_the_same_decisions) {
  rank a{.with = 0.8, .without = 0.79}, b = a;
  std::uint32_t random = 7;
  for (int i = 0; i < 2000; ++i) {
    random = random * 1664525 + 1013904223;
    a.with = b.with = 0.6 + 0.3 * (random >> 16) / 65536.0;
    a.run(1);
    b.run(1);
    ASSERT_EQ(a.trial.acts(), b.trial.acts());
  }
}

} // namespace
} // namespace tern::balance::detail
