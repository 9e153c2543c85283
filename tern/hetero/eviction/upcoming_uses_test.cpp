// SPDX-License-Identifier: Apache-2.0
// What is used next, and what goes first.
#include <tern/hetero/eviction/upcoming_uses.hpp>

#include <algorithm>
#include <array>
#include <deque>
#include <initializer_list>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include <tern/hetero/eviction/eviction_rank.hpp>
#include <tern/hetero/eviction/memory_reserve.hpp>

namespace tern::hetero::detail {
namespace {

const box all_of_it{{0, 0, 0}, {1, 1, 100}};
box some(std::int32_t low, std::int32_t high) { return {{0, 0, low}, {1, 1, high}}; }

class upcoming_uses_test : public testing::Test {
protected:
  struct used {
    std::size_t object;
    access_mode how;
    box part = all_of_it;
  };
  /// Objects are told apart by their addresses only.
  const object_state& object(std::size_t i) const {
    return *reinterpret_cast<const object_state*>(&places[i]); // address: of a place
  }
  task_record& submit(std::initializer_list<used> uses) {
    task_record& t = tasks.emplace_back();
    for (const used& u : uses) {
      use& x = t.slots[t.use_count++].of;
      x.object = const_cast<object_state*>(&object(u.object));
      x.part = u.part;
      x.how = u.how;
      x.noted = false;
    }
    upcoming.note(t);
    return t;
  }
  std::optional<use_order> next(std::size_t i, const box& part = all_of_it, std::uint8_t device = 1) const {
    return upcoming.next(object(i), part, device);
  }
  /// In the order of their next uses; those without any are left out.
  std::vector<std::size_t> objects_by_next_use() const {
    std::vector<std::pair<use_order, std::size_t>> order;
    for (std::size_t i = 0; i < places.size(); ++i)
      if (const auto n = next(i)) order.emplace_back(*n, i);
    std::sort(order.begin(), order.end());
    std::vector<std::size_t> numbers;
    for (const auto& [when, i] : order) numbers.push_back(i);
    return numbers;
  }

  std::array<int, 8> places{};
  std::deque<task_record> tasks;
  upcoming_uses upcoming;
};

constexpr access_mode reading = access_mode::read, changing = access_mode::read_write;
using numbers = std::vector<std::size_t>;

TEST_F(upcoming_uses_test, are_in_the_order_of_submission) {
  upcoming.start(0);
  EXPECT_TRUE(upcoming.complete());
  task_record& first = submit({{3, changing}});
  submit({{1, reading}, {2, changing}});
  submit({{3, reading}});
  EXPECT_EQ(objects_by_next_use(), (numbers{3, 1, 2}));
  EXPECT_EQ(upcoming.tasks(), 3u);
  upcoming.ended(first);
  EXPECT_EQ(objects_by_next_use(), (numbers{1, 2, 3}));
  EXPECT_FALSE(next(0));
}

// Chains that are submitted one after the other run beside each other.
TEST_F(upcoming_uses_test, of_chains_are_level_by_level) {
  upcoming.start(0);
  std::vector<task_record*> of_first;
  for (int i = 0; i < 3; ++i) of_first.push_back(&submit({{0, changing}}));
  submit({{0, reading}, {4, changing}}); // the fourth of its chain
  for (int i = 0; i < 3; ++i) submit({{1, changing}});
  submit({{1, reading}, {5, changing}});
  EXPECT_EQ(objects_by_next_use(), (numbers{0, 1, 4, 5}));
  upcoming.ended(*of_first[0]);
  EXPECT_EQ(objects_by_next_use(), (numbers{1, 0, 4, 5})) << "what is next of the other has not run";
}

// Readers of the same have nothing to do with each other; what comes later goes on from where the
// device is.
TEST_F(upcoming_uses_test, of_new_tasks_come_after_what_has_run) {
  upcoming.start(0);
  task_record& writer = submit({{0, access_mode::write}});
  submit({{0, reading}, {1, changing}});
  submit({{0, reading}, {2, changing}});
  EXPECT_EQ(next(1, all_of_it, upcoming_uses::any_device)->turn, next(2, all_of_it, upcoming_uses::any_device)->turn);
  upcoming.ended(writer);
  const task_record& late = submit({{3, changing}});
  EXPECT_TRUE(late.slots[0].of.noted);
  EXPECT_EQ(objects_by_next_use(), (numbers{3, 0, 1, 2})) << "it is ready at once";
}

// A chain goes to the end of the queue with what is left of it after a run, as long as runs were.
TEST_F(upcoming_uses_test, of_chains_take_turns) {
  upcoming.start(0);
  const auto run = [&](std::span<task_record* const> chain) { // up to its last task, which has no place behind
    for (task_record* t : chain.first(chain.size() - 1)) {
      if (t != chain.front()) upcoming.follows(*t);
      upcoming.ended(*t);
    }
    upcoming.ready(*chain.back());
  };
  for (int i = 0; i < 40; ++i) {
    std::vector<task_record*> four;
    for (int k = 0; k < 4; ++k) four.push_back(&submit({{3, changing}}));
    upcoming.ready(*four[0]);
    run(four);
    upcoming.ended(*four[3]);
  }
  std::array<std::vector<task_record*>, 3> chains; // two steps of each read 4, two 5, then 6, then 7
  for (std::size_t c = 0; c < 3; ++c)
    for (std::size_t step = 0; step < 8; ++step) chains[c].push_back(&submit({{4 + step / 2, reading}, {c, changing}}));
  for (const auto& c : chains) upcoming.ready(*c[0]);
  EXPECT_EQ(objects_by_next_use(), (numbers{0, 4, 5, 1, 2, 6, 7}));
  run(std::span(chains[0]).first(4));
  EXPECT_EQ(objects_by_next_use(), (numbers{1, 4, 5, 2, 0, 6, 7}));
}

// As in a factorization: what waits for others comes after what is ready, by levels.
TEST_F(upcoming_uses_test, of_chains_that_wait_come_after_those_that_are_ready) {
  upcoming.start(0);
  task_record& head = submit({{0, changing}});
  submit({{0, reading}, {1, changing}});
  submit({{0, reading}, {1, reading}, {2, changing}});
  task_record& other = submit({{4, changing}});
  upcoming.ready(head);
  upcoming.ready(other);
  EXPECT_EQ(objects_by_next_use(), (numbers{0, 4, 1, 2}));
}

TEST_F(upcoming_uses_test, of_other_parts_and_devices_do_not_count) {
  upcoming.start(0);
  submit({{0, changing, some(0, 50)}});
  task_record elsewhere;
  elsewhere.flags |= task_record::extended;
  elsewhere.device_mask = 1 << 2;
  elsewhere.use_count = 1;
  elsewhere.slots[0].of.object = const_cast<object_state*>(&object(1));
  elsewhere.slots[0].of.part = all_of_it;
  elsewhere.slots[0].of.how = reading;
  elsewhere.slots[0].of.noted = false;
  upcoming.note(elsewhere);
  EXPECT_TRUE(next(0, some(49, 60)));
  EXPECT_FALSE(next(0, some(50, 60)));
  EXPECT_FALSE(next(1));
  EXPECT_TRUE(next(1, all_of_it, 2));
}

TEST_F(upcoming_uses_test, an_object_that_a_task_uses_twice_is_forgotten_with_it) {
  upcoming.start(0);
  task_record& t = submit({{0, reading, some(0, 10)}, {0, changing, some(20, 30)}, {1, changing}});
  EXPECT_TRUE(next(0, some(5, 6)));
  EXPECT_TRUE(next(0, some(25, 26)));
  upcoming.ended(t);
  EXPECT_EQ(objects_by_next_use(), numbers{});
  EXPECT_EQ(upcoming.tasks(), 0u);
}

TEST_F(upcoming_uses_test, what_was_submitted_before_may_use_anything) {
  EXPECT_FALSE(upcoming.on());
  EXPECT_FALSE(upcoming.complete());
  upcoming.start(2);
  upcoming.start(0); // once
  EXPECT_TRUE(upcoming.on());
  EXPECT_FALSE(upcoming.complete());
  upcoming.ended(submit({{0, changing}}));
  EXPECT_FALSE(upcoming.complete());
  task_record before; // one of the two
  upcoming.ended(before);
  EXPECT_TRUE(upcoming.complete());
  EXPECT_EQ(upcoming.tasks(), 0u);
}

// Whatever the order in which they end.
TEST_F(upcoming_uses_test, that_have_ended_are_found_among_many) {
  upcoming.start(0);
  std::vector<task_record*> all;
  for (int i = 0; i < 60; ++i) all.push_back(&submit({{0, reading}, {static_cast<std::size_t>(1 + i % 3), changing}}));
  for (std::size_t step : {3u, 2u, 1u}) // some from front to back, then others
    for (std::size_t i = 0; i < all.size(); i += step)
      if (task_record*& t = all[i]) {
        upcoming.ended(*t);
        t = nullptr;
        std::size_t left = 0;
        for (const task_record* x : all) left += x ? 1 : 0;
        EXPECT_EQ(upcoming.tasks(), left);
        EXPECT_EQ(next(0).has_value(), left > 0);
      }
  EXPECT_EQ(objects_by_next_use(), numbers{});
  EXPECT_EQ(upcoming.objects(), 0u);
}

TEST_F(upcoming_uses_test, are_bounded) {
  upcoming.start(0);
  for (std::size_t i = 0; i < upcoming_uses::most_tasks; ++i) submit({{i % 8, changing}});
  const task_record& one_more = submit({{0, changing}});
  EXPECT_FALSE(one_more.slots[0].of.noted);
  EXPECT_EQ(upcoming.tasks(), upcoming_uses::most_tasks);
  for (task_record& t : tasks)
    if (upcoming_uses::are_noted(t)) upcoming.ended(t); // in order, as memory goes by halves
  EXPECT_EQ(objects_by_next_use(), numbers{});
  EXPECT_EQ(upcoming.objects(), 0u);
}

TEST(eviction_rank, is_by_what_is_known) {
  const auto clean = eviction_rank::of_idle(true, 9), dirty = eviction_rank::of_idle(false, 1);
  const auto soon = eviction_rank::of_next({1, 7}), later = eviction_rank::of_next({1, 8}),
             last = eviction_rank::of_next({2, 3}), saved = eviction_rank::of_next({1, 1}, true);
  const auto old = eviction_rank::of_unknown(4), recent = eviction_rank::of_unknown(5);
  const std::vector<eviction_rank> order{clean, dirty, saved, last, later, soon, old, recent};
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(std::adjacent_find(order.begin(), order.end()), order.end()) << "all differ";
}

TEST(memory_reserve, grows_with_stalls) {
  memory_reserve r;
  EXPECT_EQ(r.mark(1000), 50u);
  EXPECT_FALSE(r.is_low(1000, 950));
  EXPECT_TRUE(r.is_low(1000, 951));
  for (int i = 0; i < 9; ++i) r.stalled();
  EXPECT_EQ(r.percent(), memory_reserve::most_percent);
  EXPECT_EQ(r.mark(1000), 200u);
  EXPECT_EQ(memory_reserve::batch(8000, 7), 100u);
  EXPECT_EQ(memory_reserve::batch(8000, 700), 700u);
}

} // namespace
} // namespace tern::hetero::detail
