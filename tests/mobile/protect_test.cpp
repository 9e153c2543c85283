// SPDX-License-Identifier: Apache-2.0
// Protected steps of whole simulated jobs: what they come to, and what they say.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <tern/base/error.hpp>
#include <tern/base/options.hpp>
#include <tern/mobile/array.hpp>
#include <tern/mobile/checkpoint.hpp>
#include <tern/mobile/protect.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/communicator.hpp>
#include <tern/net/failure/generation.hpp>
#include <tern/net/node.hpp>
#include <tern/net/rank_failure.hpp>
#include <tern/net/runtime.hpp>
#include <tern/net/simulate.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/fiber/sanitizer.hpp>

#ifdef TERN_ASAN
#include <sanitizer/lsan_interface.h>
#endif

namespace protect_test {

using namespace std::chrono_literals;
using tern::call;
using tern::communicator;

// Passes what it has on to its neighbours.
class cell {
public:
  cell() = default;
  cell(const tern::mobile_array<cell>& of, const tern::indices<1>& at)
      : of_(of), here_(at[0]), value_(at[0] * at[0] + 1), bytes_(64) {}
  void step() {
    tern::this_fiber::sleep_for(2ms);
    const std::int64_t n = of_.size()[0];
    tern::send<&cell::take>(of_((here_ + 1) % n), value_);
    tern::send<&cell::take>(of_((here_ + n - 1) % n), 3 * value_);
  }
  void take(std::int64_t x) { come_ += x; }
  void settle() { value_ = (value_ + std::exchange(come_, 0)) % 1'000'003; }
  std::int64_t value() const { return value_; }
  template <class A> void serialize(A& ar) { ar(of_, here_, value_, come_, bytes_); }

private:
  tern::mobile_array<cell> of_;
  std::int64_t here_ = 0, value_ = 0, come_ = 0;
  std::vector<char> bytes_;
};

/// Ranks that die leave what their stacks own.
class stacks_are_lost {
#ifdef TERN_ASAN
  const __lsan::ScopedDisabler stuck_;
#endif
};

struct seen {
  std::vector<std::int64_t> values; // at the end
  tern::protection done;            // of the first that lives
  std::vector<int> living;
  double seconds = 0;
  std::string error, hint;
};

// A job of some steps.
seen run(const tern::sim::world& world, int steps, std::chrono::nanoseconds interval, std::int64_t elements,
         const std::string& folder = {}) {
  seen all;
  [[maybe_unused]] const stacks_are_lost until_the_end{};
  const auto ended = tern::sim::run(world, [&] {
    tern::mobile_array<cell> line;
    int step = 0;
    if (tern::rank() == 0) line = tern::mobile_array<cell>({elements});
    line = tern::broadcast(line);
    try {
      const auto done = tern::protect(
          tern::every(interval),
          [&] {
            const communicator living = communicator::world();
            if (!folder.empty() && (step == 0 || step == 8)) tern::checkpoint(folder, line, step);
            if (living.rank() == 0) call<&cell::step>(line).get();
            tern::quiesce();
            if (living.rank() == 0) call<&cell::settle>(line).get();
            living.barrier();
            if (++step < steps) return true;
            if (living.rank() == 0) {
              all.values.clear();
              for (std::int64_t i = 0; i < elements; ++i) all.values.push_back(call<&cell::value>(line(i)).get());
            }
            living.barrier();
            return false;
          },
          line, step);
      if (communicator::world().rank() == 0) all.done = done, all.living = tern::living();
    } catch (const tern::error& e) {
      all.error = std::string(name_of(e.code())) + ": " + e.message();
      all.hint = e.hint();
    }
    return 0;
  });
  all.seconds = ended.seconds;
  return all;
}

TEST(protect, runs_its_steps_and_keeps_two_copies) {
  const seen one = run(tern::sim::parse_world("ranks=4"), 5, 0s, 40);
  EXPECT_EQ(one.error, "");
  EXPECT_EQ(one.done.steps, 5U);
  EXPECT_EQ(one.done.copies, 5U);
  EXPECT_EQ(one.done.recoveries, 0U);
  EXPECT_GT(one.done.packed, 10 * 64U);
  EXPECT_LT(one.done.kept, 2.1 * static_cast<double>(one.done.packed));
  EXPECT_EQ(one.values.size(), 40U);
}

// What a dead rank's fibers had locked stays so.
TEST(protect, a_rank_that_dies_while_it_goes_back_is_no_error) {
  testing::internal::CaptureStderr();
  int recoveries = 0;
  for (int later = 0; later < 40; ++later) {
    const std::string again = std::to_string(2000 + later * 50);
    const seen got = run(tern::sim::parse_world("ranks=6,faults=crash=1@2ms:crash=4@" + again + "us"), 8, 100us, 24);
    recoveries += static_cast<int>(got.done.recoveries);
    EXPECT_EQ(got.error, "");
  }
  EXPECT_GE(recoveries, 40);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::Not(testing::HasSubstr(" error]")));
}

TEST(protect, takes_a_copy_when_its_time_has_come) {
  const seen one = run(tern::sim::parse_world("ranks=4"), 5, 1h, 40);
  EXPECT_EQ(one.done.copies, 1U); // before the first step
}

TEST(protect, goes_on_when_a_rank_dies) {
  const seen expected = run(tern::sim::parse_world("ranks=4"), 10, 100us, 40);
  const std::string middle = std::to_string(static_cast<int>(expected.seconds / 2 * 1e6));
  const seen got = run(tern::sim::parse_world("ranks=4,faults=crash=2@" + middle + "us"), 10, 100us, 40);
  EXPECT_EQ(got.error, "");
  EXPECT_EQ(got.values, expected.values);
  EXPECT_EQ(got.done.lost, std::vector<int>{2});
  EXPECT_EQ(got.living, (std::vector<int>{0, 1, 3}));
  EXPECT_EQ(got.done.recoveries, 1U);
  EXPECT_GE(got.done.steps, 10U);
}

TEST(protect, goes_on_when_the_first_rank_dies) {
  const seen expected = run(tern::sim::parse_world("ranks=3"), 10, 100us, 30);
  const std::string middle = std::to_string(static_cast<int>(expected.seconds / 2 * 1e6));
  const seen got = run(tern::sim::parse_world("ranks=3,faults=crash=0@" + middle + "us"), 10, 100us, 30);
  EXPECT_EQ(got.error, "");
  EXPECT_EQ(got.values, expected.values);
  EXPECT_EQ(got.done.lost, std::vector<int>{0});
}

TEST(protect, of_many_ranks_loses_three_one_after_the_other) {
  constexpr int ranks = tern::detail::sanitized ? 32 : 256, third = ranks * 3 / 4;
  tern::sim::world world = tern::sim::parse_world("host=4,ranks=" + std::to_string(ranks));
  const seen expected = run(world, 12, 200us, 4 * ranks);
  ASSERT_EQ(expected.error, "");
  for (const auto& [rank, part] : {std::pair(17, 0.3), std::pair(0, 0.5), std::pair(third, 0.7)})
    world.faults.crash.push_back({rank, part * expected.seconds});
  const seen got = run(world, 12, 200us, 4 * ranks);
  EXPECT_EQ(got.error, "");
  EXPECT_EQ(got.values, expected.values);
  EXPECT_EQ(got.done.lost, (std::vector<int>{0, 17, third}));
  EXPECT_GE(got.done.recoveries, 3U);
  EXPECT_EQ(got.living.size(), std::size_t{ranks - 3});
}

TEST(protect, says_which_rank_was_lost_with_its_buddy) {
  const seen got = run(tern::sim::parse_world("ranks=4,faults=crash=1@1ms:crash=2@1ms"), 100, 100us, 40);
  EXPECT_EQ(got.error,
            "rank_lost: the job cannot go on: ranks 1 and 2 were lost before a new copy was complete, and rank 2 kept "
            "the copy of rank 1");
  EXPECT_EQ(got.hint, "call tern::checkpoint now and then, so that the job can be restarted");
}

TEST(protect, names_the_command_that_restarts_the_job) {
  const std::string folder = testing::TempDir() + "tern-protect.ckpt";
  const seen got = run(tern::sim::parse_world("ranks=4,faults=crash=1@1ms:crash=2@1ms"), 100, 100us, 40, folder);
  EXPECT_EQ(got.hint, "start the program again with --tern-restart " + folder);
}

TEST(protect, a_job_that_has_lost_ranks_can_be_restarted) {
  const std::string folder = testing::TempDir() + "tern-protect-lost.ckpt";
  const seen expected = run(tern::sim::parse_world("ranks=4"), 10, 0s, 40);
  const std::string middle = std::to_string(static_cast<int>(expected.seconds / 2 * 1e6));
  const seen lost = run(tern::sim::parse_world("ranks=4,faults=crash=0@" + middle + "us"), 10, 0s, 40, folder);
  ASSERT_EQ(lost.values, expected.values);
  ASSERT_EQ(lost.done.lost, std::vector<int>{0});
  tern::options options;
  options.set(tern::mobile::restart_option, folder);
  std::vector<std::int64_t> values;
  tern::sim::run(
      tern::sim::parse_world("ranks=2"),
      [&] {
        tern::mobile_array<cell> line;
        int step = 0;
        EXPECT_TRUE(tern::restored(line, step));
        EXPECT_EQ(step, 8); // written by three ranks
        for (; step < 10; ++step) {
          if (tern::rank() == 0) call<&cell::step>(line).get();
          tern::quiesce();
          if (tern::rank() == 0) call<&cell::settle>(line).get();
          tern::barrier();
        }
        if (tern::rank() == 0)
          for (std::int64_t i = 0; i < 40; ++i) values.push_back(call<&cell::value>(line(i)).get());
        tern::barrier();
        return 0;
      },
      options);
  EXPECT_EQ(values, expected.values);
}

TEST(protect, of_one_rank_is_refused) {
  const seen got = run(tern::sim::parse_world("ranks=1"), 1, 0s, 4);
  EXPECT_EQ(got.error,
            "invalid_argument: tern::protect was called in a job of one rank: no other rank could keep a copy, nor go "
            "on");
  EXPECT_EQ(got.hint, "start the job with more ranks, or save it by tern::checkpoint");
}

std::string told(const std::function<void()>& what) {
  std::string text;
  tern::sim::run(tern::sim::parse_world("ranks=2"), [&] {
    try {
      what();
    } catch (const tern::error& e) {
      text = std::string(name_of(e.code())) + ": " + e.message();
    }
    return 0;
  });
  return text;
}

TEST(protect, of_steps_that_do_not_agree_is_told) {
  EXPECT_EQ(told([] { tern::protect(tern::every(0s), [] { return tern::rank() == 0; }); }),
            "invalid_state: the step of tern::protect returned true on rank 0 and false on rank 1");
}

TEST(protect, within_protect_is_refused) {
  EXPECT_EQ(told([] {
              tern::protect(tern::every(0s), [] {
                tern::protect(tern::every(0s), [] { return false; });
                return false;
              });
            }),
            "invalid_state: tern::protect was called by a step of tern::protect");
}

TEST(protect, of_a_negative_interval_is_refused) {
  EXPECT_EQ(told([] { tern::protect(tern::every(-1s), [] { return false; }); }),
            "invalid_argument: tern::every was given -1000000000 ns");
}

TEST(protect, throws_what_a_step_throws) {
  EXPECT_EQ(told([] {
              tern::protect(tern::every(0s), []() -> bool { throw tern::error(tern::errc::io, "the disk is full"); });
            }),
            "io: the disk is full");
}

// Ranks are threads, of which the test kills one.
TEST(protect, goes_on_when_a_rank_of_the_process_dies) {
  [[maybe_unused]] const stacks_are_lost until_the_end{};
  for (const std::string workers : {"1", "2"}) {
    std::vector<std::string> words{"test", "--tern-transport=inproc", "--tern-ranks=4", "--tern-workers=" + workers};
    std::vector<char*> argv;
    for (std::string& w : words) argv.push_back(w.data());
    argv.push_back(nullptr);
    int argc = static_cast<int>(words.size());
    std::atomic<int> survivors{0}, lost{0};
    std::atomic<std::int64_t> sum{0};
    const int code = tern::run(argc, argv.data(), [&] {
      tern::mobile_array<cell> line;
      int step = 0;
      if (tern::rank() == 0) line = tern::mobile_array<cell>({40});
      line = tern::broadcast(line);
      bool once = true;
      const auto done = tern::protect(
          tern::every(0s),
          [&] {
            const communicator living = communicator::world();
            if (step == 6 && tern::rank() == 2) tern::net::detail::kill_for_test(tern::net::node::here(), 2);
            if (living.rank() == 0) call<&cell::step>(line).get();
            tern::quiesce();
            if (living.rank() == 0) call<&cell::settle>(line).get();
            living.barrier();
            if (++step < 10) return true;
            if (living.rank() == 0 && std::exchange(once, false)) {
              sum = 0;
              for (std::int64_t i = 0; i < 40; ++i) sum += call<&cell::value>(line(i)).get();
            }
            living.barrier();
            return false;
          },
          line, step);
      ++survivors;
      if (communicator::world().rank() == 0) lost = done.lost == std::vector<int>{2} ? 2 : -1;
      return 0;
    });
    EXPECT_EQ(code, 0);
    EXPECT_EQ(survivors, 3);
    EXPECT_EQ(lost, 2);
    std::int64_t expected = 0;
    for (const std::int64_t v : run(tern::sim::parse_world("ranks=4"), 10, 0s, 40).values) expected += v;
    EXPECT_EQ(sum, expected);
  }
}

} // namespace protect_test
