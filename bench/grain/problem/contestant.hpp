// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What all contestants have in common: each is called as
///
///     bench_grain_X CARRIER SECONDS PROBLEM…
///
/// runs each problem (problem.hpp) for about so many seconds a run, and prints one JSON object. For
/// each problem it has METG in microseconds under the problem's name, and its curve under
/// `NAME.curve`: pairs of a task's microseconds and the efficiency. Where tasks of 4 ms are not
/// efficient, their microseconds stand for METG, which is more. For a problem of tasks of a
/// given length it has the microseconds of a core for each task, and under `NAME.cores` how many
/// cores computed on average. With SECONDS 0 each problem is only run, and what stands under its
/// name are the microseconds of a core for each task: for tests, on machines that are busy. Of
/// objects there is also "policy", what balances them.

#include <functional>
#include <string>
#include <vector>

#include "bench/grain/problem/problem.hpp"

namespace tern::bench::grain {

/// What the command line asks for.
struct request {
  std::string carrier;
  double seconds = 0; ///< of a run; 0: only see whether it works
  std::vector<std::string> problems;
};
/// \throws std::invalid_argument telling the usage.
request request_of(int argc, char** argv);

/// Runs a grid of so many steps, with tasks of so many iterations on average, and checks it.
/// \return seconds, without what prepares and checks.
using run_grid = std::function<double(int steps, long iterations)>;

/// Measures problems one after the other; the JSON.
class report {
public:
  explicit report(double seconds) : seconds_(seconds) {}
  /// \param cores that run tasks. \param per_iteration what `calibrate` gave; not looked at where
  /// problems are only run.
  /// \throws what `run` throws.
  void measure(const problem& p, int cores, double per_iteration, const run_grid& run);
  /// Something else than figures. \param text without quotation marks and backslashes.
  void note(const std::string& name, const std::string& text) { add(name, '"' + text + '"'); }
  /// Writes the JSON to stdout.
  void print() const;

private:
  void add(const std::string& name, const std::string& value);
  void try_once(const problem& p, int cores, const run_grid& run);
  void measure_metg(const problem& p, int cores, double per_iteration, const run_grid& run);
  void measure_length(const problem& p, int cores, double per_iteration, const run_grid& run);

  double seconds_;
  std::string text_;
};

/// What a contestant's `main` does: runs `work`, prints what it throws to stderr.
/// \return the exit code.
int guarded(const char* program, const std::function<void()>& work);

} // namespace tern::bench::grain
