// SPDX-License-Identifier: Apache-2.0
#include "bench/jacobi3d/page.hpp"

#include <filesystem>
#include <map>
#include <stdexcept>
#include <utility>

#include "bench/harness/command.hpp"
#include "bench/harness/page/page.hpp"
#include "bench/harness/scratch.hpp"

#ifndef BENCH_JACOBI3D_APP
#error "define BENCH_JACOBI3D_APP as the path of the application"
#endif

namespace tern::bench {
namespace {

using markdown::head, markdown::number, markdown::row;

/// What others found, over the same kind of rival.
const std::map<std::string, std::string>& literature() {
  static const std::map<std::string, std::string> all{
      {"jacobi3d.host.1", "Charm++ 1.02"},
      {"jacobi3d.host.4", "Charm++ 1.04 to 1.12"},
      {"jacobi3d.host.32", "Charm++ 1.74"},
      {"jacobi3d.sim.overlap", "Charm++ 0.71, at the best overlap"},
      {"jacobi3d.gpu.2", "Charm++ 0.71, at the best overlap"},
      {"jacobi3d.gpu.4", "Charm++ 0.71, at the best overlap"},
  };
  return all;
}

std::string lines_text(const std::vector<metric>& lines, int pairs, const scale& of) {
  std::string text = head({"metric", "ours", "rival", "ratio", "target", "", "literature"});
  for (const metric& one : lines) {
    const auto found = literature().find(one.name);
    text += to_markdown(of.tiny() ? measure_tiny(one) : measure(one, pairs)) + " " +
            (found == literature().end() ? "" : found->second + " ") + "|\n";
  }
  return text;
}

/// A run as users start it, whose pictures are put beside the page.
struct drawn_run {
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::pair<std::string, std::string>> pictures; ///< of the application; beside the page
};

void draw(const drawn_run& run, const std::string& folder) {
  const scratch made("bench-jacobi3d");
  std::vector<std::string> line{BENCH_JACOBI3D_APP, "--no-vti", "--quiet", "--out", made / "."};
  line.insert(line.end(), run.arguments.begin(), run.arguments.end());
  run_command(line, run.environment);
  for (const auto& [from, to] : run.pictures)
    std::filesystem::copy_file(made / from, std::filesystem::path(folder) / to,
                               std::filesystem::copy_options::overwrite_existing);
}

} // namespace

void write_jacobi3d_page(const std::string& path, const std::vector<metric>& lines, int pairs, const scale& of) {
  result_page page(path, {"taken where", "lines"});
  page.take("taken where", std::to_string(pairs) + (pairs == 1 ? " pair\n" : " pairs\n") + taken_where());
  page.take("lines", lines_text(lines, pairs, of));
  const std::string n = of("192", "24"), iterations = of("300", "12");
  draw({{"--n", n, "--blocks", "2,2,3", "--iterations", iterations, "--tern-balance=diffusion"},
        {{"TERN_RANKS", "3"}, {"TERN_WORKERS", "1"}},
        {{"slice.png", "slice.png"}, {"course.png", "course.png"}}},
       page.folder());
  page.write();
}

} // namespace tern::bench
