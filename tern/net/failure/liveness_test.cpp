// SPDX-License-Identifier: Apache-2.0
#include <tern/net/failure/liveness.hpp>

#include <functional>
#include <string>

#include <gtest/gtest.h>

namespace tern::net::detail {
namespace {

using kind = liveness::kind;

/// Ticks from `*now` on for so many seconds. \return what was found, as "2 killed, 3 ask", in
/// order.
std::string go_on(liveness& l, double& now, double seconds, const std::function<void()>& each = {}, double tick = 0.5) {
  static constexpr const char* words[] = {"", "ask", "debugged", "stopped", "left", "killed", "silent"};
  std::string all;
  for (const double end = now + seconds; now < end - 1e-9;) {
    now += tick;
    if (each) each();
    for (const auto& f : l.tick(now)) {
      EXPECT_LE(f.since, now);
      all += (all.empty() ? "" : ", ") + std::to_string(f.rank) + " " + words[static_cast<std::size_t>(f.what)];
    }
  }
  return all;
}

TEST(liveness, who_runs_may_be_silent_for_ever) {
  liveness l({.silence = 2}, 0);
  double now = 100;
  l.watch(1, now);
  l.seen(1, process_sign::runs, now);
  EXPECT_EQ(go_on(l, now, 10'000), "");
}

TEST(liveness, who_was_killed_is_found_at_once_and_once) {
  liveness l({}, 0);
  double now = 100;
  l.watch(1, now);
  l.watch(1, now);
  l.watch(2, now);
  for (const int r : {1, 2}) l.seen(r, process_sign::runs, now);
  EXPECT_EQ(go_on(l, now, 10), "");
  l.seen(2, process_sign::killed, now);
  const auto found = l.tick(now + 0.001);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rank, 2);
  EXPECT_EQ(found[0].what, kind::killed);
  EXPECT_EQ(found[0].since, now);
  l.seen(1, process_sign::killed, now + 0.002);
  EXPECT_EQ(go_on(l, now, 100), "1 killed");
}

TEST(liveness, who_leaves_leaves_its_launcher_time) {
  liveness l({.tick = 0.5, .grace = 2}, 0);
  double now = 0;
  l.watch(1, now);
  l.seen(1, process_sign::left, now);
  EXPECT_EQ(go_on(l, now, 1.5), "");
  EXPECT_EQ(go_on(l, now, 100), "1 left");
}

TEST(liveness, only_who_is_stopped_for_long_is_lost) {
  liveness l({.limit = 5}, 0);
  double now = 7;
  l.watch(3, now);
  for (int i = 0; i < 10; ++i) { // it goes on each time
    l.seen(3, process_sign::stopped, now);
    EXPECT_EQ(go_on(l, now, 4.5), "");
    l.seen(3, process_sign::runs, now);
    EXPECT_EQ(go_on(l, now, 0.5), "");
  }
  l.seen(3, process_sign::stopped, now);
  const double since = now;
  EXPECT_EQ(go_on(l, now, 4.5), "");
  const auto found = l.tick(now += 0.5);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].what, kind::stopped);
  EXPECT_EQ(found[0].since, since);
  EXPECT_EQ(go_on(l, now, 100), "");
}

TEST(liveness, who_is_debugged_is_told_of_once) {
  liveness l({.limit = 5}, 0);
  double now = 0;
  l.watch(1, now);
  for (int i = 0; i < 3; ++i) {
    l.seen(1, process_sign::traced, now);
    EXPECT_EQ(go_on(l, now, 1000), i == 0 ? "1 debugged" : "");
    l.seen(1, process_sign::runs, now);
    EXPECT_EQ(go_on(l, now, 10), "");
  }
}

// All are stopped, by a batch system or with the machine, and go on one after the other.
TEST(liveness, who_was_stopped_himself_has_seen_nothing_meanwhile) {
  liveness l({.limit = 5, .silence = 5}, 0);
  double now = 0;
  l.watch(1, now);
  l.watch(2, now);
  EXPECT_EQ(go_on(l, now, 1), "1 ask, 2 ask, 0 ask");
  l.heard(0, now);
  l.seen(1, process_sign::stopped, now); // just before we are
  now += 3600;
  EXPECT_EQ(go_on(l, now, 4), "0 ask");
  l.heard(0, now);
  l.heard(2, now);
  l.seen(1, process_sign::runs, now);
  EXPECT_EQ(go_on(l, now, 0.5), "");
  EXPECT_EQ(go_on(l, now, 0.5), "2 ask, 0 ask");
}

TEST(liveness, who_does_not_answer_is_lost) {
  liveness l({.silence = 3, .ask_after = 1}, 0);
  double now = 50;
  l.watch(4, now);
  const auto self_answers = [&] { l.heard(0, now); };
  EXPECT_EQ(go_on(l, now, 0.5, self_answers), "4 ask, 0 ask") << "both are asked first of all";
  EXPECT_EQ(go_on(l, now, 2.5, self_answers), "");
  EXPECT_EQ(go_on(l, now, 0.5, self_answers), "4 silent");
  EXPECT_EQ(go_on(l, now, 100, self_answers), "");
}

TEST(liveness, an_old_answer_is_none) {
  liveness l({.silence = 3, .ask_after = 1}, 0);
  double now = 50;
  l.watch(4, now);
  EXPECT_EQ(go_on(l, now, 0.5), "4 ask, 0 ask");
  const double answered = now + 0.1;
  const auto told_again = [&] {
    l.heard(0, now);
    l.heard(4, answered);
  };
  EXPECT_EQ(go_on(l, now, 1, told_again), "");
  EXPECT_EQ(go_on(l, now, 0.5, told_again), "4 ask");
  EXPECT_EQ(go_on(l, now, 3, told_again), "4 silent");
}

TEST(liveness, who_sends_is_asked_once) {
  liveness l({.silence = 3, .ask_after = 1}, 0);
  double now = 50;
  l.watch(4, now);
  EXPECT_EQ(go_on(l, now, 100, [&] { l.heard(4, now - 0.3); }), "4 ask, 0 ask");
}

TEST(liveness, who_answers_late_is_asked_again) {
  liveness l({.silence = 3, .ask_after = 1}, 0);
  double now = 50;
  l.watch(4, now);
  for (int i = 0; i < 20; ++i) {
    const std::string found = go_on(l, now, 2.5, [&] { l.heard(0, now); });
    EXPECT_EQ(found.find("silent"), std::string::npos) << found;
    l.heard(4, now);
    l.heard(0, now);
  }
  EXPECT_EQ(go_on(l, now, 1), "4 ask, 0 ask");
}

// Its question has not even left: the owner of its messages has no time.
TEST(liveness, who_computes_himself_blames_nobody) {
  liveness l({.silence = 3, .ask_after = 1}, 0);
  double now = 50;
  l.watch(4, now);
  EXPECT_EQ(go_on(l, now, 0.5), "4 ask, 0 ask");
  EXPECT_EQ(go_on(l, now, 600), "");
  l.heard(0, now); // rank 0 has time again, and 4 has had its question for a moment
  EXPECT_EQ(go_on(l, now, 1), "0 ask");
  l.heard(0, now);
  l.heard(4, now);
  EXPECT_EQ(go_on(l, now, 0.5), "");
  EXPECT_EQ(go_on(l, now, 0.5), "4 ask, 0 ask");
}

TEST(liveness, without_a_limit_nobody_is_asked) {
  liveness l({.silence = 0}, 0);
  double now = 0;
  l.watch(1, now);
  EXPECT_EQ(go_on(l, now, 10'000), "");
}

} // namespace
} // namespace tern::net::detail
