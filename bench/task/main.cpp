// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tasks against TBB, OpenMP (LLVM's and GNU's runtime) and libstdc++'s parallel mode
/// (docs/results/task.md). Each runtime is a child process of its own; what is compared is what
/// those report. `--growth FILE [MOST]` instead studies how costs grow (growth.hpp).

#include "bench/harness/harness.hpp"
#include "bench/task/driver.hpp"
#include "bench/task/growth.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace {

using tern::bench::metric;
using tern::bench::contest::compare;
using tern::bench::contest::comparison;
using tern::bench::contest::request;
using tern::bench::contest::rival;
using tern::bench::contest::runners;

/// Ours against a fixed value.
metric limit(runners& running, const std::string& name, const std::string& unit, double factor, double target,
             const std::string& rival, double value, const request& q) {
  return {.name = name,
          .unit = unit,
          .target = target,
          .rival_name = rival,
          .ours = [=, &running] { return running.run(name, q) * factor; },
          .rival = tern::bench::budget(value)};
}

std::vector<metric> metrics(runners& running, const tern::bench::scale& of) {
  const std::vector<rival> tbb{{"TBB", ""}}, openmp{{"libomp", ""}, {"libgomp", ""}},
      all{{"TBB", ""}, {"libomp", ""}, {"libgomp", ""}};
  std::vector<metric> list;
  const auto add = [&](comparison c) { list.push_back(compare(running, std::move(c))); };
  const auto n = [&](std::size_t usual, std::size_t tiny) { return of(usual, tiny); };
  constexpr std::size_t million = 1'000'000;

  // Recursion to the end. OpenMP's runtimes get a smaller number, or they would take half a minute
  // a time.
  add({"task.fib.tbb.1w", 0.12, "fib", 1, n(35, 12), tbb});
  add({"task.fib.tbb.2w", 0.12, "fib", 2, n(35, 12), tbb});
  add({"task.fib.tbb.context.1w", {}, "fib", 1, n(35, 12), {{"TBB", "fib_one_context"}}});
  add({"task.fib.tbb.context.2w", {}, "fib", 2, n(35, 12), {{"TBB", "fib_one_context"}}});
  add({"task.fib.omp.1w", 0.25, "fib", 1, n(30, 12), openmp});
  add({"task.fib.omp.2w", 0.10, "fib", 2, n(30, 12), {{"libomp", ""}, {"libomp turnaround", ""}, {"libgomp", ""}}});

  add({"task.empty.1w", 0.15, "empty", 1, n(million, 1000), tbb});
  add({"task.empty.2w", 0.35, "empty", 2, n(million, 1000), tbb});
  list.push_back(limit(running, "task.burst.2w", "ms", 1e3, 1.05, "ideal", 8, {"tern", "burst", 2, 8}));
  add({"task.burst.tbb.2w", {}, "burst", 2, 8, tbb});

  add({"task.for.dense.tbb.2w", 1.03, "dense", 2, n(100 * million, 10'000), {{"TBB", ""}, {"TBB", "dense_static"}}});
  add({"task.for.dense.omp.2w", 1.03, "dense", 2, n(100 * million, 10'000), openmp});
  add({"task.for.mandelbrot.tbb.2w", 1.00, "mandelbrot", 2, n(1000, 32), tbb});
  add({"task.for.mandelbrot.omp.2w", 1.00, "mandelbrot", 2, n(1000, 32), openmp});
  add({"task.for.pareto.tbb.2w", 1.00, "pareto", 2, n(100'000, 1000), tbb});
  add({"task.for.pareto.omp.2w", 1.00, "pareto", 2, n(100'000, 1000), openmp});
  add({"task.sort.2w", 1.00, "sort", 2, n(50 * million, 10'000), {{"TBB", ""}, {"libgomp", ""}}});
  add({"task.fft.2w", 1.03, "fft", 2, n(std::size_t{1} << 24, 1 << 10), all});
  add({"task.alignment.2w", 1.03, "alignment", 2, n(100, 4), all});

  for (const std::string shape : {"chain", "wide", "random"}) {
    add({"task.graph." + shape + ".1w", {}, shape, 1, n(100'000, 1000), tbb});
    add({"task.graph." + shape + ".2w", 0.5, shape, 2, n(100'000, 1000), tbb});
  }
  // Five seconds in which nothing happens.
  list.push_back(limit(running, "task.idle.2w", "cores", 1, 1, "budget", 0.01, {"tern", "idle", 2, n(5000, 50)}));
  return list;
}

} // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN); // a contestant that has died is reported, not died of
  if (argc >= 3 && std::string_view(argv[1]) == "--growth") {
    try {
      return tern::bench::task::growth(argv[2], argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 10'000'000);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
      return 1;
    }
  }
  runners running(tern::bench::task::contestant_named);
  return tern::bench::run(argc, argv, [&](const tern::bench::scale& of) { return metrics(running, of); });
}
