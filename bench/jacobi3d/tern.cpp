// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tern's contestant of `bench_jacobi3d`: the application, which reports on its standard output.
///
///     bench_jacobi3d_tern OPTION…     as jacobi3d; --float is not looked at

#include <cstdio>
#include <exception>

#include <nlohmann/json.hpp>

#include <tern/base/error.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>

#include "apps/jacobi3d/job/job.hpp"
#include "apps/jacobi3d/job/report.hpp"
#include "apps/jacobi3d/job/settings.hpp"
#include "bench/harness/timing.hpp"

int main(int argc, char** argv) {
  try {
    tern::bench::bind_to_core();
    jacobi3d::device_line line(argc, argv);
    return tern::run(line.count(), line.words(), [](int count, char** words) {
      const auto asked = jacobi3d::parse_command_line(count, words); // all ranks have the same line
      if (asked.stop) throw tern::error(tern::errc::invalid_argument, asked.text);
      const auto run = jacobi3d::run_job<double>(asked.wanted);
      if (tern::rank() == 0) {
        const auto report = jacobi3d::summary_json(jacobi3d::figures_of(run), asked.wanted);
        std::printf("%s\n", nlohmann::json::parse(report).dump().c_str());
      }
      std::fflush(stdout);
      return 0;
    });
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_jacobi3d_tern: %s\n", e.what());
    return 1;
  }
}
