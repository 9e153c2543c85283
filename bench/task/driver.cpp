// SPDX-License-Identifier: Apache-2.0
#include "bench/task/driver.hpp"

#include <stdexcept>
#include <vector>

#ifndef BENCH_TASK_TERN
#error "define BENCH_TASK_TERN, _TBB, _LIBOMP and _LIBGOMP as the paths of the contestants; empty: not built"
#endif

namespace tern::bench::task {

const contestant& contestant_named(const std::string& name) {
  static const std::vector<contestant> contestants{
      {"tern", BENCH_TASK_TERN, "", ""},
      {"TBB", BENCH_TASK_TBB, "libtbb-dev", ""},
      {"libomp", BENCH_TASK_LIBOMP, "clang-19 and libomp-19-dev", ""},
      {"libomp turnaround", BENCH_TASK_LIBOMP, "clang-19 and libomp-19-dev", "KMP_LIBRARY=turnaround"},
      {"libgomp", BENCH_TASK_LIBGOMP, "g++", ""},
  };
  for (const contestant& s : contestants)
    if (s.name == name) return s;
  throw std::invalid_argument("no contestant is called " + name);
}

} // namespace tern::bench::task
