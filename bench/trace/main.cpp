// SPDX-License-Identifier: Apache-2.0
/// \file
/// What tracing costs: nothing measurable while it is off, little while it is on; and how fast a trace is merged.

#include "bench/harness/harness.hpp"

#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>

#ifndef BENCH_TRACE_WITH
#error "define BENCH_TRACE_WITH, BENCH_TRACE_WITHOUT, BENCH_MESH_PATH and BENCH_TERN_PATH as the paths of the programs"
#endif

namespace {

using tern::bench::budget;
using tern::bench::metric;

double instructions(const std::string& program, const std::string& what, long n) {
  const auto end = tern::bench::run_command({"valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
                                             "--log-fd=1", program, what, std::to_string(n)});
  const std::string mark = "Collected : ";
  const auto at = end.output.find(mark);
  if (at == std::string::npos) throw std::runtime_error("callgrind did not tell how much it collected");
  return std::stod(end.output.substr(at + mark.size()));
}

// Of the loop alone: what a longer one takes more.
metric off(const std::string& name, const std::string& what, long shorter, long longer, double more) {
  const auto contestant = [=](const char* program) {
    return [=] { return (instructions(program, what, longer) - instructions(program, what, shorter)) / more; };
  };
  return {.name = "trace.off." + name,
          .unit = "instructions",
          .target = 1.005,
          .rival_name = "no hooks",
          .ours = contestant(BENCH_TRACE_WITH),
          .rival = contestant(BENCH_TRACE_WITHOUT)};
}

metric loop(const std::string& name, long n) {
  return off(name, name.substr(name.find('.') + 1), n, 3 * n, 2 * static_cast<double>(n));
}

/// The main job, from the command line to the end of the process, with the trace merged.
double mesh(bool traced) {
  if (std::string(BENCH_MESH_PATH).empty()) throw tern::bench::absent("the program mesh");
  const auto file = std::filesystem::temp_directory_path() / ("bench-trace-" + std::to_string(getpid()) + ".json");
  std::vector<std::string> line{BENCH_TERN_PATH, "run", "-n", "2", "--workers", "1", "--", BENCH_MESH_PATH, "--quiet"};
  if (traced) line.insert(line.end(), {"--tern-trace", file.string()});
  const double seconds = tern::bench::run_command(line).seconds;
  std::filesystem::remove(file);
  return seconds;
}

/// Writes and reads gigabytes, so once.
double merge() {
  static std::optional<double> seconds;
  if (!seconds) {
    const auto found = tern::bench::run_for_json({BENCH_TRACE_WITH, "record", "10000000"});
    if (found.at("records").get<double>() < 9.9e6) throw std::runtime_error("records were lost");
    seconds = found.at("seconds").get<double>();
  }
  return *seconds;
}

} // namespace

int main(int argc, char** argv) {
  return tern::bench::run(
      argc, argv,
      {
          off("task.fib", "fib", 15, 26, 196417 - 986), // tasklets: fib(n + 1) - 1
          loop("task.join", 5000),
          loop("task.yield", 10000),
          loop("task.wake", 10000),
          loop("net.send", 3000),
          loop("net.call", 3000),
          {.name = "trace.on.mesh",
           .unit = "s",
           .target = 1.03,
           .rival_name = "untraced",
           .ours = [] { return mesh(true); },
           .rival = [] { return mesh(false); }},
          {.name = "trace.merge", .unit = "s", .target = 1, .rival_name = "budget", .ours = merge, .rival = budget(30)},
      });
}
