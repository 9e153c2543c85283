// SPDX-License-Identifier: Apache-2.0
#include <tern/task/fiber.hpp>
#include <tern/task/scheduler.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/base/error.hpp>
#include <tern/task/fiber/ticks.hpp>
#include <tern/task/future.hpp>
#include <tern/task/polling/polling_fiber.hpp>
#include <tern/task/semaphore.hpp>
#include <tern/task/sync.hpp>
#include <tern/task/task_group.hpp>

using namespace std::chrono_literals;

namespace tern {
namespace {

class scheduler_on_workers : public testing::TestWithParam<int> {
protected:
  scheduler::settings with() const { return {.workers = GetParam(), .name = "test"}; }
};

TEST_P(scheduler_on_workers, runs_main_and_all_it_starts) {
  std::atomic<int> ran{0};
  scheduler s(with());
  const auto stuck = s.run([&] {
    EXPECT_TRUE(scheduler::in_fiber());
    EXPECT_EQ(scheduler::current(), &s);
    for (int i = 0; i < 1000; ++i) scheduler::current()->spawn([&] { ++ran; });
  });
  EXPECT_EQ(stuck, 0u);
  EXPECT_EQ(ran, 1000);
  EXPECT_FALSE(scheduler::in_fiber());
  EXPECT_EQ(scheduler::current(), nullptr);
}

TEST_P(scheduler_on_workers, yield_lets_every_other_fiber_run) {
  scheduler s(with());
  std::atomic<bool> stop{false};
  std::atomic<int> turns{0};
  s.run([&] {
    auto other = async([&] {
      while (!stop) this_fiber::yield();
    });
    auto me = async([&] {
      for (int i = 0; i < 100; ++i) {
        ++turns;
        this_fiber::yield();
      }
      stop = true;
    });
    me.get();
    other.get();
  });
  EXPECT_EQ(turns, 100);
}

TEST_P(scheduler_on_workers, exceptions_survive_suspension_inside_catch) {
  scheduler s(with());
  std::atomic<int> right{0};
  s.run([&] {
    std::vector<future<void>> all;
    for (int i = 0; i < 64; ++i)
      all.push_back(async([&, i] {
        try {
          throw std::runtime_error(std::to_string(i));
        } catch (...) {
          for (int k = 0; k < 20; ++k) this_fiber::yield();
          try {
            throw; // rethrows this fiber's exception, whatever others threw and caught meanwhile
          } catch (const std::runtime_error& e) {
            if (e.what() == std::to_string(i)) ++right;
          }
        }
      }));
    for (auto& f : all) f.get();
  });
  EXPECT_EQ(right, 64);
}

TEST_P(scheduler_on_workers, foreign_threads_may_spawn) {
  scheduler s(with());
  std::atomic<int> ran{0};
  s.run([&] {
    latch all(200);
    std::thread outside([&] {
      EXPECT_EQ(scheduler::current(), nullptr);
      for (int i = 0; i < 200; ++i)
        s.spawn([&] {
          ++ran;
          all.count_down();
        });
    });
    all.wait();
    outside.join();
  });
  EXPECT_EQ(ran, 200);
}

TEST_P(scheduler_on_workers, many_blocked_fibers_at_once) {
  scheduler s({.workers = GetParam(), .stack_bytes = 16 * 1024, .name = "test"});
  int sum = 0;
  s.run([&] {
    latch go(1);
    std::vector<future<int>> all;
    for (int i = 0; i < 5000; ++i)
      all.push_back(async([&, i] {
        go.wait();
        return i;
      }));
    go.count_down();
    for (auto& f : all) sum += f.get();
  });
  EXPECT_EQ(sum, 5000 * 4999 / 2);
}

INSTANTIATE_TEST_SUITE_P(workers, scheduler_on_workers, testing::Values(1, 2, 5));

TEST(scheduler, refuses_no_workers_and_a_second_run) {
  try {
    scheduler s({.workers = 0});
    FAIL();
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::invalid_argument);
    EXPECT_THAT(e.what(), testing::HasSubstr("at least 1 worker, not 0"));
  }
  scheduler s({});
  s.run([] {});
  EXPECT_THROW(s.run([] {}), error);
}

TEST(scheduler, rethrows_what_main_throws_after_the_others_ended) {
  scheduler s({.workers = 2});
  std::atomic<int> ran{0};
  EXPECT_THROW(s.run([&] {
    for (int i = 0; i < 10; ++i) scheduler::current()->spawn([&] { ++ran; });
    throw std::domain_error("no");
  }),
               std::domain_error);
  EXPECT_EQ(ran, 10);
}

TEST(scheduler, counts_fibers_that_can_never_go_on) {
  auto never = std::make_shared<promise<int>>(); // kept alive: a broken promise would end the wait
  scheduler s({.workers = 2});
  const auto stuck = s.run([&] {
    scheduler::current()->spawn([never, f = std::make_shared<future<int>>(never->get_future())] { f->wait(); },
                                {.name = "waits for ever"});
    this_fiber::yield();
  });
  EXPECT_EQ(stuck, 1u);
  never->set_value(0); // while the scheduler is there: a waiting fiber must not outlive its stack
}

TEST(scheduler, stuck_fibers_may_hold_each_others_promises) {
  scheduler s({.workers = 1});
  const auto stuck = s.run([] {
    auto p = std::make_shared<promise<int>>();
    auto q = std::make_shared<promise<int>>();
    auto f = std::make_shared<future<int>>(p->get_future()), g = std::make_shared<future<int>>(q->get_future());
    scheduler::current()->spawn([p, g] { g->wait(); });
    scheduler::current()->spawn([q, f] { f->wait(); });
  });
  EXPECT_EQ(stuck, 2u); // and destroying the scheduler must not touch what is gone
}

TEST_P(scheduler_on_workers, yielders_are_not_starved_by_fibers_that_ready_each_other) {
  scheduler s(with());
  s.run([] {
    std::atomic<bool> done{false};
    auto patient = async([&] {
      for (int i = 0; i < 10; ++i) this_fiber::yield();
      done = true;
    });
    while (!done) async([] {}).get();
    patient.get();
  });
}

TEST_P(scheduler_on_workers, queued_fibers_need_no_stack) {
  std::atomic<int> ran{0};
  scheduler s(with());
  s.run([&] {
    for (int i = 0; i < 100000; ++i) scheduler::current()->spawn([&] { ++ran; }); // 25 GiB of stacks, all at once
  });
  EXPECT_EQ(ran, 100000);
}

TEST(scheduler, may_run_inside_a_fiber_of_another) {
  scheduler outer({.workers = 2});
  int inner_sum = 0;
  outer.run([&] {
    scheduler inner({.workers = 1});
    inner.run([&] { inner_sum = async([] { return 5; }).get(); });
    EXPECT_EQ(scheduler::current(), &outer);
    EXPECT_EQ(async([] { return 6; }).get(), 6);
  });
  EXPECT_EQ(inner_sum, 5);
}

TEST(scheduler, async_outside_says_what_to_do) {
  try {
    auto f = async([] { return 1; });
    FAIL();
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::invalid_state);
    EXPECT_THAT(e.what(), testing::HasSubstr("inside tern::run or scheduler::run"));
  }
}

// A source as the network is one: events come from another thread and must not be lost while worker
// 0 sleeps.
class ring : public event_source {
public:
  explicit ring(bool apart = false) : apart_(apart) {}
  polled poll() override {
    std::lock_guard hold(lock_);
    EXPECT_EQ(scheduler::current() == nullptr, apart_);
    if (arrived_ == 0) return polled::nothing;
    --arrived_;
    feeds->spawn([this] { done.count_down(); });
    return polled::something;
  }
  void wait(std::chrono::microseconds at_most) override {
    std::unique_lock hold(lock_);
    bell_.wait_for(hold, at_most, [&] { return woken_ || arrived_ > 0; });
    woken_ = false;
  }
  void wake() noexcept override {
    std::lock_guard hold(lock_);
    woken_ = true;
    bell_.notify_one();
  }
  void arrive() {
    std::lock_guard hold(lock_);
    ++arrived_;
    bell_.notify_one();
  }
  latch done{2000};
  scheduler* feeds = nullptr;

private:
  const bool apart_;
  std::mutex lock_;
  std::condition_variable bell_;
  bool woken_ = false;
  int arrived_ = 0;
};

TEST_P(scheduler_on_workers, a_source_wakes_and_feeds_the_workers) {
  for (const bool apart : {false, true}) {
    ring source(apart);
    auto cfg = with();
    cfg.events = &source;
    cfg.poll_apart = apart;
    scheduler s(std::move(cfg));
    source.feeds = &s;
    std::thread outside([&] {
      for (int i = 0; i < 2000; ++i) {
        source.arrive();
        if (i % 100 == 0) std::this_thread::yield();
      }
    });
    s.run([&] { source.done.wait(); });
    outside.join();
  }
}

// An event may wake a fiber and be nothing else, as the end of a transfer is.
class transfers : public event_source {
public:
  polled poll() override {
    ++polls;
    if (expected && polls - begun > 30) {
      expected = false;
      ended = polls;
      end.release(1);
    }
    return polled::nothing;
  }
  void wait(std::chrono::microseconds at_most) override { std::this_thread::sleep_for(std::min(at_most, 100us)); }
  void wake() noexcept override {}

  long polls = 0, begun = 0, ended = 0;
  bool expected = false;
  semaphore end{0};
};

TEST(scheduler, a_fiber_that_an_event_wakes_runs_before_the_next_events) {
  transfers source;
  scheduler::settings cfg{.workers = 1, .name = "test"};
  cfg.spin = std::chrono::milliseconds(100); // it looks all the time
  cfg.events = &source;
  scheduler(std::move(cfg)).run([&] {
    for (int i = 0; i < 50; ++i) {
      source.begun = source.polls;
      source.expected = true;
      source.end.acquire();
      EXPECT_LE(source.polls - source.ended, 1) << "other events came first";
    }
  });
}

// Where only the worker itself could gain, long bodies are no reason to look.
TEST(scheduler, polls_after_each_long_body_only_if_others_wait) {
  constexpr int fibers = 64;
  const auto polls_with = [](bool others) {
    transfers source;
    scheduler::settings cfg{.workers = 1, .name = "test"};
    cfg.events = &source;
    cfg.others_wait_for_events = others;
    long begun = 0, polls = 0;
    scheduler(std::move(cfg)).run([&] {
      std::vector<fiber> all;
      for (int i = 0; i < fibers; ++i)
        all.emplace_back([] {
          for (const std::int64_t begin = detail::ticks(); detail::ticks() - begin < detail::ticks_in(10e-6);) {
          }
        });
      begun = source.polls;
      for (auto& f : all) f.join();
      polls = source.polls - begun;
    });
    return polls;
  };
  EXPECT_GE(polls_with(true), fibers / 2); // after a short one two may go on directly
  EXPECT_LE(polls_with(false), fibers / 4);
}

// Each piece appears as a fiber of its own, though one fiber runs all that do not wait.
class polling_fiber : public event_source {
public:
  polled poll() override {
    if (begun == 300) return polled::nothing;
    return polled::needs_fiber;
  }
  void run_in_fiber() override {
    ++stacks;
    detail::polling_fiber pieces;
    while (pieces.end_piece() && begun < 300) {
      const int number = begun++;
      detail::fiber_name name{};
      std::snprintf(name.data(), name.size(), "errand %d", number);
      pieces.begin(*detail::this_worker(), name);
      EXPECT_EQ(this_fiber::name(), "errand " + std::to_string(number));
      EXPECT_TRUE(ids.insert(this_fiber::id()).second);
      EXPECT_EQ(*mark, 0);
      *mark = number + 1;
      if (number % 10 == 3) {
        gate.acquire();
        EXPECT_EQ(*mark, number + 1);
        EXPECT_EQ(this_fiber::name(), "errand " + std::to_string(number));
      }
      ended.fetch_add(1);
    }
  }
  void wait(std::chrono::microseconds at_most) override { std::this_thread::sleep_for(std::min(at_most, 100us)); }
  void wake() noexcept override {}

  int begun = 0, stacks = 0; // worker 0's
  std::set<std::uint64_t> ids;
  std::atomic<int> ended{0};
  fiber_local<int> mark{[] { return 0; }};
  semaphore gate{0};
};

// While worker 0 looks at its events for one that gave way, what it finds there may give way too:
// neither may be lost.
class busy_errands : public event_source {
public:
  polled poll() override { return begun < 10 ? polled::needs_fiber : polled::nothing; }
  void run_in_fiber() override {
    ++begun;
    detail::polling_fiber one;
    one.begin(*detail::this_worker(), detail::fiber_name{"busy"});
    compute_in_tasklets(1);
    ended.fetch_add(1);
  }
  void wait(std::chrono::microseconds at_most) override { std::this_thread::sleep_for(std::min(at_most, 100us)); }
  void wake() noexcept override {}
  static void compute_in_tasklets(int n) { // each longer than a slice, after which its fiber gives way
    task_group g;
    for (int i = 0; i < n; ++i)
      g.run([] {
        const auto until = std::chrono::steady_clock::now() + 100us;
        while (std::chrono::steady_clock::now() < until) {
        }
      });
    g.wait();
  }
  int begun = 0; // worker 0's
  std::atomic<int> ended{0};
};

TEST_P(scheduler_on_workers, none_is_lost_that_gives_way_while_errands_do) {
  busy_errands source;
  auto cfg = with();
  cfg.events = &source;
  scheduler s(std::move(cfg));
  s.run([&] {
    busy_errands::compute_in_tasklets(200);
    while (source.ended.load() < 10) this_fiber::yield();
  });
  EXPECT_EQ(source.ended.load(), 10);
}

TEST_P(scheduler_on_workers, errands_need_a_stack_each_only_if_they_wait) {
  polling_fiber source;
  auto cfg = with();
  cfg.events = &source;
  scheduler s(std::move(cfg));
  s.run([&] {
    while (source.ended.load() < 270) this_fiber::yield();
    source.gate.release(30);
    while (source.ended.load() < 300) this_fiber::yield();
  });
  EXPECT_EQ(source.begun, 300);
  EXPECT_LE(source.stacks, 31 + 30);
  EXPECT_GE(source.stacks, 30);
}

} // namespace
} // namespace tern
