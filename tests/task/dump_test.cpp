// SPDX-License-Identifier: Apache-2.0
/// \file
/// Dumps of all fibers: what each waits for, since when, and where it was made.
#include <atomic>
#include <functional>
#include <mutex>
#include <sstream>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/base/clock.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/semaphore.hpp>
#include <tern/task/sync.hpp>

#include "tests/task/support/executors.hpp"

namespace tern {
namespace {

using namespace std::chrono_literals;
using test_support::on_workers;
using test_support::simulated;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// The line of the picture about the fiber of that name.
std::string line_of(const std::string& name, const std::string& picture) {
  std::istringstream lines(picture);
  for (std::string line; std::getline(lines, line);)
    if (line.find("'" + name + "': ") != std::string::npos) return line;
  return "nothing about " + name;
}

/// Fibers in all states; \param look called in the fiber "busy", while they are.
void in_all_states(const std::function<void()>& look) {
  mutex m;
  promise<int> p;
  auto f = p.get_future();
  std::stop_source stop;
  latch locked(1), done(1);
  semaphore s(0);
  condition_variable c;
  fiber owner(
      [&] {
        const std::unique_lock hold(m);
        locked.count_down();
        done.wait();
      },
      {.name = "owner"});
  locked.wait();
  fiber locks([&] { const std::unique_lock hold(m); }, {.name = "locks"});
  fiber asks([&] { EXPECT_EQ(f.get(), 1); }, {.name = "asks"});
  fiber sleeps([&] { this_fiber::sleep_for(1h, stop.get_token()); }, {.name = "sleeps"});
  fiber joins([&] { owner.join(); }, {.name = "joins"});
  fiber acquires([&] { s.acquire(); }, {.name = "acquires"});
  fiber ended([] {}, {.name = "ended"});
  this_fiber::sleep_for(20ms); // all others are where they will be; the picture is taken again until they are
  fiber busy(
      [&] {
        fiber idle([] {}, {.name = "idle", .worker = 0});
        look();
      },
      {.name = "busy", .worker = 0});
  busy.join();
  done.count_down();
  p.set_value(1);
  stop.request_stop();
  s.release();
}

void check_picture(const std::string& picture) {
  const auto line = [&](const std::string& name) { return line_of(name, picture); };
  const auto since = HasSubstr(", since ");
  EXPECT_THAT(picture, HasSubstr("scheduler 'test':"));
  EXPECT_THAT(line("main"), AllOf(HasSubstr("waits for fiber"), HasSubstr("'busy' to end"), since));
  EXPECT_THAT(line("owner"), AllOf(HasSubstr("waits for latch"), since));
  EXPECT_THAT(line("locks"),
              AllOf(HasSubstr("waits for mutex 0x"), HasSubstr(" that fiber "), HasSubstr("'owner' has, since ")));
  EXPECT_THAT(line("asks"), AllOf(HasSubstr("waits for future"), since));
  EXPECT_THAT(line("sleeps"), AllOf(HasSubstr("'sleeps': sleeps"), since));
  EXPECT_THAT(line("joins"),
              AllOf(HasSubstr("waits for fiber"), HasSubstr("'owner' to end"), since, Not(HasSubstr(" has,"))));
  EXPECT_THAT(line("acquires"), AllOf(HasSubstr("waits for semaphore"), since));
  EXPECT_THAT(line("ended"), HasSubstr("has ended and was not joined"));
  EXPECT_THAT(line("idle"), HasSubstr("can run"));
  EXPECT_THAT(line("busy"), HasSubstr("'busy': runs"));
  for (const char* name : {"main", "owner", "locks", "asks", "sleeps", "joins", "acquires", "ended", "idle", "busy"})
    EXPECT_THAT(line(name), HasSubstr("made at ")) << name;
  for (const char* name : {"owner", "locks", "asks", "sleeps", "joins", "acquires", "ended", "idle", "busy"})
    EXPECT_THAT(line(name), HasSubstr("dump_test.cpp:")) << name;
}

TEST(dump_fibers, from_a_fiber) {
  for (const int workers : {1, 2}) on_workers(workers, [] { in_all_states([] { check_picture(dump_fibers()); }); });
  simulated([] { in_all_states([] { check_picture(dump_fibers()); }); }, 3, 50);
}

TEST(dump_fibers, from_a_foreign_thread) {
  for (const int workers : {1, 2}) {
    std::atomic<int> ready{0};
    std::string picture;
    std::thread other([&] {
      ready.wait(0);
      picture = dump_fibers();
      ready = 2;
    });
    on_workers(workers, [&] {
      in_all_states([&] {
        ready = 1;
        ready.notify_one();
        while (ready != 2) std::this_thread::yield(); // it runs meanwhile
      });
    });
    other.join();
    check_picture(picture);
  }
}

TEST(dump_fibers, tells_how_long) {
  std::string picture;
  simulated(
      [&] {
        fiber f([] { this_fiber::sleep_for(10s); }, {.name = "long"});
        this_fiber::sleep_for(2500ms);
        picture = line_of("long", dump_fibers());
        EXPECT_THAT(picture, HasSubstr("since 2.500 s"));
      },
      2, 20);
  on_workers(1, [] {
    fiber f([] { this_fiber::sleep_for(100ms); }, {.name = "long"});
    const double began = steady_seconds();
    this_fiber::sleep_for(50ms);
    const std::string line = line_of("long", dump_fibers());
    const double most = steady_seconds() - began;
    const auto at = line.find("since ");
    if (at == std::string::npos) return; // this thread was away for too long, and it has ended
    const double told = std::stod(line.substr(at + 6));
    EXPECT_GE(told, 0.04);
    EXPECT_LE(told, most + 0.01);
  });
}

TEST(dump_fibers, while_they_come_and_go) {
  std::atomic<bool> over{false};
  std::atomic<int> pictures{0};
  std::string last;
  std::thread other([&] {
    while (!over) {
      last = dump_fibers();
      ++pictures;
    }
  });
  on_workers(2, [&] {
    mutex m;
    const double until = steady_seconds() + 10;
    do {
      std::vector<fiber> all;
      for (int i = 0; i < 20; ++i)
        all.emplace_back(
            [&] {
              const std::unique_lock hold(m);
              this_fiber::yield();
            },
            fiber_options{.name = i % 2 ? "odd" : "an even one with a longer name"});
      this_fiber::sleep_for(100us);
      for (auto& f : all) f.join();
    } while (pictures < 100 && steady_seconds() < until);
  });
  over = true;
  other.join();
  EXPECT_GE(pictures, 100);
}

TEST(dump_fibers, of_nobody) {
  EXPECT_EQ(dump_fibers(), "");
  scheduler a({.name = "first"}), b({.name = "second"});
  EXPECT_THAT(dump_fibers(), AllOf(HasSubstr("scheduler 'first':\n"), HasSubstr("scheduler 'second':\n")));
}

} // namespace
} // namespace tern
