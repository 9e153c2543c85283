// SPDX-License-Identifier: Apache-2.0
/// \file
/// The benchmarks with Tern. The main fiber reads the requests: it blocks worker 0 then, and the
/// others sleep.

#include "bench/task/contestant.hpp"

#include <chrono>
#include <ctime>
#include <memory>
#include <thread>

#include <tern/task/future.hpp>
#include <tern/task/parallel.hpp>
#include <tern/task/parallel_sort.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/task_graph.hpp>
#include <tern/task/task_group.hpp>

namespace {

using namespace tern::bench::task;

std::uint64_t fib(int n) {
  if (n < 2) return static_cast<std::uint64_t>(n);
  std::uint64_t a = 0;
  tern::task_group g;
  g.run([&a, n] { a = fib(n - 1); });
  const std::uint64_t b = fib(n - 2);
  g.wait();
  return a + b;
}

struct fork {
  template <class F, class G> static void invoke(F&& f, G&& g) {
    tern::task_group group;
    group.run(f);
    g();
    group.wait();
  }
};

template <class F> void spawn_all(std::size_t count, const F& body) {
  tern::task_group g;
  for (std::size_t i = 0; i < count; ++i) g.run([&body, i] { body(i); });
  g.wait();
}

template <class Kernel> measurement graph(const job& j) {
  auto built = std::make_shared<tern::task_graph>();
  return measure<Kernel>(j, [built, done = false](Kernel& k) mutable {
    if (!done) {
      using node = decltype(built->add([] {}));
      std::vector<node> nodes;
      for (std::size_t i = 0; i < k.count(); ++i) nodes.push_back(built->add([&k, i] { k.node(i); }));
      k.for_each_edge([&](std::size_t before, std::size_t after) { built->precede(nodes[before], nodes[after]); });
      done = true;
    }
    return seconds([&] {
             for (int run = 0; run < k.runs; ++run) {
               k.prepare();
               built->run();
             }
           }) /
           k.runs;
  });
}

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// How much of a core the runtime takes while its main fiber waits for another thread.
double idle(std::chrono::milliseconds time) {
  tern::promise<void> promise;
  auto done = promise.get_future();
  const double before = cpu_seconds();
  std::thread foreign([&] {
    std::this_thread::sleep_for(time);
    promise.set_value();
  });
  done.get();
  const double used = cpu_seconds() - before;
  foreign.join();
  return used / std::chrono::duration<double>(time).count();
}

measurement make(const job& j) {
  if (j.benchmark == "fib") return measure<fib_kernel>(j, [](auto& k) { return seconds([&] { k.value = fib(k.n); }); });
  if (j.benchmark == "empty")
    return measure<empty_kernel>(j, [](auto& k) {
      return seconds([&] {
        tern::task_group g;
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
  if (j.benchmark == "dense")
    return measure<dense_kernel>(j, [](auto& k) {
      return seconds([&] {
        tern::parallel_for(std::size_t{0}, k.a.size(),
                           [&k](tern::range<std::size_t> r) { k.chunk(r.first(), r.last()); });
      });
    });
  if (j.benchmark == "mandelbrot")
    return measure<mandelbrot_kernel>(
        j, [](auto& k) { return seconds([&] { tern::parallel_for(0, k.rows, [&k](int y) { k.row(y); }); }); });
  if (j.benchmark == "pareto")
    return measure<pareto_kernel>(j, [](auto& k) {
      return seconds([&] { tern::parallel_for(std::size_t{0}, k.out.size(), [&k](std::size_t i) { k.body(i); }); });
    });
  if (j.benchmark == "sort")
    return measure<sort_kernel>(
        j, [](auto& k) { return seconds([&] { tern::parallel_sort(k.data.data(), k.data.data() + k.data.size()); }); });
  if (j.benchmark == "fft")
    return measure<fft_kernel>(j, [](auto& k) { return seconds([&] { k.template transform<fork>(); }); });
  if (j.benchmark == "alignment")
    return measure<alignment_kernel>(j, [](auto& k) {
      return seconds([&] {
        tern::parallel_for(0, k.count, [&k](int i) {
          tern::task_group g;
          for (int n = i + 1; n < k.count; ++n) g.run([&k, i, n] { k.align(i, n); });
          g.wait();
        });
      });
    });
  if (j.benchmark == "chain") return graph<chain_kernel>(j);
  if (j.benchmark == "wide") return graph<wide_kernel>(j);
  if (j.benchmark == "random") return graph<random_kernel>(j);
  if (j.benchmark == "idle") return [time = std::chrono::milliseconds(j.size)] { return idle(time); };
  unknown(j);
}

} // namespace

int main(int argc, char** argv) {
  return contestant_main(argc, argv, [](const job& j) {
    tern::scheduler s({.workers = j.workers});
    s.run([&] { answer_requests(j, make); });
  });
}
