// SPDX-License-Identifier: Apache-2.0
// When a device has time, as its tasks come, take longer or less, and end.
#include <tern/hetero/schedule/policies/load_estimate.hpp>

#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

#include <tern/hetero/record/task_record.hpp>

namespace tern::hetero::detail {
namespace {

class load_estimates : public testing::Test {
protected:
  ready_task task(std::size_t i) { return ready_task(&records_[i]); }

private:
  std::vector<task_record> records_ = std::vector<task_record>(64);
};

TEST_F(load_estimates, an_idle_device_has_time_now) {
  load_estimate e(2, 2);
  EXPECT_EQ(e.free_at(0, 5), 5);
  e.give(task(0), 3, 5);
  EXPECT_EQ(e.free_at(0, 5), 5) << "it has another unit";
  e.give(task(1), 4, 5);
  EXPECT_EQ(e.free_at(0, 5), 8);
  e.give(task(2), 4, 6);
  EXPECT_EQ(e.free_at(0, 6), 9) << "the third one follows the first";
}

TEST_F(load_estimates, what_is_queued_counts_from_its_priority_on) {
  load_estimate e(1, 1);
  e.give(task(0), 2, 0);
  e.queue(0, 10);
  e.queue(5, 3);
  EXPECT_EQ(e.free_at(0, 0), 15);
  EXPECT_EQ(e.free_at(5, 0), 5);
  EXPECT_EQ(e.free_at(6, 0), 2);
  e.take_out(5, 3);
  EXPECT_EQ(e.free_at(0, 0), 12);
}

TEST_F(load_estimates, ends_correct_what_was_expected) {
  load_estimate e(1, 1);
  for (std::size_t i = 0; i < 3; ++i) e.give(task(i), 10, 0);
  EXPECT_EQ(e.free_at(0, 0), 30);
  e.end(task(0), 2); // early
  EXPECT_EQ(e.free_at(0, 2), 22);
  EXPECT_EQ(e.free_at(0, 15), 22);
  e.end(task(1), 50); // late
  EXPECT_EQ(e.free_at(0, 50), 60);
  EXPECT_EQ(e.free_at(0, 70), 70) << "never before now";
  e.end(task(2), 71);
  EXPECT_EQ(e.free_at(0, 71), 71);
  EXPECT_EQ(e.given(), 0u);
}

TEST_F(load_estimates, tasks_may_end_in_another_order) {
  load_estimate e(1, 1);
  e.give(task(0), 10, 0);
  e.give(task(1), 10, 0);
  e.end(task(1), 10); // so it was the one that ran
  EXPECT_EQ(e.free_at(0, 10), 20);
  e.end(task(5), 10); // not of this device
  EXPECT_EQ(e.given(), 1u);
}

TEST_F(load_estimates, units_are_measured) {
  load_estimate e(1, 8);
  double now = 0;
  std::size_t next = 0;
  for (; next < 6; ++next) e.give(task(next), 1, now);
  for (int round = 0; round < 20; ++round) { // three end at a time
    now += 1;
    for (int k = 0; k < 3; ++k, ++next) {
      e.end(task((next - 6) % 64), now);
      e.give(task(next % 64), 1, now);
    }
  }
  EXPECT_EQ(e.units(), 3);
  EXPECT_NEAR(e.free_at(0, now), now + 2, 1e-9) << "six tasks of a second each";
}

TEST_F(load_estimates, unknown_times_measure_nothing) {
  load_estimate e(2, 8);
  for (std::size_t i = 0; i < 60; ++i) e.give(task(i), -1, 0);
  EXPECT_EQ(e.free_at(0, 1), 1);
  for (std::size_t i = 0; i < 50; ++i) e.end(task(i), 1 + 0.001 * static_cast<double>(i));
  EXPECT_EQ(e.units(), 2);
}

} // namespace
} // namespace tern::hetero::detail
