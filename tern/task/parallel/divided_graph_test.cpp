// SPDX-License-Identifier: Apache-2.0
#include <tern/task/parallel/divided_graph.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <random>
#include <source_location>
#include <stdexcept>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>
#include <tern/task/sync.hpp>
#include <tern/task/task_graph.hpp>
#include <tern/task/worker/worker.hpp>

namespace tern::detail {

struct task_graph_ways {
  static void divide_always(task_graph& g) { g.always_divided_ = true; }
  static bool has_tried(const task_graph& g) { return g.divided_ != nullptr; }
};

namespace {

class divided_graphs : public testing::TestWithParam<int> {
protected:
  void run(unique_function<void()> main) const {
    scheduler s({.workers = GetParam(), .name = "test"});
    EXPECT_EQ(s.run(std::move(main)), 0u);
  }
};

using numbers = std::vector<std::uint32_t>;

/// A graph whose nodes check that all before them have run in this round.
struct checked_graph {
  task_graph g;
  std::vector<task_graph::node> nodes;
  std::vector<numbers> before;
  std::vector<int> rounds; // of each node: how often it has run; edges order the accesses
  std::atomic<int> wrong{0}, ran{0};

  explicit checked_graph(std::size_t n) : before(n), rounds(n, 0) {}
  template <class Extra> void add(std::uint32_t i, const numbers& needs, Extra extra) {
    before[i] = needs;
    nodes.push_back(g.add([this, i, extra] {
      for (const std::uint32_t b : before[i])
        if (rounds[b] != rounds[i] + 1) wrong.fetch_add(1);
      extra();
      ++rounds[i];
      ran.fetch_add(1, std::memory_order_relaxed);
    }));
    for (const std::uint32_t b : needs) g.precede(nodes[b], nodes[i]);
  }
};

template <class Extra> std::unique_ptr<checked_graph> random_graph(unsigned seed, std::size_t n, Extra extra) {
  std::mt19937 random(seed);
  auto made = std::make_unique<checked_graph>(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    numbers needs;
    const unsigned most = seed % 5;
    for (unsigned k = 0; i > 0 && k < most; ++k) {
      const std::uint32_t far = seed % 2 == 0 ? i : std::min<std::uint32_t>(i, 20);
      needs.push_back(i - 1 - static_cast<std::uint32_t>(random() % far));
    }
    made->add(i, needs, [extra, i] { extra(i); });
  }
  return made;
}

TEST_P(divided_graphs, random_ones_run_in_order) {
  run([] {
    for (unsigned seed = 0; seed < 20; ++seed) {
      const std::size_t n = 200 + 37 * seed;
      const auto all = random_graph(seed, n, [](std::uint32_t) {});
      task_graph_ways::divide_always(all->g);
      for (int round = 0; round < 20; ++round) all->g.run();
      EXPECT_EQ(all->wrong, 0) << "seed " << seed;
      EXPECT_EQ(all->ran, static_cast<int>(n) * 20) << "seed " << seed;
    }
  });
}

TEST_P(divided_graphs, functions_yield_and_lock) {
  run([] {
    for (unsigned seed = 1; seed < 8; ++seed) {
      mutex m;
      const auto all = random_graph(seed, 400, [&m](std::uint32_t i) {
        if (i % 7 == 0) this_fiber::yield();
        if (i % 11 == 0) {
          const std::lock_guard hold(m);
          this_fiber::yield();
        }
      });
      task_graph_ways::divide_always(all->g);
      for (int round = 0; round < 20; ++round) all->g.run();
      EXPECT_EQ(all->wrong, 0) << "seed " << seed;
      EXPECT_EQ(all->ran, 400 * 20) << "seed " << seed;
    }
  });
}

// Each waits for one that no path connects with it and that comes later in every order of places.
TEST_P(divided_graphs, functions_wait_for_later_ones) {
  run([] {
    constexpr int n = 512;
    std::vector<promise<int>> told(n / 2);
    std::vector<future<int>> awaited;
    std::atomic<int> sum{0};
    task_graph g;
    for (int i = 0; i < n / 2; ++i) g.add([&, i] { sum += awaited[static_cast<std::size_t>(i)].get(); });
    for (int i = 0; i < n / 2; ++i) g.add([&, i] { told[static_cast<std::size_t>(i)].set_value(1); });
    task_graph_ways::divide_always(g);
    for (int round = 1; round <= 20; ++round) {
      awaited.clear();
      for (auto& one : told) {
        one = promise<int>();
        awaited.push_back(one.get_future());
      }
      g.run();
      ASSERT_EQ(sum, round * n / 2);
    }
  });
}

TEST_P(divided_graphs, an_exception_leaves_out_the_rest_and_the_next_run_is_whole) {
  run([] {
    bool fails = true;
    std::atomic<int> ran{0};
    task_graph g;
    task_graph::node last;
    for (int i = 0; i < 600; ++i) {
      const auto one = g.add([&, i] {
        if (fails && i == 300) throw std::runtime_error("no");
        ++ran;
      });
      if (i > 0) g.precede(last, one);
      last = one;
    }
    task_graph_ways::divide_always(g);
    EXPECT_THROW(g.run(), std::runtime_error);
    EXPECT_EQ(ran, 300);
    fails = false;
    g.run();
    EXPECT_EQ(ran, 900);
  });
}

TEST_P(divided_graphs, graphs_of_graphs) {
  run([] {
    std::vector<std::unique_ptr<checked_graph>> inner;
    task_graph outer;
    for (unsigned i = 0; i < 200; ++i) {
      inner.push_back(random_graph(i, i % 20 == 0 ? 400 : 3, [](std::uint32_t) {}));
      task_graph_ways::divide_always(inner.back()->g);
      const auto n = outer.add(inner.back()->g);
      static_cast<void>(n);
    }
    task_graph_ways::divide_always(outer);
    for (int round = 0; round < 5; ++round) outer.run();
    for (const auto& one : inner) {
      EXPECT_EQ(one->wrong, 0);
      EXPECT_EQ(one->ran, static_cast<int>(one->g.nodes()) * 5);
    }
  });
}

TEST_P(divided_graphs, dividing_is_tried_if_functions_are_short) {
  run([] {
    std::atomic<int> turns{0};
    task_graph g;
    for (int i = 0; i < 400; ++i) g.add([&] { turns.fetch_add(1, std::memory_order_relaxed); });
    int round = 0;
    while (round < 100 || (GetParam() > 1 && !task_graph_ways::has_tried(g) && round < 10'000)) {
      g.run();
      ASSERT_EQ(turns, ++round * 400);
    }
    EXPECT_EQ(task_graph_ways::has_tried(g), GetParam() > 1);
    g.add([] {}); // changed: divided anew
    g.run();
    EXPECT_FALSE(task_graph_ways::has_tried(g));
    EXPECT_EQ(turns, (round + 1) * 400);
  });
}

TEST_P(divided_graphs, long_functions_are_left_to_thieves) {
  run([] {
    task_graph g;
    for (int i = 0; i < 200; ++i)
      g.add([] {
        const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(20);
        while (std::chrono::steady_clock::now() < end) {
        }
      });
    for (int round = 0; round < 5; ++round) g.run();
    EXPECT_FALSE(task_graph_ways::has_tried(g));
  });
}

INSTANTIATE_TEST_SUITE_P(workers, divided_graphs, testing::Values(1, 2, 5));

TEST(divided_graph, a_grid_is_cut_once) {
  scheduler s({.workers = 2, .name = "test"});
  s.run([] {
    constexpr std::uint32_t width = 16, steps = 40;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
    for (std::uint32_t step = 1; step < steps; ++step)
      for (std::uint32_t column = 0; column < width; ++column)
        for (const int by : {-1, 0, 1})
          if (const int from = static_cast<int>(column) + by; from >= 0 && from < static_cast<int>(width))
            edges.emplace_back((step - 1) * width + static_cast<std::uint32_t>(from), step * width + column);
    scheduler_core& home = *this_worker()->home;
    group_state group(nullptr, std::source_location::current());
    graph_store all(group, nullptr);
    for (std::uint32_t i = 0; i < width * steps; ++i) all.add_node([] {});
    for (const auto& [from, to] : edges) all.add_edge(from, to);
    ASSERT_TRUE(divided_graph::possible(home, all.nodes().size()));
    EXPECT_FALSE(divided_graph::possible(home, 63));
    const divided_graph g(home, group, all);
    std::size_t crossing = 0;
    for (const auto& [from, to] : edges) crossing += g.part_of(from) != g.part_of(to) ? 1 : 0;
    EXPECT_EQ(crossing, 2 * (steps - 1));
    for (std::uint32_t i = 0; i < width * steps; ++i) EXPECT_EQ(g.part_of(i), i % width < width / 2 ? 0u : 1u);
  });
}

} // namespace
} // namespace tern::detail
