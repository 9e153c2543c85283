// SPDX-License-Identifier: Apache-2.0
/// \file
/// Grids of tasks: how short tasks may be while half of two cores' peak is still reached, by what
/// carries them, beside MPI, OpenMP and oneTBB (docs/howto/benchmark.md).
///
///     bench_grain                                   as every benchmark (harness.hpp)
///     bench_grain --markdown                        the table in Markdown
///     bench_grain --curves FILE [--points FILE]     a picture of efficiencies; from known points, if given

#include "bench/grain/curves.hpp"
#include "bench/grain/lines.hpp"
#include "bench/harness/jobs.hpp"
#include "bench/harness/plot.hpp"

int main(int argc, char** argv) {
  using namespace tern::bench;
  forget_settings();
  return run_with_curves("bench_grain", argc, argv, grain::measure_curves, grain::picture_of, grain::all_lines);
}
