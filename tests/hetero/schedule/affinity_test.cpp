// SPDX-License-Identifier: Apache-2.0
// Tasks with keys: where they run, when they leave, and what goes together when memory is short.
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/placed.hpp"
#include "tests/task/support/executors.hpp"
#include <tern/hetero/affinity.hpp>
#include <tern/hetero/batch.hpp>
#include <tern/hetero/planned.hpp>
#include <tern/hetero/recorded.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>
#include <tern/task/parallel.hpp>

namespace tern::hetero {
namespace {

using namespace placed;
using testing::HasSubstr;
using key = std::optional<std::uint64_t>;

key key_of(const hetero_task& t) { return ready_task(t.inside()).affinity(); }
key key_here(const object& o) {
  hetero_task t = adding(o);
  t.submit();
  return key_of(t);
}
object made() { return object({rows, columns}, 0u); }
std::vector<object> made(std::size_t n) {
  std::vector<object> all;
  for (std::size_t i = 0; i < n; ++i) all.push_back(made());
  return all;
}
unsigned first_of(const object& o) { return o.host(access_mode::read).get()(0, 0); }

// Which key a task has -------------------------------------------------------------------------------------------------

TEST(affinity, a_task_has_the_key_of_the_innermost_scope_or_its_own) {
  simulate(devices(2, "", "locality"), [] {
    const object o = made();
    EXPECT_EQ(key_here(o), key());
    {
      const affinity_scope outer(7);
      EXPECT_EQ(key_here(o), key(7));
      {
        const affinity_scope inner(~std::uint64_t{0});
        EXPECT_EQ(key_here(o), key(~std::uint64_t{0}));
      }
      EXPECT_EQ(key_here(o), key(7));
      hetero_task own = adding(o);
      own.affinity(0).submit();
      EXPECT_EQ(key_of(own), key(0));
    }
    EXPECT_EQ(key_here(o), key());
    wait_all();
  });
}

TEST(affinity, fibers_and_tasks_started_in_a_scope_are_not_in_it) {
  options opts = devices(2, "", "locality");
  opts.set(hetero_devices, "host,simulated");
  simulate(opts, [&] {
    const object o = made(), other = made();
    const affinity_scope in(7);
    async([&] { EXPECT_EQ(key_here(o), key()); }).get();
    for (int i = 0; i < 20; ++i) // run by any worker, also while this fiber waits
      tern::submit([&](unsigned*) { EXPECT_EQ(key_here(o), key()); }, read_write(other));
    task_group more;
    for (int i = 0; i < 20; ++i) more.run([] { this_fiber::yield(); });
    more.wait();
    wait_all();
    EXPECT_EQ(key_here(o), key(7));
    wait_all();
  });
}

TEST(affinity, a_scope_goes_with_its_fiber_to_other_workers) {
  on({.workers = 4, .devices = "host,simulated", .simulated = "2"}, [] {
    std::vector<future<void>> all;
    for (std::uint64_t n = 0; n < 16; ++n)
      all.push_back(async([n] {
        const object o = made();
        const affinity_scope in(n);
        for (int i = 0; i < 50; ++i) {
          this_fiber::yield();
          hetero_task t = adding(o);
          t.submit();
          EXPECT_EQ(key_of(t), key(n));
          if (i % 10 == 0) t.wait();
        }
        wait_all();
        EXPECT_EQ(first_of(o), 50u);
      }));
    for (auto& f : all) f.get();
  });
}

TEST(affinity, is_said_before_submit) {
  simulate(devices(1, "", "locality"), [] {
    const object o = made();
    hetero_task t = adding(o);
    t.name("late").submit();
    EXPECT_THAT(text_of_error([&] { t.affinity(1); }),
                HasSubstr("hetero_task::affinity: task 'late' has been submitted"));
    wait_all();
  });
}

/// Notes the keys of tasks, which go to the first device that they may run on.
class noting final : public policy {
public:
  static std::vector<key> pushed, popped;
  const char* name() const noexcept override { return "tells-keys"; }
  void push(ready_task t, std::span<const device_load>) override {
    pushed.push_back(t.affinity());
    queue_.push(t);
  }
  std::optional<placement> pop(std::span<const device_load> all) override {
    for (std::size_t d = 0; d < all.size(); ++d)
      if (all[d].free_slots > 0)
        if (const auto t = queue_.take_for(static_cast<int>(d))) {
          popped.push_back(t->affinity());
          return placement{*t, static_cast<int>(d)};
        }
    return std::nullopt;
  }
  bool follow(ready_task, int, std::span<const device_load>) override { return false; }

private:
  ready_queue queue_;
};
std::vector<key> noting::pushed, noting::popped;
const policy_registration noting_is_known("tells-keys", [](std::uint64_t) -> std::unique_ptr<policy> {
  return std::make_unique<noting>();
});

TEST(affinity, a_policy_of_the_program_is_told) {
  noting::pushed.clear();
  noting::popped.clear();
  simulate(devices(1, "", "tells-keys"), [] {
    const object o = made();
    const std::vector<std::uint64_t> keys{5, 0, ~std::uint64_t{0}};
    adding(o).submit();
    for (const std::uint64_t k : keys) {
      const affinity_scope in(k);
      adding(o).submit();
    }
    adding(o).submit();
    wait_all();
  });
  const std::vector<key> all{key(), key(5), key(0), key(~std::uint64_t{0}), key()};
  EXPECT_EQ(noting::pushed, all);
  EXPECT_EQ(noting::popped, all);
}

TEST(affinity, of_batches_plans_and_recorded_steps) {
  noting::pushed.clear();
  simulate(devices(1, "", "tells-keys"), [] {
    const std::vector<object> all = made(3);
    {
      const affinity_scope in(1);
      tern::submit_batch(graph_kernels::add, tern::items(columns, rows), all.size(), [&](std::size_t i) {
        return std::tuple(columns, rows, 1u, pitch(all[i]), read_write(all[i]));
      });
    }
    wait_all();
    planned plan("plan");
    plan.submit([&] {
      for (std::uint64_t i = 0; i < 3; ++i) {
        const affinity_scope in(10 + i); // ends before the tasks are submitted
        tern::submit(graph_kernels::add, tern::items(columns, rows), columns, rows, 1u, pitch(all[i]),
                     read_write(all[i]));
      }
    });
    wait_all();
    recorded step("step");
    const affinity_scope in(20);
    step.submit([&] {
      const affinity_scope inside(21);
      for (const object& o : all)
        tern::submit(graph_kernels::add, tern::items(columns, rows), columns, rows, 1u, pitch(o), read_write(o));
    });
    wait_all();
    for (const object& o : all) EXPECT_EQ(first_of(o), 3u);
  });
  EXPECT_EQ(noting::pushed, (std::vector<key>{1, 1, 1, 10, 11, 12, 20}));
}

// Where tasks run ------------------------------------------------------------------------------------------------------

class keys_under : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(policies, keys_under, testing::Values("locality", "dmda", "steal", "energy"),
                         [](const auto& one) { return one.param; });

/// 8 keys with two objects each; tasks use one, the other, or both.
void steps_of_keys(const std::vector<object>& all, int steps) {
  for (int step = 0; step < steps; ++step)
    for (std::uint64_t k = 0; 2 * k < all.size(); ++k) {
      const affinity_scope in(k);
      adding(all[2 * k]).submit();
      adding(all[2 * k + 1]).submit();
    }
}

TEST_P(keys_under, tasks_of_a_key_run_where_its_data_are) {
  constexpr std::size_t keys = 8;
  constexpr std::uint64_t object_bytes = rows * columns * sizeof(unsigned);
  for (const bool waits : {false, true}) {
    SCOPED_TRACE(waits ? "step by step" : "ahead");
    simulate(devices(4, ",power=10", GetParam(), "1G"), [&] {
      const std::vector<object> all = made(2 * keys);
      const auto before = count();
      const auto ran = tasks_in([&] {
        for (int step = 0; step < 20; ++step) {
          steps_of_keys(all, 1);
          if (waits) wait_all();
        }
        wait_all();
      });
      EXPECT_EQ(count().bytes_to_devices - before.bytes_to_devices, 2 * keys * object_bytes) << "each once";
      EXPECT_EQ(count().bytes_from_devices - before.bytes_from_devices, 0u);
      for (std::size_t d = 1; d <= 4; ++d) EXPECT_EQ(ran[d], 80u) << d;
      for (const object& o : all) EXPECT_EQ(first_of(o), 20u);
    });
  }
}

TEST_P(keys_under, more_keys_than_are_remembered) {
  simulate(devices(3, ",power=10", GetParam()), [] {
    const std::vector<object> all = made(50);
    std::mt19937_64 dice(1);
    for (std::size_t i = 0; i < 5000; ++i) {
      hetero_task t = adding(all[i % all.size()]);
      t.affinity(dice()).submit();
    }
    wait_all();
    for (const object& o : all) EXPECT_EQ(first_of(o), 100u);
  });
}

TEST_P(keys_under, those_of_a_lost_device_have_a_new_home) {
  simulate(devices(2, ",power=10,lose=60@1", GetParam()), [] {
    bool failed = false;
    for (int round = 0; round < 30; ++round) {
      const std::vector<object> all = made(8);
      try {
        steps_of_keys(all, 2);
        wait_all();
      } catch (const error& e) {
        EXPECT_EQ(e.code(), errc::device_lost) << e.what();
        failed = true;
        continue;
      }
      for (const object& o : all) EXPECT_EQ(first_of(o), 2u);
    }
    EXPECT_TRUE(failed);
    EXPECT_GT(tasks_of_devices()[1], 400u);
  });
}

TEST_P(keys_under, a_task_that_may_not_run_there_goes_elsewhere_and_the_key_stays) {
  simulate(devices(2, ",power=10", GetParam()), [] {
    const std::vector<object> all = made(2);
    const auto with_key = [&](const object& o, const char* device) {
      hetero_task t = adding(o);
      if (*device) t.on(device);
      t.affinity(1).submit().wait();
    };
    with_key(all[0], "simulated0");
    for (int i = 0; i < 5; ++i) with_key(all[1], "simulated1");
    EXPECT_EQ(tasks_in([&] { with_key(all[0], ""); })[1], 1u);
    EXPECT_EQ(tasks_in([&] { with_key(all[1], ""); })[1], 1u);
    EXPECT_EQ(first_of(all[0]), 2u);
    EXPECT_EQ(first_of(all[1]), 6u);
  });
}

// When they leave ------------------------------------------------------------------------------------------------------

/// A key at home on simulated0, which then gets work for long; \return how many of the key's next
/// tasks each device runs, one after the other, and then of four when all is done.
std::array<std::vector<std::uint64_t>, 2> beside_much_work(const std::string& policy, const std::string& bandwidth) {
  std::array<std::vector<std::uint64_t>, 2> ran;
  simulate(devices(2, ",power=10", policy, bandwidth), [&] {
    for (const char* d : {"simulated0", "simulated1"}) {
      warm(d);
      for (int i = 0; i < 4; ++i) { // copies there and back
        const object x = made();
        hetero_task t = adding(x);
        t.on(d).submit().wait();
        EXPECT_EQ(first_of(x), 1u);
      }
    }
    const object own = made(), other = made();
    const auto some = [&](int n) {
      for (int i = 0; i < n; ++i) {
        hetero_task t = adding(own);
        t.affinity(1).submit().wait();
      }
    };
    hetero_task first = adding(own);
    first.on("simulated0").affinity(1).submit().wait();
    for (int i = 0; i < 200; ++i) { // one after the other
      hetero_task t = adding(other);
      t.on("simulated0").submit();
    }
    const auto before = tasks_of_devices();
    some(6);
    ran[0] = {tasks_of_devices()[2] - before[2]};
    wait_all();
    ran[1] = tasks_in([&] { some(4); });
    EXPECT_EQ(first_of(own), 11u);
  });
  return ran;
}

TEST_P(keys_under, a_key_moves_where_its_tasks_end_much_earlier) {
  const auto ran = beside_much_work(GetParam(), "1G");
  EXPECT_EQ(ran[0][0], 6u);
  EXPECT_EQ(ran[1][2], 4u) << "it has moved";
}

TEST_P(keys_under, but_not_if_its_data_take_longer) {
  const auto ran = beside_much_work(GetParam(), "10k"); // two tenths of a second for a kilobyte
  EXPECT_EQ(ran[0][0], 0u);
  EXPECT_EQ(ran[1][1], 4u);
}

// Chains of three keys, with tasks that use what is another key's, queued behind each other on the
// devices; other tasks keep one device busy, then the other, so that keys move meanwhile.
TEST_P(keys_under, keys_that_move_while_their_tasks_are_given_change_no_result) {
  const std::uint64_t seeds = std::min<std::uint64_t>(test_support::seeds_of_devices() / 4, 100);
  std::uint64_t moved = 0;
  for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    options opts = devices(2, ",power=10,notice=200us", GetParam(), "1G");
    opts.set(hetero_queues, 1 + static_cast<int>(seed % 2));
    simulate(
        opts,
        [&] {
          for (const char* d : {"simulated0", "simulated1"}) warm(d);
          std::mt19937_64 dice(seed);
          const std::vector<object> all = made(3), busy = made(2);
          std::array<unsigned, 3> expected{};
          const auto copies = count().bytes_from_devices;
          for (int phase = 0; phase < 4; ++phase) {
            for (int i = 0; i < 40; ++i) {
              hetero_task t = adding(busy[static_cast<std::size_t>(phase % 2)]);
              t.on(phase % 2 == 0 ? "simulated0" : "simulated1").submit();
            }
            for (int i = 0; i < 30; ++i) {
              const std::size_t k = dice() % 3;
              hetero_task t = adding(all[dice() % 8 == 0 ? (k + 1) % 3 : k]);
              const std::size_t used = static_cast<std::size_t>(
                  std::find_if(all.begin(), all.end(),
                               [&](const object& o) { return o.inside() == t.inside()->use_at(0).object; }) -
                  all.begin());
              ++expected[used];
              t.affinity(k).submit();
            }
          }
          wait_all();
          moved += count().bytes_from_devices - copies;
          for (std::size_t k = 0; k < 3; ++k) EXPECT_EQ(first_of(all[k]), expected[k]) << k;
        },
        seed);
  }
  EXPECT_GT(moved, 0u) << "no key has moved";
}

// What goes together ---------------------------------------------------------------------------------------------------

/// \return bytes that come back to a device with room for four objects when two keys, whose
/// objects were used as 0 1 1 0, had to make room for one more, and the first is used again.
std::uint64_t fetched_again(bool keys) {
  std::uint64_t bytes = 0;
  simulate(devices(1, ",memory=4k", "locality"), [&] {
    const std::vector<object> first = made(2), second = made(2);
    const object more = made();
    const auto use = [&](const object& o, std::uint64_t k) {
      hetero_task t = adding(o);
      if (keys) t.affinity(k);
      t.submit().wait();
    };
    use(first[0], 0);
    use(second[0], 1);
    use(second[1], 1);
    use(first[1], 0);
    use(more, 2);
    const auto before = count().bytes_to_devices;
    use(first[0], 0);
    use(first[1], 0);
    bytes = count().bytes_to_devices - before;
    for (const object* o : {&first[0], &first[1]}) EXPECT_EQ(first_of(*o), 2u);
    for (const object* o : {&second[0], &second[1], &more}) EXPECT_EQ(first_of(*o), 1u);
  });
  return bytes;
}

TEST(affinity, what_a_key_uses_is_evicted_together) {
  EXPECT_GT(fetched_again(false), 0u) << "its first object was the one unused longest";
  EXPECT_EQ(fetched_again(true), 0u) << "the other key's were, as a whole";
}

TEST(affinity, what_is_not_wanted_goes_by_itself) {
  simulate(devices(1, ",memory=4k", "locality"), [] {
    const std::vector<object> all = made(4);
    const object more = made();
    const affinity_scope in(1);
    for (const object& o : all) adding(o).submit();
    wait_all();
    all[3].wont_use();
    wait_all();
    {
      hetero_task t = adding(more);
      t.affinity(2).submit().wait();
    }
    const auto before = count().bytes_to_devices;
    for (std::size_t i = 0; i < 3; ++i) adding(all[i]).submit();
    wait_all();
    EXPECT_EQ(count().bytes_to_devices, before);
  });
}

} // namespace
} // namespace tern::hetero
