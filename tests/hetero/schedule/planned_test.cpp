// SPDX-License-Identifier: Apache-2.0
// Tasks that are placed ahead, round after round.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/placed.hpp"
#include <tern/hetero/plan/planned_tasks.hpp>
#include <tern/hetero/planned.hpp>
#include <tern/hetero/recorded.hpp>

namespace tern::hetero {
namespace {

using namespace placed;
using detail::round_times;
using testing::HasSubstr;

// Which way rounds go -------------------------------------------------------------------------------------------------

TEST(round_times, the_better_way_stays_and_the_other_is_tried_every_16th_round) {
  round_times t;
  t.restart(1);
  EXPECT_EQ(t.next(), round_times::by_policy) << "nothing is known";
  t.ended(1, round_times::by_policy, 0, 10);
  EXPECT_EQ(t.next(), round_times::by_plan);
  t.ended(1, round_times::by_plan, 10, 18);
  for (int n = 1; n < round_times::compared_every; ++n) EXPECT_EQ(t.next(), round_times::by_plan);
  EXPECT_EQ(t.next(), round_times::by_policy);
  EXPECT_FALSE(t.stale());
  t.ended(1, round_times::by_policy, 18, 20); // it has become the better one
  for (int n = 1; n < round_times::compared_every; ++n) EXPECT_EQ(t.next(), round_times::by_policy);
  EXPECT_EQ(t.next(), round_times::by_plan);
  EXPECT_TRUE(t.stale()) << "its expectations are old";
}

TEST(round_times, rounds_that_overlap_count_from_the_end_of_the_one_before) {
  round_times t;
  t.restart(1);
  t.ended(1, round_times::by_policy, 0, 10);
  t.ended(1, round_times::by_plan, 0, 19); // nine seconds, though it was submitted at once
  EXPECT_EQ(t.next(), round_times::by_plan);
}

TEST(round_times, those_of_other_tasks_do_not_count) {
  round_times t;
  t.restart(1);
  t.restart(2);
  t.ended(1, round_times::by_policy, 0, 10);
  EXPECT_EQ(t.next(), round_times::by_policy) << "of these none has ended";
}

// Rounds --------------------------------------------------------------------------------------------------------------

/// A chain, and tasks that could run beside it.
struct step {
  explicit step(int others) {
    for (int i = 0; i < others; ++i) side.emplace_back(extents<2>{rows, columns}, 0u);
  }
  void submit(const object& o) const {
    tern::submit(graph_kernels::add, tern::items(columns, rows), columns, rows, 1u, pitch(o), read_write(o));
  }
  void operator()() const {
    for (const object& o : side) submit(o);
    for (int i = 0; i < 20; ++i) submit(chain);
  }
  void check(unsigned rounds) const {
    EXPECT_EQ(chain.host(access_mode::read).get()(0, 0), 20 * rounds);
    for (const object& o : side) EXPECT_EQ(o.host(access_mode::read).get()(0, 0), rounds);
  }
  object chain{extents<2>{rows, columns}, 0u};
  std::vector<object> side;
};

TEST(planned, rounds_do_what_their_tasks_do_and_get_no_slower) {
  simulate(devices(2, ",speed=1,speed=4@1", "dmda"), [] {
    const step s(40);
    planned p("step");
    std::vector<double> taken;
    for (unsigned round = 0; round < 40; ++round) {
      const double begin = now();
      p.submit([&] { s(); });
      wait_all();
      taken.push_back(now() - begin);
    }
    s.check(40);
    std::sort(taken.begin() + 4, taken.end());
    const double usual = taken[20];
    EXPECT_LT(usual, 1.3 * 60 * kernel_seconds / 5) << "both devices share it";
    EXPECT_GE(usual, 60 * kernel_seconds / 5);
  });
}

TEST(planned, rounds_may_be_submitted_without_waiting) {
  simulate(devices(2, ",speed=1,speed=4@1", "locality"), [] {
    const step s(10);
    planned p;
    for (unsigned round = 0; round < 50; ++round) p.submit([&] { s(); });
    wait_all();
    s.check(50);
  });
}

TEST(planned, functions_have_no_times_so_it_goes_by_the_policy) {
  testing::internal::CaptureStderr();
  simulate(devices(1, "", "dmda"), [] {
    object x({rows, columns}, 0u);
    planned p("with a function");
    for (int round = 0; round < 12; ++round) {
      p.submit([&] { tern::submit([](unsigned* v) { ++v[0]; }, read_write(x)); });
      wait_all();
    }
    EXPECT_EQ(x.host(access_mode::read).get()(0, 0), 12u);
  });
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      HasSubstr("planned 'with a function': no plan, as the time of task 'task' is measured on no device; tasks "
                "go by the policy"));
}

TEST(planned, other_tasks_have_another_plan) {
  simulate(devices(2, "", "dmda"), [] {
    const step a(8), b(3);
    planned p("two steps");
    for (unsigned round = 0; round < 6; ++round) {
      p.submit([&] { a(); });
      p.submit([&] { b(); });
      p.submit([] {});
    }
    wait_all();
    a.check(6);
    b.check(6);
  });
}

TEST(planned, a_lost_device_leaves_its_tasks_to_others) {
  simulate(devices(2, ",lose=150@1", "dmda"), [] {
    const step s(30);
    planned p("step");
    int failed = 0;
    for (int round = 0; round < 12; ++round) {
      p.submit([&] { s(); });
      failed += text_of_error([] { wait_all(); }) != "nothing was thrown";
    }
    EXPECT_GT(failed, 0) << "what it alone had is lost";
    object fresh({rows, columns}, 0u);
    for (int round = 0; round < 6; ++round) p.submit([&] { s.submit(fresh); });
    wait_all();
    EXPECT_EQ(fresh.host(access_mode::read).get()(0, 0), 6u);
  });
}

TEST(planned, a_failing_task_fails_alone) {
  simulate(devices(2, ",fail-kernel=30@0", "dmda"), [] {
    const step s(20);
    planned p("step");
    std::string text;
    for (int round = 0; round < 10; ++round) {
      p.submit([&] { s(); });
      const std::string said = text_of_error([] { wait_all(); });
      if (said != "nothing was thrown") text = said;
    }
    EXPECT_THAT(text, HasSubstr("failed"));
  });
}

TEST(planned, is_refused_what_recorded_is) {
  simulate(devices(1, "", "dmda"), [] {
    object x({rows, columns}, 0u);
    planned p("step");
    const auto text = [&](const std::function<void()>& f) { return text_of_error([&] { p.submit(f); }); };
    EXPECT_THAT(text([] { this_fiber::yield(); }),
                HasSubstr("the function given to planned::submit of 'step' has waited; it must only submit tasks"));
    EXPECT_THAT(text([&] {
                  hetero_task t = adding(x);
                  t.submit();
                }),
                HasSubstr("within planned::submit of 'step' task 'add' has a handle, but is part of a larger one"));
    EXPECT_THAT(text([&] { static_cast<void>(x.host(access_mode::read)); }),
                HasSubstr("within planned::submit of 'step' an object was to be accessed, fetched or dropped"));
    EXPECT_THAT(text([&] { p.submit([] {}); }),
                HasSubstr("planned::submit of 'step' was called within that of 'step'"));
    EXPECT_THAT(text([] { recorded("inner").submit([] {}); }),
                HasSubstr("recorded::submit of 'inner' was called within planned::submit of 'step'"));
    const step s(0);
    EXPECT_THROW(p.submit([&] {
      s.submit(x);
      throw std::runtime_error("on purpose");
    }),
                 std::runtime_error);
    EXPECT_EQ(x.host(access_mode::read).get()(0, 0), 0u) << "nothing has been submitted";
  });
}

TEST(planned, random_rounds_are_as_their_tasks_in_order) {
  for (std::uint64_t seed = 1; seed <= 200 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const char* const policies[] = {"locality", "dmda", "steal", "eager"};
    options opts = devices(1 + static_cast<int>(seed % 3), seed % 2 == 0 ? ",speed=1,speed=3@0" : "",
                           policies[seed % 4], seed % 5 == 0 ? "10M" : "0");
    opts.set(hetero_devices, seed % 3 == 0 ? "simulated" : "host,simulated");
    simulate(
        opts,
        [seed] {
          std::mt19937_64 dice(seed);
          constexpr std::size_t many = 6;
          std::vector<object> objects;
          std::vector<unsigned> expected(many, 0);
          for (std::size_t i = 0; i < many; ++i) objects.emplace_back(extents<2>{rows, columns}, 0u);
          struct one {
            std::size_t to;
            unsigned by;
            std::int64_t from; // rows
          };
          std::vector<one> all;
          for (std::size_t n = 1 + dice() % 40; n > 0; --n)
            all.push_back({dice() % many, static_cast<unsigned>(dice() % 5), dice() % 2 == 0 ? 0 : 4});
          planned p("random");
          const unsigned rounds = 3 + static_cast<unsigned>(dice() % 20);
          for (unsigned round = 0; round < rounds; ++round) {
            p.submit([&] {
              for (const one& t : all) {
                const auto view = objects[t.to].rows(t.from, std::int64_t{placed::rows});
                tern::submit(graph_kernels::add,
                             tern::items(columns, static_cast<int>(std::int64_t{placed::rows} - t.from)), columns,
                             static_cast<int>(std::int64_t{placed::rows} - t.from), t.by, pitch(view),
                             read_write(view));
              }
            });
            if (dice() % 3 == 0) wait_all();
          }
          wait_all();
          for (std::size_t i = 0; i < many; ++i) {
            unsigned low = 0, high = 0;
            for (const one& t : all) {
              if (t.to != i) continue;
              // What `add` adds in column 3: of row 5, which is row 1 of a part that begins at 4.
              high += t.by * (t.from == 0 ? 3 + 3 * 5 + 1 : 3 + 3 * 1 + 1);
              if (t.from == 0) low += t.by * (3 + 1);
            }
            const auto host = objects[i].host(access_mode::read).get();
            EXPECT_EQ(host(0, 3), low * rounds);
            EXPECT_EQ(host(5, 3), high * rounds);
          }
        },
        seed);
  }
}

// The plan does not know of it.
TEST(planned_tasks, an_idle_device_takes_from_a_like_one_that_is_behind) {
  simulate(devices(2, "", "dmda"), [] {
    warm("simulated0");
    warm("simulated1");
    std::vector<object> all;
    for (int i = 0; i < 40; ++i) all.emplace_back(extents<2>{rows, columns}, 0u);
    planned p("wide");
    const auto round = [&] {
      p.submit([&] {
        for (const object& o : all)
          submit(graph_kernels::add, tern::items(columns, rows), columns, rows, 1u, pitch(o), read_write(o));
      });
    };
    double plain = 0;
    for (int i = 0; i < 4; ++i) { // the policy's round, then the plan's
      const double begin = now();
      round();
      wait_all();
      plain = now() - begin;
    }
    EXPECT_NEAR(plain, 20 * kernel_seconds, 2 * kernel_seconds);
    constexpr int times = 20;
    object large({times * rows, columns}, 0u);
    const double begin = now();
    hetero_task t(graph_kernels::add, tern::items(columns, times * rows), columns, times * rows, 1u, pitch(large),
                  read_write(large));
    t.on("simulated0").submit();
    round();
    wait_all();
    EXPECT_LT(now() - begin, 36 * kernel_seconds) << "not 40";
    for (const object& o : all) EXPECT_EQ(o.host(access_mode::read).get()(0, 0), 5u);
  });
}

} // namespace
} // namespace tern::hetero
