// SPDX-License-Identifier: Apache-2.0
#include <tern/mobile/load/handler_costs.hpp>

#include <gtest/gtest.h>

#include <tern/mobile/object.hpp>
#include <tern/net/handler.hpp>

namespace tern::mobile::detail {
namespace {

constexpr double quick = 0.2e-6, lengthy = 150e-6;

struct thing {
  void poke() {}
};
struct other {};

class handler_costs_of : public testing::Test {
protected:
  handler_costs_of() {
    net::handler_table::freeze();
    costs_.prepare();
  }
  /// An invocation that has taken so long, of an object that has that rhythm.
  void run(long_rhythm& r, double seconds, const type_record& type = type_of<thing>()) {
    costs_.note(handler, type, r.place(), seconds);
    r.ran(handler_costs::is_long(seconds));
  }
  bool waits(const long_rhythm& r, bool wanted = false, const type_record& type = type_of<thing>()) const {
    return costs_.waits(handler, type, r.place(), wanted);
  }
  /// The last of five inputs computes.
  void count_down(long_rhythm& r, double seconds = lengthy, const type_record& type = type_of<thing>()) {
    for (int i = 0; i < 4; ++i) run(r, quick, type);
    run(r, seconds, type);
  }

  static constexpr std::uint32_t handler = 0;
  handler_costs costs_;
};

TEST_F(handler_costs_of, what_has_never_run_may_take_long) {
  ASSERT_GT(net::handler_table::size(), 0u);
  EXPECT_EQ(costs_.expects(handler), expected::takes_long);
}

TEST_F(handler_costs_of, what_is_always_quick_or_always_long) {
  long_rhythm r;
  run(r, quick);
  EXPECT_EQ(costs_.expects(handler), expected::quick);
  for (int i = 0; i < 200; ++i) run(r, lengthy);
  EXPECT_EQ(costs_.expects(handler), expected::takes_long);
  for (int i = 0; i < 200; ++i) run(r, quick);
  EXPECT_EQ(costs_.expects(handler), expected::quick);
}

TEST_F(handler_costs_of, one_in_many_is_forgotten) {
  long_rhythm r;
  run(r, quick);
  run(r, lengthy);
  EXPECT_EQ(costs_.expects(handler), expected::by_object);
  for (int i = 0; i < 60; ++i) run(r, quick);
  EXPECT_EQ(costs_.expects(handler), expected::quick);
}

TEST_F(handler_costs_of, only_the_last_input_waits) {
  std::array<long_rhythm, 3> objects;
  for (int step = 0; step < 20; ++step)
    for (long_rhythm& r : objects) count_down(r);
  EXPECT_EQ(costs_.expects(handler), expected::by_object);
  for (long_rhythm& r : objects) {
    for (int i = 0; i < 4; ++i) {
      EXPECT_FALSE(waits(r)) << i;
      EXPECT_FALSE(waits(r, true)) << i;
      run(r, quick);
    }
    EXPECT_TRUE(waits(r));
    run(r, lengthy);
  }
}

// At the edge of a grid there are fewer.
TEST_F(handler_costs_of, objects_may_have_other_numbers_of_inputs) {
  long_rhythm inner, edge;
  for (int step = 0; step < 30; ++step) {
    count_down(inner);
    for (int i = 0; i < 2; ++i) run(edge, quick);
    run(edge, lengthy);
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(waits(edge));
    run(edge, quick);
    EXPECT_FALSE(waits(inner));
    run(inner, quick);
  }
  EXPECT_TRUE(waits(edge));
  EXPECT_FALSE(waits(inner));
}

// One in ten, whatever the object has done before: most begin at once, unless somebody would take
// the object, since then the mean counts.
TEST_F(handler_costs_of, without_a_rhythm_the_mean_decides) {
  long_rhythm r;
  std::uint32_t random = 1;
  for (int i = 0; i < 5000; ++i) {
    random = random * 1664525 + 1013904223;
    run(r, random >> 16 < 6554 ? lengthy : quick);
  }
  int waiting = 0, wanted = 0;
  for (int i = 0; i < 1000; ++i) {
    random = random * 1664525 + 1013904223;
    waiting += waits(r);
    wanted += waits(r, true);
    run(r, random >> 16 < 6554 ? lengthy : quick);
  }
  EXPECT_LT(waiting, 100);
  EXPECT_GT(wanted, 500);
}

TEST_F(handler_costs_of, classes_are_told_apart) {
  long_rhythm of_thing, of_other;
  for (int i = 0; i < 100; ++i) {
    run(of_thing, lengthy);
    run(of_other, quick, type_of<other>());
  }
  EXPECT_EQ(costs_.expects(handler), expected::by_object);
  EXPECT_TRUE(waits(of_thing));
  EXPECT_FALSE(waits(of_other, false, type_of<other>()));
  // Of a new object no place is known.
  EXPECT_FALSE(waits(long_rhythm(), false, type_of<other>()));
}

// Whatever number of inputs an object has, the long one among them is measured soon.
TEST_F(handler_costs_of, no_rhythm_hides_the_long_ones) {
  for (int inputs = 2; inputs <= 64; ++inputs) {
    int seen = 0;
    for (int i = 0; i < 200 * inputs; ++i)
      if (costs_.measures_next() && i % inputs == inputs - 1) ++seen;
    EXPECT_GE(seen, 2) << inputs;
  }
}

} // namespace
} // namespace tern::mobile::detail
