// SPDX-License-Identifier: Apache-2.0
#include <tern/task/parallel/graph_store.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/task/support/sync.hpp"
#include <tern/base/unique_function.hpp>
#include <tern/task/fiber/sanitizer.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/task_graph.hpp>

namespace tern::detail {
namespace {

using test_support::text_of;

template <class F> void in_scheduler(int workers, F f) {
  scheduler s({.workers = workers, .name = "test"});
  EXPECT_EQ(s.run(std::move(f)), 0u);
}

/// Counts those that live.
template <std::size_t Bytes, std::size_t Alignment = 1> struct counted {
  std::atomic<int>* alive;
  std::atomic<int>* called;
  alignas(Alignment) std::array<std::byte, Bytes> filling{};

  counted(std::atomic<int>& a, std::atomic<int>& c) : alive(&a), called(&c) {
    ++*alive;
    filling.back() = std::byte{7};
  }
  counted(const counted& o) : alive(o.alive), called(o.called), filling(o.filling) { ++*alive; }
  ~counted() { --*alive; }
  counted& operator=(const counted&) = delete;
  void operator()() {
    // address: that it is where its alignment asks for
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(filling.data()) % Alignment, 0u);
    EXPECT_EQ(filling.back(), std::byte{7});
    ++*called;
  }
};

TEST(graph_store, functions_of_all_sizes_are_called_where_they_lie_and_destroyed_once) {
  in_scheduler(2, [] {
    std::atomic<int> alive{0}, called{0};
    {
      task_graph g;
      for (int i = 0; i < 700; ++i) { // several chunks
        g.add(counted<8>(alive, called));
        g.add(counted<100>(alive, called));
        g.add(counted<64, 64>(alive, called));
        g.add(counted<256, 256>(alive, called));
        g.add(counted<5000>(alive, called));
      }
      EXPECT_EQ(alive, 3500);
      g.run();
      EXPECT_EQ(called, 3500);
      g.run();
      EXPECT_EQ(called, 7000);
      EXPECT_EQ(alive, 3500);
    }
    EXPECT_EQ(alive, 0);
  });
}

TEST(graph_store, functions_that_only_move_function_pointers_and_those_that_return_something) {
  in_scheduler(1, [] {
    int sum = 0;
    static int times = 0;
    times = 0;
    task_graph g;
    g.add([&sum, p = std::make_unique<int>(3)] { sum += *p; });
    g.add(+[] { ++times; });
    std::function<void()> copied = [&] { sum += 10; };
    g.add(copied);
    copied = nullptr;
    g.add(unique_function<void()>([&] { sum += 100; }));
    g.add([&] { return sum += 1000; });
    g.run();
    g.run();
    EXPECT_EQ(sum, 2 * 1113);
    EXPECT_EQ(times, 2);
  });
}

TEST(graph_store, empty_functions_are_refused) {
  task_graph g;
  void (*none)() = nullptr;
  EXPECT_THAT(text_of([&] { g.add(none); }), testing::HasSubstr("empty function"));
  EXPECT_THAT(text_of([&] { g.add(std::function<void()>()); }), testing::HasSubstr("empty function"));
  EXPECT_EQ(g.nodes(), 0u);
}

/// Cannot always be copied.
struct reluctant {
  bool* refuses;
  int* ran;
  std::array<char, 64> filling{};
  reluctant(bool& r, int& n) : refuses(&r), ran(&n) {}
  reluctant(const reluctant& o) : refuses(o.refuses), ran(o.ran) {
    if (*refuses) throw std::runtime_error("no copies today");
  }
  reluctant& operator=(const reluctant&) = delete;
  ~reluctant() = default;
  void operator()() const { ++*ran; }
};

TEST(graph_store, a_function_that_cannot_be_copied_leaves_the_graph_as_it_was) {
  in_scheduler(1, [] {
    bool refuses = true;
    int ran = 0, others = 0;
    const reluctant one(refuses, ran);
    task_graph g;
    const auto a = g.add([&] { ++others; });
    EXPECT_THROW(g.add(one, "never there"), std::runtime_error);
    EXPECT_EQ(g.nodes(), 1u);
    refuses = false;
    const auto b = g.add(one, "there");
    g.precede(a, b);
    g.run();
    EXPECT_EQ(ran, 1);
    EXPECT_EQ(others, 1);
    EXPECT_THAT(g.dot(), testing::HasSubstr("label=\"there\""));
    EXPECT_THAT(g.dot(), testing::Not(testing::HasSubstr("never")));
  });
}

// Edges in any order, and more of them between runs: what had no predecessor may get one later.
TEST(graph_store, a_graph_that_grows_between_runs_keeps_its_order) {
  for (const int workers : {1, 3})
    in_scheduler(workers, [] {
      constexpr std::uint32_t n = 2000;
      std::vector<std::uint32_t> stamp(n);
      std::atomic<std::uint32_t> clock{0};
      task_graph g;
      std::vector<task_graph::node> nodes;
      std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
      for (std::uint32_t i = 0; i < n; ++i) nodes.push_back(g.add([&, i] { stamp[i] = ++clock; }));
      const auto connect = [&](std::uint32_t from, std::uint32_t to) {
        g.precede(nodes[from], nodes[to]);
        edges.emplace_back(from, to);
      };
      const auto check = [&] {
        for (int round = 0; round < 4; ++round) {
          clock = 0;
          g.run();
          ASSERT_EQ(clock, n);
          for (const auto& [from, to] : edges) ASSERT_LT(stamp[from], stamp[to]) << from << " before " << to;
        }
      };
      check(); // no edges at all
      for (std::uint32_t i = 0; i < n; i += 2) connect(i, n - 1 - i);
      check();
      for (std::uint32_t i = 0; i < n; i += 6) connect(i, i + 1); // still from even ones to odd ones
      check();
      EXPECT_EQ(g.edges(), edges.size());
    });
}

#ifndef TERN_ASAN // memory is not used again there, so that the sanitizer sees what uses it too late
TEST(graph_store, the_next_graph_gets_the_memory_of_one_that_is_gone) {
  constexpr int n = 3 * static_cast<int>(graph_chunks::bytes / sizeof(graph_node));
  const auto chunk_of_first = [] {
    group_state group(nullptr, std::source_location::current());
    graph_store store(group, nullptr);
    for (int i = 0; i < n; ++i) store.add_node([] {});
    return static_cast<const void*>(&store.nodes()[0]);
  };
  const void* const first = chunk_of_first();
  EXPECT_EQ(chunk_of_first(), first);
}
#endif

TEST(graph_store, sorting_keeps_the_order_of_a_nodes_edges) {
  group_state group(nullptr, std::source_location::current());
  graph_store store(group, nullptr);
  constexpr std::uint32_t n = 1000;
  for (std::uint32_t i = 0; i < n; ++i) store.add_node([] {});
  for (std::uint32_t k = 0; k < 9 * n; ++k) store.add_edge(k * 7 % n / 2, n / 2 + k % (n / 2));
  const auto all = [&] {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> found;
    store.each_edge([&](std::uint32_t from, std::uint32_t to) { found.emplace_back(from, to); });
    return found;
  };
  const auto before = all();
  EXPECT_EQ(before.size(), 9 * n);
  store.sort_edges();
  EXPECT_EQ(all(), before);
  std::uint32_t at = 0;
  for (std::uint32_t i = 0; i < n; ++i) {
    if (store.nodes()[i].first == no_edge) continue;
    EXPECT_EQ(store.nodes()[i].first, at);
    at = store.nodes()[i].last + 1;
  }
  store.add_edge(0, n - 1); // a list goes on behind
  EXPECT_EQ(all().size(), 9 * n + 1);
}

} // namespace
} // namespace tern::detail
