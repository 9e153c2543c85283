// SPDX-License-Identifier: Apache-2.0
#include "bench/grain/problem/contestant.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>

#include "bench/grain/problem/metg.hpp"

namespace tern::bench::grain {
namespace {

// So that what runtimes keep of a run stays in a cache of the second level.
constexpr double most_tasks = 32768;
constexpr double most_output_bytes = 64 << 20;
constexpr double long_run = 0.05; // seconds; is not repeated
constexpr int repetitions = 5;    // of a run, of which the shortest counts: others work on the machine too

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

/// Steps of a run whose tasks take about so many seconds of a core each. A power of two: some
/// carriers prepare something for each number.
int steps_for(const problem& p, int cores, double seconds, double task) {
  const double width = p.width(), wanted = seconds * cores / width / task;
  const double most = std::min(most_tasks, most_output_bytes / static_cast<double>(p.bytes)) / width;
  const double steps = std::clamp(wanted, 4.0, std::max(4.0, most));
  return 1 << std::lround(std::floor(std::log2(steps)));
}

} // namespace

request request_of(int argc, char** argv) {
  request asked;
  char* end = nullptr;
  if (argc >= 4) asked = {argv[1], std::strtod(argv[2], &end), {argv + 3, argv + argc}};
  if (asked.problems.empty() || *end || asked.seconds < 0)
    throw std::invalid_argument("usage: bench_grain_X CARRIER SECONDS PROBLEM…");
  return asked;
}

void report::add(const std::string& name, const std::string& value) {
  text_ += (text_.empty() ? "\"" : ",\"") + name + "\":" + value;
}

void report::print() const {
  std::printf("{%s}\n", text_.c_str());
  std::fflush(stdout);
}

void report::measure(const problem& p, int cores, double per_iteration, const run_grid& run) {
  if (seconds_ == 0)
    try_once(p, cores, run);
  else if (p.microseconds > 0)
    measure_length(p, cores, per_iteration, run);
  else
    measure_metg(p, cores, per_iteration, run);
}

void report::try_once(const problem& p, int cores, const run_grid& run) {
  double taken = 0;
  const int steps = 33; // more than a period of each pattern
  for (const long iterations : {1L, 300L}) taken = run(steps, iterations);
  add(p.name, number(taken * cores / (steps * p.width()) * 1e6));
  if (p.microseconds > 0) add(p.name + ".cores", number(cores));
}

void report::measure_metg(const problem& p, int cores, double per_iteration, const run_grid& run) {
  double overhead = 5e-6; // of the last measurement
  const metg_result found = find_metg(per_iteration, [&](long iterations) {
    const double work = static_cast<double>(iterations) * per_iteration;
    const int steps = steps_for(p, cores, seconds_, work + overhead);
    double best = run(steps, iterations);
    for (int i = 1; i < repetitions && best < long_run; ++i) best = std::min(best, run(steps, iterations));
    const double each = best * cores / (static_cast<double>(steps) * p.width());
    overhead = std::max(0.0, each - work);
    return each;
  });
  add(p.name, number(found.seconds * 1e6));
  std::string curve;
  for (const point& one : found.points)
    curve += (curve.empty() ? "[" : ",[") + number(one.granularity * 1e6) + "," + number(one.efficiency) + "]";
  add(p.name + ".curve", "[" + curve + "]");
}

void report::measure_length(const problem& p, int cores, double per_iteration, const run_grid& run) {
  const double task = p.microseconds * 1e-6;
  const long iterations = std::max(1L, std::lround(task / per_iteration));
  const int steps = steps_for(p, cores, seconds_, task);
  run(steps, iterations); // what learns has learnt
  const double best = std::min(run(steps, iterations), run(steps, iterations));
  const double tasks = static_cast<double>(steps) * p.width();
  double work = 0; // imbalance changes the mean a little
  for (int step = 0; step < steps; ++step)
    for (int column = 0; column < p.width(); ++column)
      work += static_cast<double>(p.iterations(step, column, iterations)) * per_iteration;
  add(p.name, number(best * cores / tasks * 1e6));
  add(p.name + ".cores", number(work / best));
}

int guarded(const char* program, const std::function<void()>& work) {
  try {
    work();
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", program, e.what());
    return 1;
  }
}

} // namespace tern::bench::grain
