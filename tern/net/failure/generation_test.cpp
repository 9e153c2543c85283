// SPDX-License-Identifier: Apache-2.0
#include <tern/net/failure/generation.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/base/error.hpp>
#include <tern/net/call_options.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/epoch.hpp>
#include <tern/net/message.hpp>
#include <tern/net/node.hpp>
#include <tern/net/rank_failure.hpp>
#include <tern/net/remote_promise.hpp>
#include <tern/net/runtime.hpp>
#include <tern/net/simulate.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/fiber/sanitizer.hpp>
#include <tern/task/future.hpp>

#ifdef TERN_ASAN
#include <sanitizer/lsan_interface.h>
#endif

namespace tern {
namespace {

using namespace std::chrono_literals;
using net::detail::generation_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// Simulates a job that loses ranks, whose fibers are given up.
sim::outcome survive(const std::string& world, const std::function<int()>& main) {
#ifdef TERN_ASAN
  const __lsan::ScopedDisabler stuck; // what the stacks of dead ranks own is lost
#endif
  return sim::run(sim::parse_world(world), main);
}

net::node& here() { return net::node::here(); }

/// \return what `f` fails with; empty if it does not.
std::string loss_in(const std::function<void()>& f) {
  try {
    f();
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::rank_lost) << e.what();
    return e.what();
  }
  return {};
}

void until_abandoned() {
  while (!net::detail::abandoned(here())) this_fiber::sleep_for(100us);
}

int answer_late(int x) {
  this_fiber::sleep_for(10ms);
  return x;
}
void keep(remote_promise<int> p) {
  this_fiber::sleep_for(10ms);
  p.set_value(1);
}

TEST(generation, what_waits_for_others_fails_and_names_the_dead) {
  std::vector<std::string> all;
  const auto o = survive("ranks=3,workers=2,faults=crash=2@2ms", [&] {
    net::detail::guard(here());
    barrier();
    if (rank() == 2) this_fiber::sleep_for(1h);
    std::vector<fiber> waiting;
    if (rank() == 0) {
      const auto waits = [&](std::function<void()> f) {
        waiting.emplace_back([&all, f] { all.push_back(loss_in(f)); });
      };
      waits([] { call<&answer_late>(2, 1).get(); });
      waits([] { call<&answer_late>(call_options{.timeout = 1h}, 1, 1).get(); });
      waits([] {
        remote_promise<int> p;
        auto f = p.get_future();
        send<&keep>(2, std::move(p));
        f.get();
      });
      waits([] { communicator::world().named("other").barrier(); });
      waits([] { finish([] { send<&answer_late>(2, 1); }); });
      waits([] { quiesce(); });
    }
    until_abandoned();
    for (fiber& f : waiting) f.join();
    if (rank() == 0) {
      all.push_back(loss_in([] { send<&answer_late>(1, 1); }));
      all.push_back(loss_in([] { static_cast<void>(call<&answer_late>(1, 1)); }));
      all.push_back(loss_in([] { barrier(); }));
      all.push_back(loss_in([] { communicator::world().named("more").barrier(); }));
    }
    net::detail::recover(here(), -1);
    if (rank() == 0) {
      const std::string late = loss_in([] { send<&answer_late>(2, 1); });
      EXPECT_THAT(late,
                  AllOf(HasSubstr("for rank 2 was given up"), HasSubstr("the job has lost rank 2 (rank 2 crashed")));
    }
    return 0;
  });
  EXPECT_EQ(o.code, 0);
  EXPECT_EQ(all.size(), 10u);
  for (const std::string& text : all)
    EXPECT_THAT(text, AllOf(HasSubstr("the job has lost rank 2 (rank 2 crashed at 0.002"),
                            HasSubstr("tern::living() tells which ranks are left")));
}

TEST(generation, survivors_are_a_world_of_their_own) {
  std::vector<std::vector<int>> worlds(5);
  const auto o = survive("ranks=5,faults=crash=0@1ms:crash=3@1.5ms", [&] {
    net::detail::guard(here());
    barrier();
    EXPECT_THAT(living(), ElementsAre(0, 1, 2, 3, 4));
    while (generation_of(here()) < 2) {
      until_abandoned();
      const auto now = net::detail::recover(here(), rank());
      EXPECT_EQ(now.generation, generation_of(here()));
      EXPECT_FALSE(now.finished);
      if (now.generation == 2) {
        EXPECT_EQ(now.copy, 4); // the largest
        EXPECT_THAT(now.living, ElementsAre(1, 2, 4));
      }
    }
    EXPECT_THAT(living(), ElementsAre(1, 2, 4));
    EXPECT_EQ(size(), 5);
    const communicator world = communicator::world();
    worlds[static_cast<std::size_t>(rank())] = world.allgather(rank());
    EXPECT_EQ(world.job_rank(world.rank()), rank());
    EXPECT_EQ(world.broadcast(rank(), 0), 1); // the first that lives
    quiesce(quiescence::fibers);
    return rank();
  });
  EXPECT_EQ(o.code, 4);
  for (const std::size_t r : {1u, 2u, 4u}) EXPECT_THAT(worlds[r], ElementsAre(1, 2, 4));
}

TEST(generation, who_has_done_its_part_says_so_to_others) {
  int told = 0;
  survive("ranks=3,faults=crash=2@1ms", [&] {
    net::detail::guard(here());
    barrier();
    if (rank() == 0) return 0; // takes part in the recovery, as the job's end
    if (rank() == 2) this_fiber::sleep_for(1h);
    until_abandoned();
    told += net::detail::recover(here(), 7).finished;
    return 0;
  });
  EXPECT_EQ(told, 1);
}

TEST(generation, without_a_death_nothing_is_to_be_recovered) {
  const auto o = sim::run(sim::parse_world("ranks=2"), [] {
    EXPECT_TRUE(net::detail::survives(here()));
    net::detail::guard(here());
    net::detail::guard(here());
    const auto now = net::detail::recover(here(), 3);
    EXPECT_EQ(now.generation, 0);
    EXPECT_EQ(now.copy, 3);
    EXPECT_THAT(now.living, ElementsAre(0, 1));
    barrier();
    return 0;
  });
  EXPECT_EQ(o.code, 0);
}

TEST(generation, a_guard_that_comes_late_knows_of_earlier_deaths) {
  survive("ranks=3,faults=crash=1@1ms", [] {
    on_rank_failure([](const rank_failure&) {});
    this_fiber::sleep_for(5ms);
    EXPECT_FALSE(net::detail::abandoned(here()));
    EXPECT_THAT(living(), ElementsAre(0, 2));
    net::detail::guard(here());
    until_abandoned();
    EXPECT_EQ(net::detail::recover(here(), -1).generation, 1);
    barrier();
    return 0;
  });
}

// Ranks are threads: a test kills one of them.
int on_threads(int ranks, int workers, const std::function<int()>& main) {
  const std::string n = "--tern-ranks=" + std::to_string(ranks), w = "--tern-workers=" + std::to_string(workers);
  std::string name = "test", of = "--tern-transport=inproc", r = n, wk = w;
  std::vector<char*> argv{name.data(), of.data(), r.data(), wk.data(), nullptr};
  int argc = 4;
  return run(argc, argv.data(), main);
}

int twice(int x) { return 2 * x; }

TEST(generation, threads_go_on_after_one_was_killed) {
  for (const int workers : {1, 2}) {
    std::atomic<int> survivors{0}, sum{0};
    const int code = on_threads(4, workers, [&] {
      net::detail::guard(here());
      barrier();
      for (int step = 0; step < 20;) {
        try {
          if (rank() == 2 && step == 3) {
            net::detail::kill_for_test(here(), 2);
            until_abandoned();
          }
          const communicator world = communicator::world();
          const int to = world.job_rank((world.rank() + 1) % world.size());
          EXPECT_EQ(call<&twice>(to, step).get(), 2 * step);
          quiesce();
          EXPECT_EQ(world.allreduce(1, std::plus<>()), step <= 3 && world.size() == 4 ? 4 : 3);
          ++step;
        } catch (const error& e) {
          EXPECT_EQ(e.code(), errc::rank_lost) << e.what();
          EXPECT_THAT(e.what(), HasSubstr("rank 2 (rank 2 was killed by a test)"));
          const auto now = net::detail::recover(here(), step);
          EXPECT_THAT(now.living, ElementsAre(0, 1, 3));
          step = static_cast<int>(now.copy);
        }
      }
      ++survivors;
      sum += communicator::world().allreduce(rank(), std::plus<>());
      return 0;
    });
    EXPECT_EQ(code, 0);
    EXPECT_EQ(survivors, 3);
    EXPECT_EQ(sum, 3 * 4);
  }
}

} // namespace
} // namespace tern
