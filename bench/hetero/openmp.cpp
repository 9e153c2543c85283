// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tasks with dependences, in OpenMP. Compiled twice: by g++ for libgomp, and by clang++ for
/// libomp. The clock runs inside the parallel region: starting a team is not what is compared.

#include "bench/hetero/contestant.hpp"

#include <omp.h>

namespace {

using namespace tern::bench::hetero;

/// `work` in one thread of a team that runs what it spawns.
template <class F> double in_team(F&& work) {
  double taken = 0;
#pragma omp parallel
#pragma omp single
  taken = seconds(work);
  return taken;
}

measurement make(const job& j) {
  if (!counting::is_meant(j.benchmark)) unknown(j);
  auto all = std::make_shared<counting>(j);
  return [all] {
    all->prepare();
    const double taken = in_team([&] {
      for (std::size_t i = 0; i < all->tasks; ++i) {
        if (all->objects.empty()) {
#pragma omp task
          asm volatile(""); // g++ leaves out a task without it
          continue;
        }
        long* const value = &all->objects[all->object_of(i)].value;
#pragma omp task depend(inout : *value) firstprivate(value)
        ++*value;
      }
#pragma omp taskwait
    });
    all->check();
    return taken;
  };
}

} // namespace

int main(int argc, char** argv) {
  return contestant_main(argc, argv, [](const job& j) {
    omp_set_dynamic(0);
    omp_set_num_threads(j.workers);
    answer_requests(j, make);
  });
}
