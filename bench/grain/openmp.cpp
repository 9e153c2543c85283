// SPDX-License-Identifier: Apache-2.0
/// \file
/// The rival: tasks with dependences, in OpenMP. Compiled twice: by g++ for libgomp, and by clang++
/// for libomp. Two outputs for each column, written in turn. The clock runs inside the parallel
/// region: starting a team is not what is compared.
///
///     bench_grain_libgomp depend SECONDS PROBLEM…     two threads

#include <cstddef>
#include <memory>
#include <stdexcept>

#include <omp.h>

#include "bench/grain/slots.hpp"
#include "bench/harness/timing.hpp"

namespace {

using namespace tern::bench;
using namespace tern::bench::grain;

constexpr int threads = 2;

class team {
public:
  explicit team(const problem& p) : p_(p), outputs_(p) {}

  double run(int steps, long iterations) {
    outputs_.prepare(2);
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
    outputs_.check(steps);
    return taken;
  }

private:
  void submit(int step, int column, long iterations) {
    const auto needed = p_.plan.dependences(step, column);
    [[maybe_unused]] std::byte* const out = outputs_.at(step, column).data(); // g++ does not count depend clauses
    const int inputs = static_cast<int>(needed.size());
    if (inputs == 0) {
#pragma omp task depend(out : out[0]) firstprivate(step, column, iterations)
      outputs_.run_kept(step, column, iterations);
      return;
    }
    const int* const from = needed.data();
    [[maybe_unused]] std::byte* const before = outputs_.at(step - 1, 0).data();
    const std::size_t bytes = p_.bytes;
#pragma omp task depend(iterator(int i = 0                                                                             \
                                 : inputs),                                                                            \
                        in                                                                                             \
                        : before[static_cast <std::size_t>(from[i]) * bytes]) depend(out                               \
                                                                                     : out[0])                         \
    firstprivate(step, column, iterations)
    outputs_.run_kept(step, column, iterations);
  }

  const problem& p_;
  slots outputs_;
};

} // namespace

int main(int argc, char** argv) {
  return guarded("bench_grain_openmp", [&] {
    const request asked = request_of(argc, argv);
    if (asked.carrier != "depend") throw std::invalid_argument("no carrier is called " + asked.carrier);
    omp_set_dynamic(0);
    omp_set_num_threads(threads);
    measure_problems(asked, threads, [](const problem& p) -> run_grid {
      return [all = std::make_shared<team>(p)](int steps, long iterations) { return all->run(steps, iterations); };
    });
  });
}
