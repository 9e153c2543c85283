// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/task/fiber.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/task_group.hpp>

#include "tests/task/support/executors.hpp"

namespace tern {
namespace {

using test_support::on_workers;
using testing::HasSubstr;

// A foreign thread asks which group a runner is at while workers change that. The thread sanitizer
// watches.
TEST(dump_fibers, while_tasklets_run) {
  constexpr int enough = 1000;
  std::atomic<int> pictures{0};
  std::string last;
  std::thread other;
  on_workers(3, [&] {
    other = std::thread([&] {
      while (pictures < enough) {
        last = dump_fibers();
        ++pictures;
      }
    });
    while (pictures < enough) {
      task_group group;
      std::atomic<int> ran{0};
      for (int i = 0; i < 200; ++i) group.run([&] { ran.fetch_add(1, std::memory_order_relaxed); });
      group.wait();
      EXPECT_EQ(ran, 200);
      this_fiber::yield();
    }
  });
  other.join();
  EXPECT_THAT(last, HasSubstr("scheduler 'test':\n"));
}

} // namespace
} // namespace tern
