// SPDX-License-Identifier: Apache-2.0
#include <tern/task/task_graph.hpp>

#include <atomic>
#include <chrono>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/task/support/busy_worker.hpp"
#include "tests/task/support/sync.hpp"
#include <tern/base/error.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/worker/worker.hpp>

namespace tern {
namespace {

using test_support::text_of;

class graphs : public testing::TestWithParam<int> {
protected:
  void run(unique_function<void()> main) const {
    scheduler s({.workers = GetParam(), .name = "test"});
    EXPECT_EQ(s.run(std::move(main)), 0u);
  }
};

TEST_P(graphs, run_many_times_in_order) {
  run([] {
    std::vector<int> value(6, 0);
    task_graph g;
    auto a = g.add([&] { value[0] += 1; });
    auto b = g.add([&] { value[1] = value[0] * 10; });
    auto c = g.add([&] { value[2] = value[0] * 100; });
    auto d = g.add([&] { value[3] = value[1] + value[2]; });
    g.precede(a, b, c);
    g.precede(b, d);
    g.precede(c, d);
    for (int i = 1; i <= 200; ++i) {
      g.run();
      ASSERT_EQ(value[3], i * 110);
    }
    EXPECT_EQ(g.nodes(), 4u);
    EXPECT_EQ(g.edges(), 4u);
    auto e = g.add([&] { value[4] = value[3] + 1; }); // it may grow between runs
    g.precede(d, e);
    g.run();
    EXPECT_EQ(value[4], 201 * 110 + 1);
  });
}

TEST_P(graphs, chains_fans_and_random_ones) {
  run([] {
    constexpr int n = 3000;
    std::vector<int> stamp(n);
    std::atomic<int> clock{0};
    const auto body = [&](int i) { return [&, i] { stamp[static_cast<std::size_t>(i)] = ++clock; }; };
    std::mt19937 random(7);
    for (const std::string kind : {"chain", "fan", "random"}) {
      task_graph g;
      std::vector<task_graph::node> node;
      std::vector<std::pair<int, int>> edges;
      for (int i = 0; i < n; ++i) node.push_back(g.add(body(i)));
      for (int i = 1; i < n; ++i) {
        if (kind == "chain") edges.emplace_back(i - 1, i);
        if (kind == "fan" && i < n - 1) {
          edges.emplace_back(0, i);
          edges.emplace_back(i, n - 1);
        }
        if (kind == "random")
          for (int k = 0; k < 4; ++k) edges.emplace_back(static_cast<int>(random() % static_cast<unsigned>(i)), i);
      }
      for (const auto& [from, to] : edges)
        g.precede(node[static_cast<std::size_t>(from)], node[static_cast<std::size_t>(to)]);
      for (int repeat = 0; repeat < 5; ++repeat) {
        clock = 0;
        g.run();
        ASSERT_EQ(clock, n);
        for (const auto& [from, to] : edges)
          ASSERT_LT(stamp[static_cast<std::size_t>(from)], stamp[static_cast<std::size_t>(to)]) << kind;
      }
    }
  });
}

TEST_P(graphs, an_exception_leaves_out_the_rest_and_the_next_run_is_whole) {
  run([] {
    std::atomic<int> ran{0};
    bool fail = true;
    task_graph g;
    auto a = g.add([&] {
      if (fail) throw std::domain_error("first");
    });
    auto b = g.add([&] { ++ran; });
    g.precede(a, b);
    EXPECT_THROW(g.run(), std::domain_error);
    EXPECT_EQ(ran, 0);
    fail = false;
    g.run();
    EXPECT_EQ(ran, 1);
  });
}

TEST_P(graphs, graphs_of_graphs) {
  run([] {
    std::vector<std::string> log;
    task_graph inner, outer;
    auto x = inner.add([&] { log.push_back("x"); }, "x");
    auto y = inner.add([&] { log.push_back("y"); }, "y");
    inner.precede(x, y);
    auto a = outer.add([&] { log.push_back("a"); }, "a");
    auto m = outer.add(inner, "middle");
    auto b = outer.add([&] { log.push_back("b"); }, "b");
    outer.precede(a, m);
    outer.precede(m, b);
    outer.run();
    EXPECT_THAT(log, testing::ElementsAre("a", "x", "y", "b"));
    const std::string dot = outer.dot();
    EXPECT_THAT(dot, testing::HasSubstr("subgraph cluster_n1"));
    EXPECT_THAT(dot, testing::HasSubstr("label=\"middle\""));
    EXPECT_THAT(dot, testing::HasSubstr("n1_0 -> n1_1"));
    EXPECT_THAT(dot, testing::HasSubstr("n0 -> n1 [lhead=cluster_n1]"));
  });
}

TEST_P(graphs, functions_may_block) {
  run([] {
    promise<int> p;
    auto f = p.get_future();
    int got = 0;
    task_graph g;
    g.add([&] { got = f.get(); });
    g.add([&] { p.set_value(5); });
    g.run();
    EXPECT_EQ(got, 5);
  });
}

TEST(task_graph, bad_use_is_told) {
  task_graph g, other;
  auto a = g.add([] {}, "a"), b = g.add([] {}, "b"), c = g.add([] {}), lonely = g.add([] {}, "lonely");
  (void)lonely;
  EXPECT_THAT(text_of([&] { g.run(); }), testing::HasSubstr("outside any fiber"));
  EXPECT_THAT(text_of([&] { other.precede(a, b); }), testing::HasSubstr("node of another graph"));
  EXPECT_THAT(text_of([&] { g.precede(a, task_graph::node()); }), testing::HasSubstr("or none"));
  EXPECT_THAT(text_of([&] { g.add(g); }), testing::HasSubstr("added to itself"));
  other.add(g);
  EXPECT_THAT(text_of([&] { g.add(other); }), testing::HasSubstr("added to itself"));
  EXPECT_THAT(text_of([&] { g.add(unique_function<void()>()); }), testing::HasSubstr("empty function"));
  g.precede(a, b);
  g.precede(b, c);
  g.precede(c, a);
  scheduler s({});
  s.run([&] {
    const std::string text = text_of([&] { g.run(); });
    EXPECT_THAT(text, testing::HasSubstr("has a cycle"));
    EXPECT_THAT(text,
                testing::AnyOf(testing::HasSubstr("a -> b -> node 2 -> a"), testing::HasSubstr("b -> node 2 -> a -> b"),
                               testing::HasSubstr("node 2 -> a -> b -> node 2")));
    EXPECT_THAT(text, testing::HasSubstr("task_graph_test.cpp"));
    task_graph self;
    self.add([&] { EXPECT_THAT(text_of([&] { self.run(); }), testing::HasSubstr("while it runs")); });
    self.add([&] { EXPECT_THAT(text_of([&] { self.add([] {}); }), testing::HasSubstr("while it runs")); });
    self.run();
    task_graph().run(); // nothing is nothing
  });
}

TEST(task_graph, names_are_quoted_in_pictures) {
  task_graph g;
  g.add([] {}, "say \"hi\"\nthere\\");
  EXPECT_THAT(g.dot(), testing::HasSubstr("n0 [label=\"say \\\"hi\\\"\\nthere\\\\\"];"));
}

// `split` makes `along` and the others ready, then `along` and `next` run in a row on its worker.
// While `along` runs, the other worker comes and asks.
TEST(task_graph, a_chain_answers_thieves) {
  scheduler s({.workers = 2, .spin = std::chrono::milliseconds(100)}); // it asks, and does not insist soon
  s.run([] {
    std::atomic<bool> looked{false}, came{false};
    test_support::busy_worker other;
    bool shared = false;
    std::atomic<int> ran{0};
    task_graph g;
    const auto split = g.add([] {}), along = g.add([&] {
      other.let_go();
      while (!came && !detail::this_worker()->deque.wanted()) std::this_thread::yield();
    });
    const auto next = g.add([&] {
      shared = detail::this_worker()->deque.has_public();
      looked = true;
    });
    for (int i = 0; i < 8; ++i)
      g.precede(split, g.add([&] {
        came = true; // with something left for the next, if it does not ask
        while (!looked) std::this_thread::yield();
        ++ran;
      }));
    g.precede(split, along); // the last that is ready goes on at once
    g.precede(along, next);
    g.run();
    EXPECT_TRUE(shared);
    EXPECT_EQ(ran, 8);
    other.join();
  });
}

INSTANTIATE_TEST_SUITE_P(workers, graphs, testing::Values(1, 2, 5));

} // namespace
} // namespace tern
