// SPDX-License-Identifier: Apache-2.0
/// \file
/// The rival: tasks with dependences, in OpenMP. Compiled twice: by g++ for libgomp, and by clang++
/// for libomp. Two outputs for each column, written in turn. The clock runs inside the parallel
/// region: starting a team is not what is compared.
///
///     bench_grain_libgomp depend SECONDS PROBLEM…     two threads

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <span>
#include <stdexcept>
#include <vector>

#include <omp.h>

#include "bench/grain/problem/contestant.hpp"
#include "bench/harness/timing.hpp"

namespace {

using namespace tern::bench;
using namespace tern::bench::grain;

constexpr int threads = 2;

class team {
public:
  explicit team(const problem& p) : p_(p), tallies_(static_cast<std::size_t>(p.width())) {
    for (auto& one : outputs_) one.resize(tallies_.size() * p.bytes);
  }

  double run(int steps, long iterations) {
    for (auto& one : outputs_) std::fill(one.begin(), one.end(), std::byte{0xff});
    for (tally& one : tallies_) one.clear();
    failed_ = nullptr;
    double taken = 0;
#pragma omp parallel
#pragma omp single
    {
      const double began = seconds();
      for (int step = 0; step < steps; ++step)
        for (int column = 0; column < p_.width(); ++column) submit(step, column, iterations);
#pragma omp taskwait
      taken = seconds() - began;
    }
    if (failed_) std::rethrow_exception(failed_);
    long tasks = 0, inputs = 0;
    for (const tally& one : tallies_) {
      tasks += one.tasks();
      inputs += one.inputs();
    }
    check_run(p_, steps, tasks, inputs);
    return taken;
  }

private:
  std::byte* output(int step, int column) {
    return outputs_[static_cast<std::size_t>(step) % 2].data() + static_cast<std::size_t>(column) * p_.bytes;
  }

  void submit(int step, int column, long iterations) {
    const auto needed = p_.plan.dependences(step, column);
    [[maybe_unused]] std::byte* const out = output(step, column); // g++ does not count depend clauses
    const int inputs = static_cast<int>(needed.size());
    if (inputs == 0) {
#pragma omp task depend(out : out[0]) firstprivate(step, column, iterations)
      run_one(step, column, iterations);
      return;
    }
    const int* const from = needed.data();
    [[maybe_unused]] std::byte* const before = output(step - 1, 0);
    const std::size_t bytes = p_.bytes;
#pragma omp task depend(iterator(int i = 0                                                                             \
                                 : inputs),                                                                            \
                        in                                                                                             \
                        : before[static_cast <std::size_t>(from[i]) * bytes]) depend(out                               \
                                                                                     : out[0])                         \
    firstprivate(step, column, iterations)
    run_one(step, column, iterations);
  }

  void run_one(int step, int column, long iterations) noexcept {
    try {
      tallies_[static_cast<std::size_t>(column)].add(
          run_task(p_, step, column, iterations, {output(step, column), p_.bytes},
                   [&](int from) { return std::span<const std::byte>(output(step - 1, from), p_.bytes); }));
    } catch (...) {
#pragma omp critical
      failed_ = std::current_exception();
    }
  }

  const problem& p_;
  std::array<std::vector<std::byte>, 2> outputs_;
  std::vector<tally> tallies_;
  std::exception_ptr failed_;
};

} // namespace

int main(int argc, char** argv) {
  return guarded("bench_grain_openmp", [&] {
    const request asked = request_of(argc, argv);
    if (asked.carrier != "depend") throw std::invalid_argument("no carrier is called " + asked.carrier);
    omp_set_dynamic(0);
    omp_set_num_threads(threads);
    report found(asked.seconds);
    for (const auto& name : asked.problems) {
      const problem p(name);
      const double per_iteration = calibrate(p.work, threads);
      team all(p);
      found.measure(p, threads, per_iteration, [&](int steps, long iterations) { return all.run(steps, iterations); });
    }
    std::printf("%s\n", found.text().c_str());
  });
}
