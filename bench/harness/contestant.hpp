// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the programs of all contestants have in common: a contestant is a child process that
/// measures one benchmark with one runtime, once for each line that it reads. (Two OpenMP runtimes
/// cannot share a process, and no pool of threads should live beside another's.) `CONTESTANT
/// BENCHMARK WORKERS SIZE` prints "ready", and then for each line on stdin either seconds, or
/// "error" and what was wrong. "absent" and what is missing may stand instead of either.
/// runner.hpp runs these programs.

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace tern::bench::contest {

struct job {
  std::string benchmark;
  int workers = 1;
  std::size_t size = 0;
};

/// Thrown by what needs something that this machine lacks, saying what.
struct not_here : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Prepares, measures, checks; gives seconds. \throws std::runtime_error for a wrong result,
/// not_here.
using measurement = std::function<double()>;

template <class F> double seconds(F&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// `run(kernel)` gives the seconds, so that a contestant can leave out what is not to be counted,
/// as a team's start.
template <class Kernel, class Run> measurement measure(const job& j, Run run) {
  auto kernel = std::make_shared<Kernel>(j.size);
  return [kernel, run = std::move(run)]() mutable {
    kernel->prepare();
    const double taken = run(*kernel);
    kernel->check();
    return taken;
  };
}

[[noreturn]] inline void unknown(const job& j) {
  throw std::invalid_argument("this contestant has no benchmark \"" + j.benchmark + "\"");
}

/// Runs `work`; what it throws is the answer.
template <class F> bool answered(F&& work) {
  try {
    work();
    return true;
  } catch (const not_here& e) {
    std::printf("absent %s\n", e.what());
  } catch (const std::exception& e) {
    std::printf("error %s\n", e.what());
  }
  std::fflush(stdout);
  return false;
}

/// Answers until stdin ends. `make` sets the benchmark up, on the context that is to run it.
inline void answer_requests(const job& j, measurement (*make)(const job&)) {
  answered([&] {
    const measurement once = make(j);
    std::printf("ready\n");
    std::fflush(stdout);
    for (std::string line; std::getline(std::cin, line);) {
      std::printf("%.9e\n", once());
      std::fflush(stdout);
    }
  });
}

/// The main function of each contestant; `run(job)` calls `answer_requests` where the runtime's
/// tasks can be made.
template <class Run> int contestant_main(int argc, char** argv, Run run) {
  job j;
  if (argc == 4) j = {argv[1], std::atoi(argv[2]), std::strtoull(argv[3], nullptr, 10)};
  if (j.workers < 1 || j.size < 1) {
    std::fprintf(stderr, "usage: %s BENCHMARK WORKERS SIZE; then a line on stdin for each measurement\n", argv[0]);
    return 2;
  }
  return answered([&] { run(j); }) ? 0 : 1;
}

} // namespace tern::bench::contest
