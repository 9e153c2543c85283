// SPDX-License-Identifier: Apache-2.0
#include <tern/base/clock.hpp>

#include <thread>

#include <gtest/gtest.h>

namespace {

TEST(clock, steady_never_goes_back) {
  double last = tern::steady_seconds();
  for (int i = 0; i < 10000; ++i) {
    const double now = tern::steady_seconds();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(clock, stopwatch_counts_seconds_and_restarts) {
  tern::stopwatch watch;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_GE(watch.seconds(), 0.019);
  EXPECT_GE(watch.restart(), 0.019);
  const double anew = watch.seconds();
  EXPECT_GE(anew, 0.0);
}

TEST(clock, cpu_time_counts_work_of_this_thread_only) {
  const double before = tern::thread_cpu_seconds();
  volatile double sink = 0;
  while (tern::thread_cpu_seconds() < before + 0.01) sink = sink + 1;
  EXPECT_GE(tern::thread_cpu_seconds() - before, 0.01);
  double other = 1e9;
  std::thread([&other] { other = tern::thread_cpu_seconds(); }).join();
  EXPECT_LT(other, before + 0.01); // a new thread starts from zero
}

} // namespace
