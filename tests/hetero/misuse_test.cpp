// SPDX-License-Identifier: Apache-2.0
// What cannot be is told, with what, where and what to do; and what goes wrong is told once, to
// those it concerns.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/graph_kernels.hpp"
#include "tests/hetero/support/tasks.hpp"
#include "tests/task/support/in_child.hpp"
#include <tern/hetero/policy.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/sim.hpp>

namespace tern::hetero {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using object = hetero_object<unsigned, 2>;

TEST(misuse, handles_that_are_empty_are_told) {
  on({}, [] {
    hetero_object<int> o(4, 1);
    EXPECT_THAT(text_of_error([&] { o.copy_to(nullptr).get(); }),
                AllOf(HasSubstr("hetero_object<int> of 4 was to be copied to null"), HasSubstr("give it memory")));
    const hetero_object<int> p(std::move(o));
    const auto moved = HasSubstr("there is no object in this handle; it was moved from");
    EXPECT_THAT(text_of_error([&] { o.host(access_mode::read).get(); }), moved);
    EXPECT_THAT(text_of_error([&] { o.rows(0, 1); }), moved);
    EXPECT_THAT(text_of_error([&] { submit([](const int*) {}, read(o)); }), moved);
    EXPECT_EQ(p.host(access_mode::read).get()[0], 1);
  });
}

TEST(misuse, waiting_for_all_in_a_task_is_told) {
  on({}, [] {
    hetero_object<int> o(4, 1), p(4, 1);
    hetero_task t(
        [&p](int* v) {
          hetero_task inner([](int* w) { w[0] = 2; }, write(p)); // its function may end on this stack
          inner.submit().wait();
          v[0] = p.host(access_mode::read).get()[0];
          wait_all();
        },
        read_write(o));
    t.name("outer").submit();
    EXPECT_THAT(text_of_error([&] { t.wait(); }),
                AllOf(HasSubstr("wait_all in task 'outer' would wait for that task, for ever"),
                      HasSubstr("wait() for those that it needs")));
    hetero_task own([&own](int*) { own.wait(); }, read_write(p));
    own.name("own").submit();
    EXPECT_THAT(text_of_error([&] { own.wait(); }), HasSubstr("task 'own' would wait for itself, for ever"));
    // A fiber that it starts, or one that runs tasks while it waits, is not in a task.
    hetero_task starts(
        [](int* v) {
          fiber([] { wait_all(); }).detach();
          v[0] = 3;
        },
        write(o));
    starts.submit().wait();
    for (int i = 0; i < 100; ++i) submit([](int* v) { ++v[0]; }, read_write(o));
    wait_all();
    EXPECT_EQ(o.host(access_mode::read).get()[0], 103);
  });
}

TEST(misuse, sizes_that_no_number_holds_are_told) {
  on({}, [] {
    object o({1, 1}, 0u);
    EXPECT_THAT(text_of_error([&] {
                  submit(graph_kernels::add, items(1 << 22, 1 << 22, 1 << 22).group(1), 1, 1, 1u, pitch(o),
                         read_write(o));
                }),
                AllOf(HasSubstr("kernel 'add' for 4194304 x 4194304 x 4194304 items"), HasSubstr("at most")));
    hetero_object<char, 2> large({1 << 30, 1 << 30});
    large.name("large");
    hetero_task t([](char*) {}, write(large));
    t.submit();
    EXPECT_THAT(text_of_error([&] { t.wait(); }),
                AllOf(HasSubstr("'large' of 1073741824 x 1073741824 needs 1152921504606846976 bytes"),
                      HasSubstr("smaller objects")));
  });
}

TEST(misuse, tiles_are_cut_where_numbers_end) {
  on({}, [] {
    const hetero_object<char> o(2'100'000'000);
    const auto t = o.tiles({400'000'000});
    ASSERT_EQ(t.count(0), 6);
    EXPECT_EQ(t(5).extent(0), 100'000'000);
    // Tasks on the last one follow each other. None touches it, so the memory is never really
    // there.
    int next = 0, wrong = 0;
    for (int i = 0; i < 100; ++i) submit([&next, &wrong, i](char*) { wrong += next++ != i ? 1 : 0; }, write(t(5)));
    wait_all();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(o.tiles({std::numeric_limits<std::int64_t>::max()}).count(0), 1);
  });
}

/// Gives everything to one device, whatever that is.
class blind final : public policy {
public:
  explicit blind(int to) : to_(to) {}
  const char* name() const noexcept override { return "blind"; }
  void push(ready_task t, std::span<const device_load>) override { all_.push(t); }
  std::optional<placement> pop(std::span<const device_load>) override {
    const auto t = all_.take([](const ready_task&) { return true; });
    return t ? std::optional(placement{*t, to_}) : std::nullopt;
  }

private:
  ready_queue all_;
  const int to_;
};
const policy_registration one("blind-1",
                              [](std::uint64_t) -> std::unique_ptr<policy> { return std::make_unique<blind>(1); });
const policy_registration nine("blind-9",
                               [](std::uint64_t) -> std::unique_ptr<policy> { return std::make_unique<blind>(9); });

TEST(misuse, of_a_policy_is_told) {
  for (const std::string name : {"blind-1", "blind-9"})
    on({.devices = "host,simulated", .simulated = "1", .policy = name}, [&] {
      hetero_object<int> x(1, 1);
      hetero_task t([](int* v) { *v = 2; }, read_write(x)); // a function of the host's
      t.name("mine").priority(1).submit();
      EXPECT_THAT(
          text_of_error([&] { t.wait(); }),
          AllOf(HasSubstr("the policy 'blind' gave task 'mine' to device " + name.substr(6)), HasSubstr("may_run_on")));
    });
}

TEST(misuse, cancelling_what_runs_already_hides_nothing) {
  on({.workers = 2}, [] {
    promise<void> begun, go;
    auto has_begun = begun.get_future();
    auto may_go = go.get_future();
    hetero_task t([&] {
      begun.set_value();
      may_go.get();
      throw std::runtime_error("mine");
    });
    t.submit();
    has_begun.get();
    EXPECT_FALSE(t.cancel());
    go.set_value();
    EXPECT_THROW(wait_all(), std::runtime_error);
  });
}

TEST(misuse, what_was_told_is_not_told_again) {
  on({}, [] {
    hetero_object<int> x(1, 0), y(1, 0);
    hetero_task w([](int*) { throw std::runtime_error("seen"); }, read_write(x));
    w.submit();
    EXPECT_THROW(w.wait(), std::runtime_error);
    submit([](const int*) {}, read(x));
    wait_all();
    for (int i = 0; i < 2; ++i) submit([](int*) {}, commute(x));
    wait_all();
    submit([](const int*, int*) {}, read(x), reduce(y, std::plus<>(), 0));
    submit([](const int*) {}, read(y));
    wait_all();
  });
}

TEST(misuse, callbacks_may_submit_wherever_they_are_called) {
  for (const bool threads : {false, true})
    on({.devices = "host,simulated", .simulated = "1", .threads = threads}, [] {
      object o({1, 16}, 0u);
      promise<void> ran;
      auto has_run = ran.get_future();
      hetero_task t(graph_kernels::add, items(16), 16, 1, 1u, pitch(o), read_write(o));
      t.on("simulated0").submit();
      t.then([&](std::exception_ptr) { submit([&] { ran.set_value(); }); });
      has_run.get();
      t.then([](std::exception_ptr) { throw std::runtime_error("of the callback"); }); // is logged
      wait_all();
    });
}

// Under ThreadSanitizer: the predecessor says by name what is not going to run, while that gets its
// name.
TEST(misuse, names_may_be_given_while_a_predecessor_fails) {
  on({.workers = 2}, [] {
    for (int i = 0; i < 30; ++i) {
      std::atomic<bool> begun{false};
      hetero_task a([&] {
        begun.store(true, std::memory_order_relaxed);
        throw std::runtime_error("on purpose");
      });
      hetero_task b([] {});
      b.name("first").after(a);
      a.submit();
      while (!begun.load(std::memory_order_relaxed)) std::this_thread::yield();
      for (int n = 0; n < 1000; ++n) b.name("second");
      b.submit();
      EXPECT_THAT(text_of_error([&] { b.wait(); }),
                  AllOf(ContainsRegex("task '(first|second)' was not run"), HasSubstr("on purpose")));
      EXPECT_THROW(a.wait(), std::runtime_error);
    }
  });
}

// Under ThreadSanitizer: the thread that drops lent memory checks whether it is the device worker's
// thread, which is just starting.
TEST(misuse, lent_memory_may_be_given_back_by_a_thread_while_that_of_a_device_begins) {
  std::vector<unsigned> mine(16);
  on({.devices = "host,simulated", .simulated = "1", .threads = true}, [&] {
    object o({1, 16}, 0u);
    std::optional<object> lent(object::adopt(mine.data(), {1, 16}));
    std::atomic<bool> go{false};
    std::thread elsewhere([&] {
      while (!go.load(std::memory_order_relaxed)) std::this_thread::yield();
      lent.reset();
    });
    hetero_task t(graph_kernels::add, items(16), 16, 1, 1u, pitch(o), read_write(o));
    t.on("simulated0");
    go.store(true, std::memory_order_relaxed);
    t.submit().wait();
    elsewhere.join();
    EXPECT_EQ(o.host(access_mode::read).get()(0, 3), 4u);
  });
}

// Its fiber would have to wait for a worker.
TEST(device_threads, begin_at_once_while_all_workers_compute) {
  on({.workers = 1, .devices = "host,simulated", .simulated = "1", .threads = true}, [] {
    hetero_object<unsigned, 2> o({4, 4}, 0u);
    for (int round = 0; round < 3; ++round) { // in the first the thread is made
      hetero_task t(graph_kernels::add, tern::items(4, 4), 4, 4, 1u, pitch(o), read_write(o));
      t.on("simulated0").submit();
      const auto begin = std::chrono::steady_clock::now();
      while (round > 0 && t.status() != task_status::done &&
             std::chrono::steady_clock::now() - begin < std::chrono::seconds(20)) {
      }
      EXPECT_TRUE(round == 0 || t.status() == task_status::done);
      wait_all();
    }
    EXPECT_EQ(o.host(access_mode::read).get()(0, 0), 3u);
  });
}

TEST(misuse, an_access_may_outlive_its_scheduler) {
  std::optional<host_access<int, 1>> kept;
  scheduler s({.workers = 1});
  s.run([&] {
    hetero_object<int> x(1, 1);
    kept.emplace(x.host(access_mode::read_write).get());
    submit([](int*) {}, read_write(x)); // will never run
  });
}

TEST(misuse, what_never_runs_is_done_when_its_access_is_released) {
  host_access<int, 1> kept;
  std::optional<hetero_task> task, cancelled;
  std::shared_ptr<int> owned = std::make_shared<int>();
  future<void> over;
  std::optional<future<host_access<int, 1>>> access;
  std::string told;
  {
    scheduler s({.workers = 1});
    s.run([&] {
      hetero_object<int> x(1, 1);
      kept = x.host(access_mode::read_write).get();
      task.emplace([owned](int*) {}, read_write(x));
      task->name("mine").submit();
      over = task->done();
      task->then([&](std::exception_ptr why) {
        told = text_of_error([&] { std::rethrow_exception(why); });
        submit([] {}); // is logged
      });
      cancelled.emplace([owned](int*) {}, read_write(x));
      cancelled->submit();
      cancelled->cancel();
      access.emplace(x.host(access_mode::read));
    });
  }
  std::atomic<bool> begun{false};
  std::thread waits([&] {
    begun.store(true, std::memory_order_relaxed);
    EXPECT_THAT(text_of_error([&] { task->wait(); }), HasSubstr("'mine' was not run"));
  });
  while (!begun.load(std::memory_order_relaxed)) std::this_thread::yield(); // from here on both orders are right
  EXPECT_FALSE(over.ready());
  kept.release();
  waits.join();
  EXPECT_THAT(told, HasSubstr("task 'mine' was not run, as its scheduler has ended"));
  EXPECT_TRUE(access->ready());
  EXPECT_THAT(text_of_error([&] { over.get(); }), HasSubstr("'mine' was not run"));
  EXPECT_EQ(cancelled->status(), task_status::failed);
  EXPECT_EQ(owned.use_count(), 1);
}

TEST(misuse, an_access_may_be_released_between_the_end_of_a_run_and_that_of_its_scheduler) {
  for (const bool simulated : {false, true}) {
    host_access<int, 1> kept;
    std::optional<future<host_access<int, 1>>> access;
    future<void> over;
    std::shared_ptr<int> owned = std::make_shared<int>();
    sim::simulation world({.seed = 1});
    {
      scheduler s({.workers = 1, .simulation = simulated ? &world : nullptr});
      s.run([&] {
        hetero_object<int> x(1, 1);
        kept = x.host(access_mode::read_write).get();
        hetero_task t([owned](int*) {}, read_write(x));
        over = t.submit().done();
        hetero_task elsewhere([owned](int*) {}, read_write(x));
        elsewhere.priority(1).submit(); // is placed
        access.emplace(x.host(access_mode::read));
      });
      kept.release();
      EXPECT_TRUE(access->ready());
      EXPECT_TRUE(over.ready());
      EXPECT_EQ(owned.use_count(), 1);
    }
    EXPECT_THAT(text_of_error([&] { over.get(); }), HasSubstr("was not run, as its scheduler has ended"));
  }
}

TEST(misuse, an_access_may_be_released_while_its_scheduler_ends) {
  std::mt19937 dice(1);
  for (int i = 0; i < 300; ++i) {
    host_access<int, 1> kept;
    std::optional<future<host_access<int, 1>>> access;
    std::atomic<bool> go{false};
    const std::chrono::microseconds delay(dice() % 100);
    std::thread elsewhere([&] {
      while (!go.load(std::memory_order_acquire)) std::this_thread::yield();
      const auto until = std::chrono::steady_clock::now() + delay;
      while (std::chrono::steady_clock::now() < until) {
      }
      kept.release();
    });
    {
      scheduler s({.workers = 1});
      s.run([&] {
        hetero_object<int> x(1, 1);
        kept = x.host(access_mode::read_write).get();
        submit([](int*) {}, read_write(x));
        access.emplace(x.host(access_mode::read));
        go.store(true, std::memory_order_release);
      });
    }
    elsewhere.join();
    EXPECT_TRUE(access->ready());
  }
}

// The fibers have ended when the access is released: the release does not look for them.
TEST(misuse, fibers_may_be_left_that_wait_for_what_never_runs) {
  const auto ended = test_support::in_child([] {
    host_access<int, 1> kept;
    {
      scheduler s({.workers = 1});
      EXPECT_EQ(s.run([&] {
        const hetero_object<int> x(1, 1);
        kept = x.host(access_mode::read_write).get();
        promise<void> own;
        fiber([f = own.get_future()] { f.wait(); }).detach();
        auto* const t = new hetero_task([p = std::move(own)](int*) {}, read_write(x)); // for fibers that wait for ever
        t->submit();
        fiber([t] { t->wait(); }).detach();
        fiber([t] { t->done().get(); }).detach();
        fiber([x] { x.host(access_mode::read).get(); }).detach();
        fiber([] { wait_all(); }).detach();
        for (int i = 0; i < 10; ++i) this_fiber::yield();
      }),
                5u);
    }
    kept.release();
    std::_Exit(testing::Test::HasFailure() ? 1 : 0); // what is left goes with the program, without a word
  });
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
}

TEST(commuting, many_tasks_take_their_turns_in_no_more_time_than_few) {
  on({.workers = 2}, [] {
    hetero_object<long> a(1, 0), b(1, 0);
    constexpr int n = 30000;
    for (int i = 0; i < n; ++i) {
      if (i % 3 == 0)
        submit([](long* x, long* y) { ++*x, ++*y; }, commute(a), commute(b));
      else
        submit([](long* x) { ++*x; }, commute(i % 3 == 1 ? a : b));
    }
    EXPECT_EQ(a.host(access_mode::read).get()[0], n * 2 / 3);
    EXPECT_EQ(b.host(access_mode::read).get()[0], n * 2 / 3);
  });
}

TEST(priorities, of_any_number_keep_their_order) {
  std::vector<int> ran;
  options opts;
  opts.set(hetero_devices, "simulated");
  opts.set(hetero_simulated, "1:launch=1ms");
  opts.set(hetero_queues, 1);
  scheduler s({.workers = 1, .opts = &opts});
  EXPECT_EQ(s.run([&] {
    for (int i = 0; i < 3000; ++i) {
      const int p = i * 7919 % 1000;
      hetero_task t([&ran, p] { ran.push_back(p); });
      t.priority(p).submit();
    }
    wait_all();
  }),
            0u);
  ASSERT_EQ(ran.size(), 3000u);
  // A worker is given a few at a time, the first few before the others came; it begins with the
  // youngest that it has.
  constexpr std::size_t few = 16;
  for (std::size_t i = few; i + 2 * few < ran.size(); ++i) ASSERT_GE(ran[i], ran[i + few]) << i;
}

} // namespace
} // namespace tern::hetero
