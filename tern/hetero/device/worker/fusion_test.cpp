// SPDX-License-Identifier: Apache-2.0
// Small equal tasks in one launch: when that is done, and that it changes nothing but the time.
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/graph_kernels.hpp"
#include "tests/hetero/support/tasks.hpp"
#include <tern/hetero/device/worker/fusion.hpp>
#include <tern/task/sim.hpp>

namespace tern::hetero {
namespace {

using detail::fused_kind;
using testing::HasSubstr;
using object = hetero_object<unsigned, 2>;

/// Batches of `n` tasks, each of which takes so long. \return how many of them were launched
/// together.
class model {
public:
  model(std::int64_t apart, std::int64_t together) : cost_{apart, together} {}
  int run(int batches, std::size_t n) {
    int count = 0;
    for (int i = 0; i < batches; ++i) {
      const bool how = kind.together();
      count += how ? 1 : 0;
      kind.began(now_, n);
      now_ += cost_[how ? 1 : 0] * static_cast<std::int64_t>(n);
      kind.ended(now_, n);
      now_ += 1000000; // what is not the device's time does not count
    }
    return count;
  }
  void change(std::int64_t apart, std::int64_t together) {
    cost_[0] = apart;
    cost_[1] = together;
  }
  fused_kind kind;

private:
  std::int64_t now_ = 0;
  std::int64_t cost_[2];
};

TEST(fusion, keeps_the_quicker_way) {
  constexpr std::size_t n = 16;
  constexpr int epoch = fused_kind::epoch / n, many = 100 * epoch;
  model slow(1000, 3000), quick(1000, 100);
  slow.run(10 * epoch, n); // learn
  quick.run(10 * epoch, n);
  const int tried = slow.run(many, n), kept = quick.run(many, n);
  EXPECT_EQ(slow.kind.cost(false), 1000);
  EXPECT_EQ(slow.kind.cost(true), 3000);
  EXPECT_EQ(quick.kind.cost(true), 100);
  EXPECT_GT(tried, 0); // now and then, as things change
  EXPECT_LT(tried, many / 20);
  EXPECT_GT(kept, many - many / 20);
}

/// A machine that does other things, too: some epochs take far longer than they would.
class noisy_model {
public:
  noisy_model(std::int64_t apart, std::int64_t together, std::uint64_t seed) : cost_{apart, together}, dice_(seed) {}
  /// Epochs. \return how many of them were together.
  int run(int epochs) {
    int count = 0;
    for (int e = 0; e < epochs; ++e) {
      const bool how = kind.together();
      count += how ? 1 : 0;
      const auto slower = dice_() % 3 == 0 ? 1 + static_cast<std::int64_t>(dice_() % 5) : 1;
      kind.began(now_, fused_kind::epoch);
      now_ += cost_[how ? 1 : 0] * slower * static_cast<std::int64_t>(fused_kind::epoch);
      kind.ended(now_, fused_kind::epoch);
    }
    return count;
  }
  fused_kind kind;

private:
  std::int64_t now_ = 0;
  const std::int64_t cost_[2];
  std::mt19937_64 dice_;
};

TEST(fusion, is_decided_alike_on_a_busy_machine) {
  constexpr int learning = 10, many = 1000;
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    noisy_model same(1000, 1000, seed), quick(1000, 500, seed), slow(1000, 2500, seed);
    for (noisy_model* m : {&same, &quick, &slow}) m->run(learning);
    wrong += same.run(many) < many * 9 / 10 ? 1 : 0;
    wrong += quick.run(many) < many * 9 / 10 ? 1 : 0;
    wrong += slow.run(many) > many / 10 ? 1 : 0;
  }
  EXPECT_LE(wrong, 6) << "of 300";
}

TEST(fusion, changes_with_what_it_costs) {
  constexpr std::size_t n = 16;
  constexpr int epoch = fused_kind::epoch / n;
  model m(1000, 500);
  m.run(20 * epoch, n);
  EXPECT_TRUE(m.kind.together());
  m.change(1000, 4000);
  m.run(10 * epoch, n);
  const int still = m.run(100 * epoch, n);
  EXPECT_LT(still, 10 * epoch);
  m.change(4000, 500);
  m.run(static_cast<int>(4 * fused_kind::every * fused_kind::rarest) * epoch, n);
  EXPECT_TRUE(m.kind.together());
}

TEST(fusion, is_tried_less_often_if_it_stays_worse) {
  constexpr std::size_t n = 16;
  constexpr int epoch = fused_kind::epoch / n, many = 32 * 3 * epoch; // one look with no more patience
  model m(1000, 3000);
  m.run(10 * epoch, n);
  const int first = m.run(3 * many, n), later = m.run(3 * many, n), last = m.run(16 * many, n);
  EXPECT_GE(first, epoch);
  EXPECT_LE(later, first);
  EXPECT_GE(last, epoch) << "now and then";
  EXPECT_LE(last, 3 * epoch);
}

TEST(fusion, is_not_tried_before_it_could_have_been) {
  model alone(1000, 100);
  EXPECT_EQ(alone.run(10000, 1), 0);
  model rare(1000, 100);
  EXPECT_EQ(rare.run(static_cast<int>(fused_kind::hot / 8) - 1, 8), 0);
}

TEST(fusion, is_over_where_it_cannot_be) {
  model m(1000, 100);
  m.run(1000, 16);
  m.kind.never();
  EXPECT_EQ(m.run(1000, 16), 0);
}

TEST(fusion, of_what_overlaps_counts_time_once) {
  fused_kind kind;
  // Four at the device at any time, one of which ends each microsecond: a microsecond a task.
  std::int64_t now = 0;
  kind.began(now, 4);
  for (std::size_t i = 0; i < 2 * fused_kind::epoch; ++i) {
    now += 1000;
    kind.ended(now, 1);
    kind.began(now, 1);
  }
  EXPECT_EQ(kind.cost(false), 1000);
}

/// In a simulation. \return virtual seconds.
template <class F> double simulate(const std::string& simulated, F&& f) {
  options opts;
  opts.set(hetero_devices, "simulated");
  opts.set(hetero_simulated, simulated);
  sim::simulation world;
  scheduler s({.workers = 2, .simulation = &world, .opts = &opts});
  double seconds = 0;
  EXPECT_EQ(s.run([&] {
    const auto begin = fiber_clock::now();
    f();
    seconds = std::chrono::duration<double>(fiber_clock::now() - begin).count();
  }),
            0u);
  return seconds;
}

void small_tasks(int rounds) {
  std::vector<object> objects;
  for (int i = 0; i < 200; ++i) objects.emplace_back(extents<2>{4, 4}, static_cast<unsigned>(i));
  for (int r = 0; r < rounds; ++r)
    for (const object& o : objects) submit(graph_kernels::add, items(4, 4), 4, 4, 1u, pitch(o), read_write(o));
  wait_all();
  for (unsigned i = 0; i < 200; ++i) {
    auto host = objects[i].host(access_mode::read).get();
    for (int y = 0; y < 4; ++y)
      for (int x = 0; x < 4; ++x) // what add adds, for each round
        ASSERT_EQ(host(y, x), i + static_cast<unsigned>(rounds * (x + 3 * y + 1)));
  }
}

TEST(fusion, is_done_where_launching_costs_most) {
  const std::string cheap = ":launch=10us,item=1ns,latency=0";
  const double apart = simulate("1" + cheap, [] { small_tasks(30); }),
               together = simulate("1" + cheap + ",fuse=64", [] { small_tasks(30); });
  EXPECT_LT(together, apart / 2);
}

TEST(fusion, is_not_done_where_kernels_take_long) {
  const std::string dear = ":launch=1us,item=1us,latency=0"; // in one stream they would be one after the other
  const double apart = simulate("1" + dear, [] { small_tasks(30); }),
               allowed = simulate("1" + dear + ",fuse=64", [] { small_tasks(30); });
  EXPECT_LT(allowed, apart * 1.5);
}

TEST(fusion, what_is_launched_together_fails_together) {
  options opts;
  opts.set(hetero_devices, "simulated");
  opts.set(hetero_simulated, "1:fuse=8,launch=10us,fail-kernel=2500");
  sim::simulation world;
  scheduler s({.workers = 1, .simulation = &world, .opts = &opts});
  EXPECT_EQ(s.run([] {
    std::vector<object> objects;
    for (int i = 0; i < 64; ++i) objects.emplace_back(extents<2>{4, 4}, 0u);
    std::vector<hetero_task> last;
    for (int r = 0; r < 40; ++r) {
      last.clear();
      for (const object& o : objects) {
        last.emplace_back(graph_kernels::add, items(4, 4), 4, 4, 1u, pitch(o), read_write(o));
        last.back().name("small").submit();
      }
    }
    int failed = 0;
    for (auto& t : last) {
      const std::string text = text_of_error([&] { t.wait(); });
      if (text == "nothing was thrown") continue;
      ++failed;
      EXPECT_THAT(text, HasSubstr("'add' in stream"));
    }
    EXPECT_GT(failed, 1); // the objects of one launch
    EXPECT_LE(failed, 8);
    EXPECT_THAT(text_of_error([] { wait_all(); }), HasSubstr("simulated0"));
  }),
            0u);
}

TEST(fusion, ends_with_the_device) {
  options opts;
  opts.set(hetero_devices, "simulated");
  opts.set(hetero_simulated, "2:fuse=16,launch=10us,lose=700@0");
  opts.set(hetero_policy, "eager");
  for (std::uint64_t seed = 1; seed <= 20 && !HasFailure(); ++seed) {
    sim::settings settings;
    settings.seed = seed;
    sim::simulation world(settings);
    scheduler s({.workers = 2, .simulation = &world, .opts = &opts});
    EXPECT_EQ(s.run([] {
      std::uint64_t ended = 0;
      std::vector<hetero_task> all;
      std::vector<object> objects;
      for (int i = 0; i < 100; ++i) objects.emplace_back(extents<2>{4, 4}, 1u);
      for (int r = 0; r < 30; ++r)
        for (const object& o : objects) {
          all.emplace_back(graph_kernels::fill, items(4, 4), 4, 4, static_cast<unsigned>(r), pitch(o), write(o));
          all.back().submit();
        }
      for (auto& t : all) {
        const std::string text = text_of_error([&] { t.wait(); });
        if (text == "nothing was thrown")
          ++ended;
        else
          EXPECT_THAT(text, HasSubstr("lost"));
      }
      EXPECT_GT(ended, 2000u); // the other device goes on
    }),
              0u);
  }
}

} // namespace
} // namespace tern::hetero
