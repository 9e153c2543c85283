// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/power/power_estimate.hpp>

#include <gtest/gtest.h>

#include <tern/hetero/power/power_meter.hpp>

namespace tern::hetero::detail {
namespace {

constexpr device_power unknown{700, 50};

void expect_near(const device_power& found, double busy, double idle) {
  EXPECT_NEAR(found.busy, busy, 1e-6);
  EXPECT_NEAR(found.idle, idle, 1e-6);
}

TEST(power_estimate, is_what_it_was_told_until_something_is_measured) {
  expect_near(power_estimate(unknown).now(), 700, 50);
}

TEST(power_estimate, busy_and_idle_windows_tell_one_each) {
  power_estimate e(unknown);
  e.add(1, 300);
  expect_near(e.now(), 300, 50);
  power_estimate idle(unknown);
  idle.add(0, 70);
  expect_near(idle.now(), 700, 70);
}

TEST(power_estimate, windows_between_tell_both_when_they_differ) {
  power_estimate e(unknown);
  e.add(0.5, 70 + 0.5 * 230);
  expect_near(e.now(), 700, 50); // one equation
  e.add(0.9, 70 + 0.9 * 230);
  expect_near(e.now(), 300, 70);
}

TEST(power_estimate, outliers_do_not_count) {
  power_estimate e(unknown);
  for (int i = 0; i < 24; ++i) {
    const double share = i % 5 * 0.25;
    e.add(share, i % 8 == 3 ? 5000 : 70 + share * 230);
  }
  expect_near(e.now(), 300, 70);
}

TEST(power_estimate, follows_when_it_changes) {
  power_estimate e(unknown);
  e.add(0, 70);
  for (int i = 0; i < 100; ++i) e.add(1, 300);
  expect_near(e.now(), 300, 70); // and remembers the idle one
  for (int i = 0; i < 100; ++i) e.add(1, 200);
  expect_near(e.now(), 200, 70);
  for (int i = 0; i < 100; ++i) e.add(1, 40);
  expect_near(e.now(), 40, 40);
}

TEST(power_estimate, is_never_below_nothing) {
  power_estimate e({0, 0});
  for (int i = 0; i < 20; ++i) e.add(i % 2, i % 2 ? 10 : 100); // less while it is busy
  EXPECT_GE(e.now().idle, 0);
  EXPECT_GE(e.now().busy, e.now().idle);
}

class counter final : public energy_source {
public:
  std::string name() const override { return "a counter"; }
  std::optional<double> joules() noexcept override { return now; }
  std::optional<double> busy_seconds() noexcept override { return busy; }
  std::optional<double> now = 1000, busy;
};

TEST(power_meter, looks_when_a_window_is_over) {
  const auto source = std::make_shared<counter>();
  power_meter m(source, unknown);
  constexpr std::int64_t half = power_meter::window / 2;
  EXPECT_FALSE(m.look(5 * half, 7).has_value()) << "a window begins";
  source->now = 1010;
  EXPECT_FALSE(m.look(6 * half, 7.05).has_value());
  source->now = 1060;
  const auto found = m.look(7 * half, 7.2); // busy all of 0.2 s
  ASSERT_TRUE(found.has_value());
  expect_near(*found, 300, 50);
}

TEST(power_meter, a_source_may_know_how_busy_it_was) {
  const auto source = std::make_shared<counter>();
  source->busy = 0;
  power_meter m(source, unknown);
  m.look(0, 0);
  source->now = 1014;
  const auto found = m.look(power_meter::window, 1e9);
  ASSERT_TRUE(found.has_value());
  expect_near(*found, 700, 70);
}

TEST(power_meter, a_counter_that_fails_leaves_its_windows_out) {
  const auto source = std::make_shared<counter>();
  power_meter m(source, unknown);
  m.look(0, 0);
  source->now.reset();
  EXPECT_FALSE(m.look(power_meter::window, 0.2).has_value());
  source->now = 2000;
  EXPECT_FALSE(m.look(2 * power_meter::window, 0.4).has_value());
  source->now = 2020;
  EXPECT_TRUE(m.look(3 * power_meter::window, 0.6).has_value());
}

} // namespace
} // namespace tern::hetero::detail
