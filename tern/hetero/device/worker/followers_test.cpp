// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/device/worker/followers.hpp>

#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tern::hetero::detail {
namespace {

using state = followers::state;
using testing::ElementsAre;
using testing::IsEmpty;

/// Tasks and edges, as `dependencies` makes them.
class graph {
public:
  task_record* task() { return &tasks_.emplace_back(); }
  void edge(task_record* before, task_record* t, std::uintptr_t kind = data_edge) {
    link& l = links_.emplace_back();
    const std::uintptr_t head = before->successors.load();
    l.next = reinterpret_cast<link*>(head & ~watched_list);
    l.target = reinterpret_cast<std::uintptr_t>(t) | kind;
    before->successors.store(reinterpret_cast<std::uintptr_t>(&l) | (head & watched_list));
    ++edges_[t];
  }
  /// All edges have been made.
  void submit(task_record* t) { t->pending = edges_[t]; }

private:
  std::deque<task_record> tasks_;
  std::deque<link> links_;
  std::map<task_record*, int> edges_;
};

/// Those that are offered, which stay so.
std::vector<task_record*> offered(followers& f) {
  std::vector<task_record*> all;
  f.look();
  f.each_offered([&](task_record* t, followers::successor& s) {
    all.push_back(t);
    s.is = state::decided;
  });
  return all;
}

std::vector<std::pair<int, ticket>> places(const followers::successor& s) {
  std::vector<std::pair<int, ticket>> all;
  for (const followers::place& p : s.after) all.emplace_back(p.stream, p.end);
  return all;
}

TEST(followers, are_offered_when_all_that_they_wait_for_is_given) {
  graph g;
  followers f;
  task_record *const a = g.task(), *const b = g.task(), *const c = g.task();
  g.edge(a, c);
  g.edge(b, c, order_edge);
  g.submit(c);
  f.given(a, {2, 1, 11});
  EXPECT_THAT(offered(f), IsEmpty()); // it follows b, too
  f.given(b, {3, 2, 12});
  bool called = false;
  f.look();
  f.each_offered([&](task_record* t, followers::successor& s) {
    called = true;
    EXPECT_EQ(t, c);
    EXPECT_THAT(places(s), ElementsAre(std::pair(2, 11), std::pair(3, 12)));
    s.is = state::decided;
  });
  EXPECT_TRUE(called);
  EXPECT_THAT(offered(f), IsEmpty()); // once
}

TEST(followers, are_found_when_another_predecessor_has_ended_elsewhere) {
  graph g;
  followers f;
  task_record *const a = g.task(), *const on_host = g.task(), *const c = g.task();
  g.edge(a, c);
  g.edge(on_host, c);
  g.submit(c);
  f.given(a, {2, 1, 11});
  EXPECT_THAT(offered(f), IsEmpty());
  --c->pending;
  EXPECT_THAT(offered(f), ElementsAre(c));
}

TEST(followers, that_are_not_submitted_yet_are_found_later) {
  graph g;
  followers f;
  task_record *const a = g.task(), *const b = g.task();
  f.given(a, {2, 1, 11});
  EXPECT_THAT(offered(f), IsEmpty());
  g.edge(a, b);
  EXPECT_THAT(offered(f), IsEmpty()); // it may get more to follow
  g.submit(b);
  EXPECT_THAT(offered(f), ElementsAre(b));
}

// For these an event is recorded before `next` comes behind the task in its stream.
TEST(followers, want_an_end_before_that_of_what_comes_next) {
  graph g;
  followers f;
  task_record *const a = g.task(), *const b = g.task(), *const next = g.task(), *const both = g.task(),
                     *const other = g.task();
  const auto can_be_given = [&](const task_record& t) { return &t != other; };
  const auto wanted = [&] {
    f.look();
    return f.is_end_wanted(*a, next, can_be_given);
  };
  f.given(a, {2, 1, 11});
  EXPECT_FALSE(wanted());
  g.edge(a, next);
  EXPECT_FALSE(wanted()); // it is being submitted
  g.submit(next);
  EXPECT_FALSE(wanted());
  EXPECT_TRUE(f.is_end_wanted(*a, b, can_be_given)); // another stands behind it
  for (task_record* before : {a, b, next}) g.edge(before, both);
  g.submit(both);
  EXPECT_FALSE(wanted()); // as it waits for `next`, too
  --both->pending;        // which was not so
  EXPECT_FALSE(wanted()); // b has not been given
  f.given(b, {3, 2, 12});
  EXPECT_TRUE(wanted());
  both->pending = 3;
  EXPECT_FALSE(wanted());
  for (task_record* before : {a, b}) g.edge(before, other);
  other->pending = 3;
  EXPECT_TRUE(wanted()); // on the host, or elsewhere
}

TEST(followers, want_an_end_for_a_hook) {
  graph g;
  followers f;
  task_record *const a = g.task(), *const next = g.task(), *const hook = g.task();
  f.given(a, {2, 1, 11});
  g.edge(a, next);
  g.submit(next);
  EXPECT_FALSE(f.is_end_wanted(*a, next, [](const task_record&) { return true; }));
  g.edge(a, hook, hook_edge);
  EXPECT_TRUE(f.is_end_wanted(*a, next, [](const task_record&) { return true; }));
}

// Also behind several in one stream: each of them may fail, or not be done.
TEST(followers, come_behind_all_that_have_not_ended) {
  graph g;
  followers f;
  task_record *const a = g.task(), *const b = g.task(), *const c = g.task();
  for (task_record* before : {a, b, b}) g.edge(before, c); // two edges are two that it waits for
  g.submit(c);
  f.given(a, {2, 1, 11});
  f.given(b, {2, 2, 12});
  f.look();
  f.each_offered([&](task_record*, followers::successor& s) {
    EXPECT_THAT(places(s), ElementsAre(std::pair(2, 11), std::pair(2, 12), std::pair(2, 12)));
  });
  f.ended(a);
  --c->pending;
  int calls = 0;
  f.each_offered([&](task_record*, followers::successor& s) { // it had stayed
    ++calls;
    EXPECT_THAT(places(s), ElementsAre(std::pair(2, 12), std::pair(2, 12)));
  });
  EXPECT_EQ(calls, 1);
  f.ended(b);
  EXPECT_TRUE(f.empty());
  EXPECT_THAT(offered(f), IsEmpty()); // it goes the way of others
}

TEST(followers, stay_in_line_behind_one_that_stays) {
  graph g;
  followers f;
  task_record* const a = g.task();
  std::vector<task_record*> all;
  for (int i = 0; i < 3; ++i) {
    all.push_back(g.task());
    g.edge(a, all.back());
    g.submit(all.back());
  }
  f.given(a, {2, 1, 11});
  f.look();
  std::vector<task_record*> asked;
  f.each_offered([&](task_record* t, followers::successor& s) {
    asked.push_back(t);
    if (asked.size() == 1) s.is = state::decided;
  });
  EXPECT_THAT(asked, ElementsAre(all[2], all[1])); // the last to come stands first in lists
  EXPECT_THAT(offered(f), ElementsAre(all[1], all[0]));
}

TEST(followers, that_are_prepared_wait_for_their_copies) {
  graph g;
  followers f;
  task_record *const a = g.task(), *const b = g.task();
  g.edge(a, b);
  g.submit(b);
  f.given(a, {2, 1, 11});
  f.look();
  f.each_offered([&](task_record* t, followers::successor& s) {
    ++t->pending; // a copy
    s.is = state::prepared;
  });
  EXPECT_EQ(f.prepared(), 1u);
  const auto ready = [&] {
    std::vector<task_record*> all;
    f.each_prepared([&](task_record* t, followers::successor& s) {
      all.push_back(t);
      s.is = state::decided;
    });
    return all;
  };
  EXPECT_THAT(ready(), IsEmpty());
  --b->pending;
  EXPECT_THAT(ready(), ElementsAre(b));
  EXPECT_EQ(f.prepared(), 0u);
}

TEST(followers, are_told_anew_where_what_they_follow_is_launched_again) {
  graph g;
  followers f;
  task_record *const a = g.task(), *const b = g.task();
  g.edge(a, b);
  g.submit(b);
  f.given(a, {2, 1, 11});
  EXPECT_THAT(offered(f), ElementsAre(b));
  f.ended(a);
  f.given(a, {3, 2, 12});
  f.look();
  f.each_offered([&](task_record* t, followers::successor& s) {
    EXPECT_EQ(t, b);
    EXPECT_THAT(places(s), ElementsAre(std::pair(3, 12)));
  });
}

TEST(followers, are_tasks_and_not_what_else_happens_then) {
  graph g;
  followers f;
  task_record* const a = g.task();
  completion_hook hook{};
  hook.edge = {nullptr, reinterpret_cast<std::uintptr_t>(&hook) | hook_edge};
  a->successors = reinterpret_cast<std::uintptr_t>(&hook.edge);
  f.given(a, {2, 1, 11});
  EXPECT_THAT(offered(f), IsEmpty());
  f.ended(a);
  f.ended(a); // nothing happens
  EXPECT_TRUE(f.empty());
}

// Many that follow others as well are looked at in turn.
TEST(followers, of_many_are_all_found_in_some_rounds) {
  graph g;
  followers f;
  task_record *const a = g.task(), *const other = g.task();
  std::vector<task_record*> all;
  constexpr int many = 100;
  for (int i = 0; i < many; ++i) {
    all.push_back(g.task());
    g.edge(a, all.back());
    g.edge(other, all.back());
    g.submit(all.back());
  }
  f.given(a, {2, 1, 11});
  EXPECT_THAT(offered(f), IsEmpty());
  for (task_record* t : all) --t->pending;
  std::size_t found = 0;
  for (int rounds = 0; rounds < many; ++rounds) found += offered(f).size();
  EXPECT_EQ(found, all.size());
}

} // namespace
} // namespace tern::hetero::detail
