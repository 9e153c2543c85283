// SPDX-License-Identifier: Apache-2.0
#include <tern/task/scheduler/activations.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <tern/task/fiber.hpp>
#include <tern/task/polling/polling_fiber.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>
#include <tern/task/semaphore.hpp>

namespace tern::detail {
namespace {

using namespace std::chrono_literals;

/// Runs a function each time; what is left is counted.
struct piece final : activation {
  explicit piece(unique_function<void()> f)
      : activation([](activation& a) noexcept { static_cast<piece&>(a).body(); },
                   [](activation& a) noexcept { ++static_cast<piece&>(a).times_left; }),
        body(std::move(f)) {}
  unique_function<void()> body;
  std::atomic<int> times_left{0};
};

void run(int workers, const std::function<void(scheduler_core&)>& main) {
  scheduler s({.workers = workers});
  s.run([&] { main(s.inside()); });
}

TEST(activations, run_in_the_order_in_which_they_are_ready) {
  run(1, [](scheduler_core& core) {
    std::vector<int> order;
    semaphore done(0);
    std::vector<std::unique_ptr<piece>> all;
    for (int i = 0; i < 100; ++i)
      all.push_back(std::make_unique<piece>([&, i] {
        order.push_back(i);
        EXPECT_TRUE(activation_fiber::may_continue());
        if (i == 99) done.release(1);
      }));
    for (const auto& a : all) core.activations.ready(*a, 0, false);
    done.acquire();
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
      EXPECT_EQ(all[static_cast<std::size_t>(i)]->times_left, 0);
    }
  });
}

TEST(activations, one_that_waits_is_left_and_the_next_goes_on) {
  run(1, [](scheduler_core& core) {
    semaphore gate(0), done(0);
    bool behind = true;
    piece waits([&] {
      gate.acquire();
      behind = activation_fiber::may_continue();
      done.release(1);
    });
    piece opens([&] { gate.release(1); });
    core.activations.ready(waits, 0, false);
    core.activations.ready(opens, 0, false);
    done.acquire();
    EXPECT_EQ(waits.times_left, 1);
    EXPECT_EQ(opens.times_left, 0);
    EXPECT_FALSE(behind);
  });
}

TEST(activations, one_that_is_given_up_is_left_at_once) {
  run(1, [](scheduler_core& core) {
    semaphore done(0);
    int left_then = -1;
    bool mine = true;
    piece gives([&] {
      activations::give_up();
      left_then = gives.times_left;
      mine = activation_fiber::may_continue();
      activations::give_up(); // has no effect
      done.release(1);
    });
    core.activations.ready(gives, 0, false);
    done.acquire();
    EXPECT_EQ(left_then, 1);
    EXPECT_EQ(gives.times_left, 1);
    EXPECT_FALSE(mine);
  });
}

// Each keeps its worker until the other has begun.
TEST(activations, an_idle_worker_takes_what_a_busy_one_has) {
  for (int round = 0; round < 50; ++round)
    run(2, [&](scheduler_core& core) {
      if (round % 2 != 0) this_fiber::sleep_for(1ms); // the other one sleeps
      std::atomic<int> begun{0};
      semaphore done(0);
      const auto meet = [&] {
        ++begun;
        while (begun < 2) std::this_thread::yield();
        done.release(1);
      };
      piece one(meet), other(meet);
      const int here = scheduler::current_worker();
      core.activations.ready(one, here, false);
      core.activations.ready(other, here, false);
      done.acquire();
      done.acquire();
    });
}

// The last one too, if its owner does not come to it.
TEST(activations, a_fiber_that_keeps_its_worker_keeps_nothing_else) {
  for (int round = 0; round < 50; ++round)
    run(2, [&](scheduler_core& core) {
      if (round % 2 != 0) this_fiber::sleep_for(1ms);
      std::atomic<bool> ran{false};
      piece one([&] { ran = true; });
      core.activations.ready(one, scheduler::current_worker(), false);
      while (!ran) std::this_thread::yield();
    });
}

TEST(activations, threads_that_are_no_workers_make_them_ready) {
  run(2, [](scheduler_core& core) {
    semaphore done(0);
    std::vector<std::unique_ptr<piece>> all;
    for (int i = 0; i < 64; ++i) all.push_back(std::make_unique<piece>([&] { done.release(1); }));
    std::thread other([&] {
      for (std::size_t i = 0; i < all.size(); ++i) core.activations.ready(*all[i], static_cast<int>(i % 2), false);
    });
    for (std::size_t i = 0; i < all.size(); ++i) done.acquire();
    other.join();
  });
}

/// Notes the order in which they are taken.
struct parcel final : handed {
  parcel()
      : handed([](handed& x) noexcept {
          parcel& p = static_cast<parcel&>(x);
          p.disordered->store(p.disordered->load() || p.next->load() != p.number);
          p.next->store(p.number + 1);
        }) {}
  std::atomic<int>* next = nullptr;
  std::atomic<bool>* disordered = nullptr;
  int number = 0;
};

/// Parcels of one sender.
struct parcels {
  explicit parcels(std::size_t n) : all(n) {
    for (std::size_t i = 0; i < n; ++i) {
      all[i].number = static_cast<int>(i);
      all[i].next = &next;
      all[i].disordered = &disordered;
    }
  }
  std::atomic<int> next{0};
  std::atomic<bool> disordered{false};
  std::vector<parcel> all;
};

/// Hands it to the other one of two workers, as soon as that is possible.
std::uint32_t hand_over(scheduler_core& core, parcel& x) {
  for (;;) {
    worker& self = *this_worker();
    std::uint32_t upto = 0;
    if (core.activations.hand(self, x, 1 - self.index, upto)) return upto;
    // It sleeps, or has much to do: something that it must come to.
    tern::fiber([] {}).join();
    std::this_thread::yield();
    this_fiber::yield();
  }
}

TEST(activations, what_is_handed_to_a_worker_is_taken_in_order) {
  run(2, [](scheduler_core& core) {
    parcels sent(300); // several rounds of the ring
    for (parcel& x : sent.all) hand_over(core, x);
    while (sent.next < 300) std::this_thread::yield(); // it takes them by itself
    EXPECT_FALSE(sent.disordered);
  });
}

TEST(activations, what_is_settled_has_been_taken) {
  run(2, [](scheduler_core& core) {
    parcels sent(3000);
    for (parcel& x : sent.all) {
      hand_over(core, x);
      if (x.number % 7 == 0) this_fiber::yield(); // perhaps it goes on elsewhere
      if (x.number % 3 != 0) continue;
      activations::settle();
      EXPECT_EQ(sent.next, x.number + 1);
      EXPECT_EQ(this_worker()->running->handed_by, 0);
    }
    activations::settle();
    EXPECT_FALSE(sent.disordered);
    EXPECT_EQ(sent.next, 3000);
  });
}

TEST(activations, a_worker_with_nothing_to_do_stands_in_for_one_in_a_long_body) {
  for (int round = 0; round < 20; ++round)
    run(2, [&](scheduler_core& core) {
      std::atomic<int> kept{-1};
      std::atomic<bool> over{false};
      tern::fiber busy([&] {
        kept = scheduler::current_worker();
        while (!over) std::this_thread::yield();
      });
      while (kept < 0) this_fiber::yield();
      parcels sent(1);
      std::uint32_t upto = 0;
      while (!core.activations.hand(*this_worker(), sent.all[0], kept, upto)) this_fiber::yield();
      while (sent.next == 0) this_fiber::yield();
      over = true;
      busy.join();
    });
}

TEST(activations, nothing_is_handed_over_while_a_worker_sleeps) {
  run(2, [](scheduler_core& core) {
    while (core.parking.asleep == 0) std::this_thread::yield();
    parcels sent(1);
    worker& self = *this_worker();
    std::uint32_t upto = 0;
    EXPECT_FALSE(core.activations.hand(self, sent.all[0], 1 - self.index, upto));
    EXPECT_EQ(sent.next, 0);
  });
}

// The run does not end before.
TEST(activations, what_is_ready_runs_before_the_end) {
  for (const int workers : {1, 2}) {
    std::atomic<int> ran{0};
    std::vector<std::unique_ptr<piece>> all;
    for (int i = 0; i < 100; ++i) all.push_back(std::make_unique<piece>([&] { ++ran; }));
    for (std::size_t i = 0; i < all.size(); ++i) all[i]->level = static_cast<std::uint8_t>(i % 3);
    run(workers, [&](scheduler_core& core) {
      for (const auto& a : all) core.activations.ready(*a, 0, true);
    });
    EXPECT_EQ(ran, 100);
  }
}

} // namespace
} // namespace tern::detail
