// SPDX-License-Identifier: Apache-2.0
#include <tern/task/wait/timed_function.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include <tern/task/fiber.hpp>
#include <tern/task/semaphore.hpp>
#include <tern/task/sim.hpp>
#include <tern/task/sync.hpp>
#include <tern/task/wait/wait_list.hpp>

#include "tests/task/support/executors.hpp"

namespace tern {
namespace {

using namespace std::chrono_literals;
using detail::deadline_after;
using detail::timed_function;
using test_support::everywhere_briefly;
using test_support::on_workers;
using test_support::simulated;

struct ringing : timed_function {
  explicit ringing(semaphore& s) : timed_function(&ring), done(s) {}
  static void ring(timed_function& f) noexcept {
    auto& self = static_cast<ringing&>(f);
    self.at = fiber_clock::now();
    ++self.times;
    self.done.release(); // last: it may be gone then
  }
  semaphore& done;
  int times = 0;
  fiber_clock::time_point at{};
};

TEST(timed_function, is_called_once_and_not_too_early) {
  everywhere_briefly([] {
    semaphore done(0);
    std::vector<std::unique_ptr<ringing>> all;
    const auto begin = fiber_clock::now();
    for (int i = 0; i < 40; ++i) {
      all.push_back(std::make_unique<ringing>(done));
      all.back()->set(deadline_after(1us * (i * 7 % 40)));
    }
    for (std::size_t i = 0; i < all.size(); ++i) done.acquire();
    for (int i = 0; i < 40; ++i) {
      EXPECT_EQ(all[static_cast<std::size_t>(i)]->times, 1);
      EXPECT_GE(all[static_cast<std::size_t>(i)]->at - begin, 1us * (i * 7 % 40));
      EXPECT_FALSE(all[static_cast<std::size_t>(i)]->cancel());
    }
  });
}

TEST(timed_function, that_is_cancelled_is_not_called) {
  everywhere_briefly([] {
    semaphore done(0);
    ringing never(done), late(done);
    EXPECT_FALSE(never.cancel());
    late.set(deadline_after(1h));
    EXPECT_TRUE(late.cancel());
    EXPECT_FALSE(late.cancel());
    late.set(deadline_after(0s)); // again
    done.acquire();
    EXPECT_EQ(late.times, 1);
  });
}

TEST(timed_function, is_called_or_cancelled) {
  everywhere_briefly([] {
    semaphore done(0);
    int called = 0, cancelled = 0;
    for (int i = 0; i < 50; ++i) {
      ringing one(done);
      one.set(deadline_after(1us * (i % 5)));
      fiber other([&] {
        this_fiber::sleep_for(1us * (i % 7));
        if (one.cancel())
          ++cancelled;
        else
          done.acquire(), ++called;
      });
      other.join();
      EXPECT_LE(one.times, 1);
    }
    EXPECT_EQ(called + cancelled, 50);
  });
}

// What it calls may set others, and wake fibers.
TEST(timed_function, sets_the_next_one) {
  everywhere_briefly([] {
    struct chain : timed_function {
      chain(semaphore& s, int n) : timed_function(&next), done(s), left(n) {}
      static void next(timed_function& f) noexcept {
        auto& self = static_cast<chain&>(f);
        if (--self.left > 0)
          self.set(deadline_after(1us));
        else
          self.done.release();
      }
      semaphore& done;
      int left;
    };
    semaphore done(0);
    chain c(done, 30);
    c.set(deadline_after(1us));
    done.acquire();
    EXPECT_EQ(c.left, 0);
  });
}

} // namespace
} // namespace tern
