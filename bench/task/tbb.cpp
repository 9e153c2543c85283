// SPDX-License-Identifier: Apache-2.0
/// \file
/// The benchmarks with oneTBB. The arena holds as many threads as there are workers; the calling
/// thread is one of them.

#include "bench/task/contestant.hpp"

#include <deque>
#include <memory>

#include <tbb/blocked_range.h>
#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_sort.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

namespace {

using namespace tern::bench::task;

std::uint64_t fib(int n) {
  if (n < 2) return static_cast<std::uint64_t>(n);
  std::uint64_t a = 0;
  tbb::task_group g;
  g.run([&a, n] { a = fib(n - 1); });
  const std::uint64_t b = fib(n - 2);
  g.wait();
  return a + b;
}

/// All groups in one context, which is less work; but no group can be cancelled alone then.
std::uint64_t fib_in(tbb::task_group_context& context, int n) {
  if (n < 2) return static_cast<std::uint64_t>(n);
  std::uint64_t a = 0;
  tbb::task_group g(context);
  g.run([&a, &context, n] { a = fib_in(context, n - 1); });
  const std::uint64_t b = fib_in(context, n - 2);
  g.wait();
  return a + b;
}

struct fork {
  template <class F, class G> static void invoke(F&& f, G&& g) {
    tbb::task_group group;
    group.run(f);
    g();
    group.wait();
  }
};

template <class F> void spawn_all(std::size_t count, const F& body) {
  tbb::task_group g;
  for (std::size_t i = 0; i < count; ++i) g.run([&body, i] { body(i); });
  g.wait();
}

template <class Partitioner> double dense(const dense_kernel& k) {
  return seconds([&] {
    tbb::parallel_for(
        tbb::blocked_range<std::size_t>(0, k.a.size()), [&](const auto& r) { k.chunk(r.begin(), r.end()); },
        Partitioner());
  });
}

template <class Kernel> measurement graph(const job& j) {
  using node = tbb::flow::continue_node<tbb::flow::continue_msg>;
  struct built {
    tbb::flow::graph graph;
    std::deque<node> nodes; // do not move
    std::vector<node*> sources;
  };
  auto b = std::make_shared<built>();
  return measure<Kernel>(j, [b](Kernel& k) {
    if (b->nodes.empty()) {
      for (std::size_t i = 0; i < k.count(); ++i) {
        b->nodes.emplace_back(b->graph, [&k, i](const tbb::flow::continue_msg& m) {
          k.node(i);
          return m;
        });
        if (k.is_source(i)) b->sources.push_back(&b->nodes.back());
      }
      k.for_each_edge(
          [&](std::size_t before, std::size_t after) { tbb::flow::make_edge(b->nodes[before], b->nodes[after]); });
    }
    return seconds([&] {
             for (int run = 0; run < k.runs; ++run) {
               k.prepare();
               for (node* one : b->sources) one->try_put(tbb::flow::continue_msg());
               b->graph.wait_for_all();
             }
           }) /
           k.runs;
  });
}

measurement make(const job& j) {
  if (j.benchmark == "fib") return measure<fib_kernel>(j, [](auto& k) { return seconds([&] { k.value = fib(k.n); }); });
  if (j.benchmark == "fib_one_context")
    return measure<fib_kernel>(j, [](auto& k) {
      return seconds([&] {
        tbb::task_group_context context;
        k.value = fib_in(context, k.n);
      });
    });
  if (j.benchmark == "empty")
    return measure<empty_kernel>(j, [](auto& k) {
      return seconds([&] {
        tbb::task_group g;
        for (std::size_t i = 0; i < k.count; ++i) g.run([] { empty_kernel::body(); });
        g.wait();
      });
    });
  if (j.benchmark == "small")
    return measure<small_kernel>(
        j, [](auto& k) { return seconds([&] { spawn_all(k.count, [&k](std::size_t i) { k.body(i); }); }); });
  if (j.benchmark == "burst")
    return measure<burst_kernel>(
        j, [](auto& k) { return seconds([&] { spawn_all(k.count + 1, [&k](std::size_t i) { k.body(i); }); }); });
  if (j.benchmark == "dense") return measure<dense_kernel>(j, dense<tbb::auto_partitioner>);
  if (j.benchmark == "dense_static") return measure<dense_kernel>(j, dense<tbb::static_partitioner>);
  if (j.benchmark == "mandelbrot")
    return measure<mandelbrot_kernel>(j, [](auto& k) {
      return seconds([&] {
        tbb::parallel_for(
            0, k.rows, [&k](int y) { k.row(y); }, tbb::auto_partitioner());
      });
    });
  if (j.benchmark == "pareto")
    return measure<pareto_kernel>(j, [](auto& k) {
      return seconds([&] {
        tbb::parallel_for(
            std::size_t{0}, k.out.size(), [&k](std::size_t i) { k.body(i); }, tbb::auto_partitioner());
      });
    });
  if (j.benchmark == "sort")
    return measure<sort_kernel>(
        j, [](auto& k) { return seconds([&] { tbb::parallel_sort(k.data.data(), k.data.data() + k.data.size()); }); });
  if (j.benchmark == "fft")
    return measure<fft_kernel>(j, [](auto& k) { return seconds([&] { k.template transform<fork>(); }); });
  if (j.benchmark == "alignment")
    return measure<alignment_kernel>(j, [](auto& k) {
      return seconds([&] {
        tbb::parallel_for(0, k.count, [&k](int i) {
          tbb::task_group g;
          for (int n = i + 1; n < k.count; ++n) g.run([&k, i, n] { k.align(i, n); });
          g.wait();
        });
      });
    });
  if (j.benchmark == "chain") return graph<chain_kernel>(j);
  if (j.benchmark == "wide") return graph<wide_kernel>(j);
  if (j.benchmark == "random") return graph<random_kernel>(j);
  unknown(j);
}

} // namespace

int main(int argc, char** argv) {
  return contestant_main(argc, argv, [](const job& j) {
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(j.workers));
    tbb::task_arena arena(j.workers);
    arena.execute([&] { answer_requests(j, make); });
  });
}
