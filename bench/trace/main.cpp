// SPDX-License-Identifier: Apache-2.0
/// \file
/// What tracing costs: nothing measurable while it is off, little while it is on; and how fast a
/// trace is merged.

#include "bench/harness/harness.hpp"

#include <filesystem>
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
using tern::bench::scale;

double instructions(const std::string& program, const std::string& what, long n) {
  const auto end = tern::bench::run_command({"valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
                                             "--log-fd=1", program, what, std::to_string(n)});
  const std::string mark = "Collected : ";
  const auto at = end.output.find(mark);
  if (at == std::string::npos) throw std::runtime_error("callgrind did not tell how much it collected");
  return std::stod(end.output.substr(at + mark.size()));
}

// Of the loop alone: what a longer one takes more.
metric off(const scale& of, const std::string& name, const std::string& what, long shorter, long longer, double more) {
  const auto contestant = [=](const char* program) {
    return [=] {
      const double start = of.tiny() ? 0 : instructions(program, what, shorter);
      return (instructions(program, what, of.tiny() ? shorter : longer) - start) / more;
    };
  };
  return {.name = "trace.off." + name,
          .unit = "instructions",
          .target = 1.005,
          .rival_name = "no hooks",
          .ours = contestant(BENCH_TRACE_WITH),
          .rival = contestant(BENCH_TRACE_WITHOUT)};
}

metric loop(const scale& of, const std::string& name, long n) {
  return off(of, name, name.substr(name.find('.') + 1), n, 3 * n, 2 * static_cast<double>(n));
}

/// The main job, from the command line to the end of the process, with the trace merged.
double mesh(bool traced, const scale& of) {
  if (std::string(BENCH_MESH_PATH).empty()) throw tern::bench::absent("the program mesh");
  const auto file = std::filesystem::temp_directory_path() / ("bench-trace-" + std::to_string(getpid()) + ".json");
  std::vector<std::string> line{BENCH_TERN_PATH, "run", "-n", "2", "--workers", "1", "--", BENCH_MESH_PATH, "--quiet"};
  if (of.tiny()) line.insert(line.end(), {"--hmin", "4", "--hmax", "40"});
  if (traced) line.insert(line.end(), {"--tern-trace", file.string()});
  const double seconds = tern::bench::run_command(line).seconds;
  std::filesystem::remove(file);
  return seconds;
}

/// Writes and reads gigabytes.
double merge(long events) {
  const auto found = tern::bench::run_for_json({BENCH_TRACE_WITH, "record", std::to_string(events)});
  if (found.at("records").get<double>() < 0.99 * static_cast<double>(events))
    throw std::runtime_error("records were lost");
  return found.at("seconds").get<double>();
}

std::vector<metric> metrics(const scale& of) {
  const auto n = [&](long usual) { return of(usual, usual / 100); };
  const long events = of(10'000'000L, 100'000L);
  return {
      off(of, "task.fib", "fib", 15, 26, 196417 - 986), // tasklets: fib(n + 1) - 1
      loop(of, "task.join", n(5000)),
      loop(of, "task.yield", n(10000)),
      loop(of, "task.wake", n(10000)),
      loop(of, "net.send", n(3000)),
      loop(of, "net.call", n(3000)),
      {.name = "trace.on.mesh",
       .unit = "s",
       .target = 1.03,
       .rival_name = "untraced",
       .ours = [of] { return mesh(true, of); },
       .rival = [of] { return mesh(false, of); }},
      {.name = "trace.merge",
       .unit = "s",
       .target = 1,
       .rival_name = "budget",
       .ours = [events] { return merge(events); },
       .rival = budget(30),
       .once = true},
  };
}

} // namespace

int main(int argc, char** argv) { return tern::bench::run(argc, argv, metrics); }
