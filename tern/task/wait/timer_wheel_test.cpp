// SPDX-License-Identifier: Apache-2.0
// Timers against std::multimap, whose order (by key, equal keys in the order inserted) is the one
// that wheels promise.
#include <tern/task/wait/timer_wheel.hpp>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <tern/task/fiber/sanitizer.hpp>

namespace {

using tern::detail::timer;
using tern::detail::timer_wheel;
using moment = std::int64_t;

constexpr moment never = timer_wheel::never;
constexpr moment second = 1'000'000'000, hour = 3600 * second, year = 8766 * hour;

/// The sum, or `never` if that is earlier.
moment later(moment from, moment by) { return by > never - from ? never : from + by; }

struct armed_timer : timer {
  std::multimap<moment, armed_timer*>::iterator place;
};

/// A wheel and its model. Each operation is done to both, and they are compared.
class checked_wheel {
public:
  explicit checked_wheel(moment start = 0) : wheel_(start), now_(start) {}
  moment now() const { return now_; }
  moment next() const { return wheel_.next(); }
  bool empty() const { return wheel_.empty(); }

  void add(moment deadline) {
    if (unused_.empty()) unused_.push_back(&all_.emplace_back());
    armed_timer* t = unused_.back();
    unused_.pop_back();
    t->deadline = deadline;
    t->place = model_.emplace(deadline, t);
    wheel_.add(*t);
    EXPECT_TRUE(t->armed);
    check();
  }
  /// Removes any one, if there is one.
  void remove(std::size_t which) {
    if (all_.empty()) return;
    armed_timer& t = all_[which % all_.size()];
    if (t.armed) {
      model_.erase(t.place);
      unused_.push_back(&t);
    }
    wheel_.remove(t);
    EXPECT_FALSE(t.armed);
    check();
  }
  /// \return how many fired.
  std::size_t advance(moment time) {
    now_ = std::max(now_, time);
    std::size_t count = 0;
    const timer* fired = wheel_.advance(time);
    for (; fired && !model_.empty(); fired = fired->next, ++count) {
      auto first = model_.begin();
      EXPECT_LE(first->first, now_);
      EXPECT_EQ(fired, first->second) << "at " << now_ << ": " << fired->deadline << " before " << first->first;
      if (fired != first->second) break;
      EXPECT_FALSE(fired->armed);
      unused_.push_back(first->second);
      model_.erase(first);
    }
    EXPECT_EQ(fired, nullptr);
    EXPECT_TRUE(model_.empty() || model_.begin()->first > now_);
    check();
    return count;
  }

private:
  void check() const {
    EXPECT_EQ(wheel_.now(), now_);
    EXPECT_EQ(wheel_.size(), model_.size());
    EXPECT_EQ(wheel_.empty(), model_.empty());
    if (model_.empty()) {
      EXPECT_EQ(wheel_.next(), never);
    } else if (moment earliest = model_.begin()->first; earliest <= now_) {
      EXPECT_EQ(wheel_.next(), now_);
    } else {
      EXPECT_GT(wheel_.next(), now_); // or a thread that waits until then would spin
      EXPECT_LE(wheel_.next(), earliest);
    }
  }
  timer_wheel wheel_;
  moment now_;
  std::multimap<moment, armed_timer*> model_;
  std::deque<armed_timer> all_;
  std::vector<armed_timer*> unused_;
};

/// Moments at all distances, often the same ones, often at the ends of slots.
class moments {
public:
  explicit moments(std::uint64_t seed) : random_(seed) {}
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  /// As likely short as long.
  moment distance() { return static_cast<moment>(random_() >> 1 >> below(63)); }
  moment after(moment now) {
    if (below(3) != 0) return later(now, distance());
    // the last of a slot that now is in, and the first of the slot behind
    moment last = now | ((moment{1} << (6 * below(11))) - 1);
    return later(last, static_cast<moment>(below(3)));
  }

private:
  std::mt19937_64 random_;
};

TEST(timer_wheel, starts_empty) {
  timer_wheel wheel(5);
  EXPECT_TRUE(wheel.empty());
  EXPECT_EQ(wheel.size(), 0u);
  EXPECT_EQ(wheel.now(), 5);
  EXPECT_EQ(wheel.next(), never);
  EXPECT_EQ(wheel.advance(7), nullptr);
  EXPECT_EQ(wheel.now(), 7);
  EXPECT_EQ(wheel.advance(6), nullptr);
  EXPECT_EQ(wheel.now(), 7);
  timer t;
  wheel.remove(t);
  EXPECT_EQ(wheel.size(), 0u);
}

TEST(timer_wheel, a_level_takes_memory_when_it_is_used) {
  timer_wheel wheel;
  EXPECT_EQ(wheel.level_bytes(), 0u);
  timer past, first, second_one;
  first.deadline = 500'000'000, second_one.deadline = 510'000'000; // one level
  for (timer* t : {&past, &first, &second_one}) wheel.add(*t);
  EXPECT_EQ(wheel.level_bytes(), 1024u);
  EXPECT_EQ(wheel.advance(0), &past);
  wheel.remove(first);
  wheel.remove(second_one);
  EXPECT_EQ(wheel.level_bytes(), 1024u); // it will be used again
  first.deadline = 1;
  wheel.add(first);
  EXPECT_EQ(wheel.level_bytes(), 2048u);
  wheel.reserve();
  EXPECT_EQ(wheel.level_bytes(), 11 * 1024u);
  EXPECT_EQ(wheel.advance(never), &first);
}

TEST(timer_wheel, fires_at_the_nanosecond) {
  for (moment start : {moment{0}, moment{63}, moment{64}, 1'700'000'000 * second, 500 * hour - 1})
    for (moment wait = 1; wait < 60 * year; wait = wait * 3 - 1 + (wait == 1)) {
      checked_wheel wheel(start);
      wheel.add(start + wait);
      EXPECT_EQ(wheel.next(), start + wait); // alone, so exact
      EXPECT_EQ(wheel.advance(start + wait - 1), 0u);
      EXPECT_EQ(wheel.next(), start + wait);
      EXPECT_EQ(wheel.advance(start + wait), 1u);
    }
}

TEST(timer_wheel, same_deadline_in_the_order_added) {
  // Added from far and from near, and in between others came down: all of these were once in
  // different slots.
  const moment deadline = 3 * hour + 12345;
  checked_wheel wheel;
  for (moment left = deadline; left > 0; left /= 2) {
    wheel.advance(deadline - left);
    for (int i = 0; i < 3; ++i) wheel.add(deadline), wheel.add(deadline + i - 1);
    if (left == 1) wheel.remove(1); // from within
  }
  std::size_t fired = wheel.advance(deadline);
  EXPECT_GT(fired, 100u);
  wheel.advance(deadline + 1);
  EXPECT_TRUE(wheel.empty());
}

TEST(timer_wheel, past_deadlines_fire_at_the_next_advance) {
  checked_wheel wheel(100 * hour);
  for (moment deadline :
       {100 * hour, moment{0}, 100 * hour - 1, moment{7}, moment{0}, 64 * hour, moment{-1}, moment{7}})
    wheel.add(deadline);
  wheel.add(100 * hour + 1);
  EXPECT_EQ(wheel.next(), 100 * hour);
  EXPECT_EQ(wheel.advance(100 * hour), 8u);
  wheel.add(5);
  EXPECT_EQ(wheel.advance(0), 1u); // time does not go back, but it is the next
  wheel.add(5);
  EXPECT_EQ(wheel.advance(200 * hour), 2u);
}

TEST(timer_wheel, removal_of_past_timers) {
  timer_wheel wheel(10);
  timer a, b, c;
  a.deadline = 3, b.deadline = 2, c.deadline = 1;
  for (timer* t : {&a, &b, &c}) wheel.add(*t);
  wheel.remove(b);
  EXPECT_EQ(wheel.advance(10), &c);
  EXPECT_EQ(c.next, &a);
  EXPECT_EQ(a.next, nullptr);
  wheel.add(b);
  wheel.remove(b);
  wheel.remove(b);
  EXPECT_EQ(wheel.next(), never);
  EXPECT_EQ(wheel.advance(11), nullptr);
}

TEST(timer_wheel, every_level_at_its_ends) {
  for (int level = 0; level <= 10; ++level)
    for (moment slot : {moment{1}, moment{2}, moment{7}, moment{8}, moment{63}, moment{64}}) {
      if (level == 10 && slot > 7) continue;
      if (slot > never >> (6 * level)) continue;
      const moment end = slot << (6 * level);
      for (moment before = 0; before <= 2; ++before)
        for (moment step : {moment{1}, moment{2}, moment{63}, moment{64}, moment{65}, end, never}) {
          if (end < before) continue;
          checked_wheel wheel(end - before);
          for (moment offset = -2; offset <= 66; ++offset) wheel.add(later(end, offset)), wheel.add(later(end, 1));
          for (int i = 0; !wheel.empty(); ++i) {
            ASSERT_LT(i, 100);
            wheel.advance(later(wheel.now(), step));
          }
        }
    }
}

TEST(timer_wheel, the_last_moments) {
  for (moment start : {moment{0}, 1'700'000'000 * second, never - 4096, never - 64, never - 2, never - 1}) {
    checked_wheel wheel(start);
    for (moment deadline : {never, never - 1, never, never - 2, never - 63, never - 64, never - 1, never / 2})
      wheel.add(deadline);
    wheel.advance(std::max(start, never - 65));
    for (int i = 0; wheel.now() < never - 1; ++i) {
      ASSERT_LT(i, 50);
      wheel.advance(std::min(wheel.next(), never - 1));
    }
    EXPECT_FALSE(wheel.empty()); // `never` is as good a moment as any, but only at itself
    EXPECT_EQ(wheel.next(), never);
    EXPECT_EQ(wheel.advance(never), 2u);
    wheel.add(never);
    wheel.add(0);
    EXPECT_EQ(wheel.advance(never), 2u);
    EXPECT_TRUE(wheel.empty());
  }
}

TEST(timer_wheel, all_next_moments_in_a_row) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    moments random(seed);
    checked_wheel wheel(random.distance() / 2);
    const std::size_t count = 1 + random.below(100);
    for (std::size_t i = 0; i < count; ++i) wheel.add(random.after(wheel.now()));
    // each advance fires at least one or brings at least two a level down
    for (std::size_t i = 0; !wheel.empty(); ++i) {
      ASSERT_LE(i, 11 * count) << "seed " << seed;
      moment next = wheel.next();
      if (next > wheel.now()) {
        EXPECT_EQ(wheel.advance(next - 1), 0u) << "seed " << seed;
      }
      wheel.advance(next);
    }
  }
}

TEST(timer_wheel, anything_in_any_order) {
  for (std::uint64_t seed = 0; seed < (tern::detail::sanitized ? 400 : 4000) && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    moments random(seed);
    checked_wheel wheel(seed % 2 ? random.distance() : static_cast<moment>(random.below(10'000)));
    // Few distances let time pass slowly, and many timers meet in a slot.
    const moment longest = random.distance();
    std::vector<moment> favourites(4);
    for (moment& f : favourites) f = random.distance() % (longest / 2 + 1);
    for (int i = 0; i < 1000 && !HasFailure(); ++i) switch (random.below(12)) {
      case 0:
      case 1:
      case 2:
        wheel.add(later(wheel.now(), random.distance() % (longest / 2 + 1)));
        break;
      case 3:
        wheel.add(random.after(wheel.now()));
        break;
      case 4:
      case 5:
        wheel.add(later(wheel.now(), favourites[random.below(4)]));
        break;
      case 6:
        wheel.add(static_cast<moment>(random.below(static_cast<std::size_t>(wheel.now()) + 1)));
        break;
      case 7:
      case 8:
        wheel.remove(random.below(1'000'000));
        break;
      case 9:
        wheel.advance(later(wheel.now(), random.distance() % (longest / 64 + 1)));
        break;
      case 10:
        if (wheel.next() != never) wheel.advance(wheel.next());
        break;
      default:
        wheel.advance(random.below(10) ? later(wheel.now(), random.distance() % 100) : random.distance() / 64);
      }
    wheel.advance(never);
    EXPECT_TRUE(wheel.empty());
  }
}

TEST(timer_wheel, fired_timers_may_be_added_again) {
  timer_wheel wheel;
  std::vector<timer> timers(10);
  std::vector<moment> period(10);
  std::vector<int> fired(10);
  for (std::size_t i = 0; i < 10; ++i) {
    period[i] = timers[i].deadline = static_cast<moment>(i + 1) * 997;
    wheel.add(timers[i]);
  }
  const moment end = 10'000'000;
  while (wheel.next() <= end)
    for (timer *t = wheel.advance(wheel.next()), *after = nullptr; t; t = after) {
      after = t->next;
      auto i = static_cast<std::size_t>(t - timers.data());
      EXPECT_EQ(t->deadline, wheel.now());
      ++fired[i];
      t->deadline += period[i];
      wheel.add(*t);
    }
  for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(fired[i], end / period[i]);
}

TEST(timer_wheel, a_day_and_centuries) {
  checked_wheel wheel(1'700'000'000 * second);
  const moment start = wheel.now();
  for (moment h = 1; h <= 24; ++h) wheel.add(start + h * hour), wheel.add(start + h * hour - 1);
  for (moment h = 1; h <= 24; ++h) {
    EXPECT_EQ(wheel.advance(start + h * hour - 2), 0u);
    EXPECT_EQ(wheel.advance(start + h * hour - 1), 1u);
    EXPECT_EQ(wheel.advance(start + h * hour), 1u);
  }
  for (moment y = 230; y > 0; --y) wheel.add(start + y * year);
  for (moment y = 1; y <= 230; ++y) {
    EXPECT_EQ(wheel.advance(start + y * year - 1), 0u);
    EXPECT_EQ(wheel.advance(start + y * year), 1u);
  }
}

/// Also says that time alone costs nothing: a wheel that looked at each moment, or at each slot,
/// would not end here.
TEST(timer_wheel, empty_time_is_free) {
  timer_wheel wheel;
  timer last;
  last.deadline = never;
  wheel.add(last);
  const moment step = never / 1'000'000;
  for (int i = 1; i < 1'000'000; ++i) ASSERT_EQ(wheel.advance(i * step), nullptr);
  EXPECT_EQ(wheel.advance(never), &last);
}

class timer_wheel_million : public testing::Test {
protected:
  void fill(timer_wheel& wheel, moment within) {
    for (timer& t : timers_) {
      t.deadline = wheel.now() + 1 + static_cast<moment>(random_() % static_cast<std::uint64_t>(within));
      wheel.add(t);
    }
    EXPECT_EQ(wheel.size(), timers_.size());
  }
  /// Among equal deadlines the address tells the order added.
  std::size_t count(const timer* fired) {
    std::size_t n = 0;
    for (const timer* before = nullptr; fired; before = fired, fired = fired->next, ++n)
      if (before && (before->deadline > fired->deadline || (before->deadline == fired->deadline && before > fired)))
        ADD_FAILURE() << before->deadline << " before " << fired->deadline;
    return n;
  }
  std::vector<timer> timers_{tern::detail::sanitized ? 100'000u : 1'000'000u};
  std::mt19937_64 random_{1};
};

TEST_F(timer_wheel_million, at_once) {
  timer_wheel wheel(1'700'000'000 * second);
  for (moment within : {moment{1}, moment{50}, moment{100'000}, second, 24 * hour, 200 * year}) {
    fill(wheel, within);
    EXPECT_EQ(count(wheel.advance(wheel.now() + within)), timers_.size());
    EXPECT_TRUE(wheel.empty());
  }
}

TEST_F(timer_wheel_million, in_steps) {
  timer_wheel wheel(1'700'000'000 * second);
  fill(wheel, 10 * second);
  std::size_t fired = 0;
  for (moment before = wheel.now(); !wheel.empty(); before = wheel.now()) {
    const timer* chain = wheel.advance(wheel.now() + 1'000'003);
    EXPECT_TRUE(!chain || chain->deadline > before);
    fired += count(chain);
  }
  EXPECT_EQ(fired, timers_.size());
}

TEST_F(timer_wheel_million, most_are_removed) {
  timer_wheel wheel(1'700'000'000 * second);
  fill(wheel, 200 * year);
  for (int year_number = 0; !wheel.empty(); ++year_number) {
    ASSERT_LE(year_number, 200);
    for (int i = 0; i < 20'000; ++i) wheel.remove(timers_[random_() % timers_.size()]);
    const std::size_t before = wheel.size(), fired = count(wheel.advance(wheel.now() + year));
    EXPECT_EQ(fired, before - wheel.size());
  }
  for (const timer& t : timers_) ASSERT_FALSE(t.armed);
}

} // namespace
