// SPDX-License-Identifier: Apache-2.0
#include <tern/task/boundary/extension.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tern/task/fiber.hpp>
#include <tern/task/scheduler.hpp>

#include "tests/task/support/executors.hpp"

namespace tern {
namespace {

using test_support::on_workers;

struct made_once : detail::scheduler_extension {
  static inline std::atomic<int> made{0}, inside{0};
  static inline bool fails = false;
  void ends() noexcept override {}
  std::string describe(std::chrono::milliseconds) override { return {}; }
  int at_work() const noexcept override { return 0; }
};

// Takes long, as devices do, and suspends.
detail::scheduler_extension* make_slowly(detail::scheduler_core&) {
  EXPECT_EQ(made_once::inside.fetch_add(1), 0) << "two callers make it at once";
  for (int i = 0; i < 20; ++i) this_fiber::yield();
  made_once::inside.fetch_sub(1);
  if (made_once::fails && made_once::made.fetch_add(1) == 0) throw std::runtime_error("no device");
  made_once::made.fetch_add(1);
  return new made_once;
}

TEST(extension_slot, is_made_by_one_while_the_others_wait) {
  for (const int workers : {1, 4}) {
    made_once::made = 0;
    made_once::fails = false;
    detail::extension_slot slot;
    on_workers(workers, [&] {
      EXPECT_EQ(slot.get(), nullptr);
      std::vector<fiber> all;
      std::atomic<detail::scheduler_extension*> first{nullptr};
      for (int i = 0; i < 16; ++i)
        all.emplace_back([&] {
          auto* const got = &slot.get_or_make(make_slowly, scheduler::current()->inside());
          detail::scheduler_extension* none = nullptr;
          if (!first.compare_exchange_strong(none, got)) {
            EXPECT_EQ(none, got);
          }
        });
      for (fiber& f : all) f.join();
    });
    EXPECT_EQ(made_once::made, 1);
    const std::unique_ptr<detail::scheduler_extension> last(slot.take());
    EXPECT_NE(last, nullptr);
    EXPECT_EQ(slot.get(), nullptr);
  }
}

TEST(extension_slot, is_tried_again_by_a_waiter_when_making_it_fails) {
  made_once::made = 0;
  made_once::fails = true;
  detail::extension_slot slot;
  std::atomic<int> failed{0};
  on_workers(2, [&] {
    std::vector<fiber> all;
    for (int i = 0; i < 8; ++i)
      all.emplace_back([&] {
        try {
          slot.get_or_make(make_slowly, scheduler::current()->inside());
        } catch (const std::runtime_error&) {
          ++failed;
        }
      });
    for (fiber& f : all) f.join();
  });
  EXPECT_EQ(failed, 1);
  const std::unique_ptr<detail::scheduler_extension> last(slot.take());
  EXPECT_NE(last, nullptr);
}

} // namespace
} // namespace tern
