// SPDX-License-Identifier: Apache-2.0
#include "apps/jacobi3d/job/report.hpp"

#include <algorithm>
#include <cstdio>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace jacobi3d {
namespace {

std::string product(const cells& n) { return fmt::format("{} x {} x {}", n[0], n[1], n[2]); }
double updates(const run_figures& run) {
  return static_cast<double>(count(run.about.n)) * static_cast<double>(run.iterations);
}

} // namespace

bool run_figures::converged() const {
  return about.tolerance > 0 &&
         std::any_of(norms.begin(), norms.end(), [&](const norm_record& r) { return r.change <= about.tolerance; });
}

void print_table(const run_figures& run, const settings& wanted) {
  const auto line = [](const char* name, const std::string& value) { fmt::print("  {:<12} {}\n", name, value); };
  const plan& about = run.about;
  fmt::print("\n");
  line("grid", fmt::format("{} cells of {}", product(about.n), wanted.single ? "float" : "double"));
  line("blocks", fmt::format("{} of {} cells, on {}", product(about.blocks), product(about.block_size()), wanted.on));
  line("iterations", fmt::format("{} with alpha {:g}{}", run.iterations, about.alpha,
                                 run.converged()       ? fmt::format("; the norm is below {:g}", about.tolerance)
                                 : about.tolerance > 0 ? "; the norm stayed above the tolerance"
                                                       : ""));
  if (!run.norms.empty())
    line("norm", fmt::format("{:.6g} after {} iterations, {:.6g} after {}", run.norms.front().change,
                             run.norms.front().iteration, run.norms.back().change, run.norms.back().iteration));
  line("time", run.iterations > 0 ? fmt::format("{:.3f} s; {:.3f} ms an iteration; {:.4g} billion cells a second",
                                                run.seconds, 1e3 * run.seconds / static_cast<double>(run.iterations),
                                                updates(run) / run.seconds / 1e9)
                                  : fmt::format("{:.3f} s", run.seconds));
  if (run.moves > 0) line("moves", fmt::format("{} of blocks to other ranks", run.moves));
  if (run.verified)
    line("verified", *run.verified ? "all bits are those of plain loops" : "BITS DIFFER from plain loops");
  line("hash", fmt::format("{:016x}", run.hash));
  fmt::print("\n  {:>4} {:>8} {:>14}\n", "rank", "blocks", "device tasks");
  for (std::size_t r = 0; r < run.ranks.size(); ++r)
    fmt::print("  {:>4} {:>8} {:>14}\n", r, run.ranks[r].blocks, run.ranks[r].kernels);
  fmt::print("\n");
  std::fflush(stdout);
}

std::string summary_json(const run_figures& run, const settings& wanted) {
  const plan& about = run.about;
  nlohmann::ordered_json j;
  j["program"] = "jacobi3d";
  j["ranks"] = run.ranks.size();
  j["n"] = about.n;
  j["blocks"] = about.blocks;
  j["on"] = wanted.on;
  j["type"] = wanted.single ? "float" : "double";
  j["alpha"] = about.alpha;
  j["iterations"] = run.iterations;
  j["converged"] = run.converged();
  j["depth"] = about.depth;
  j["ahead"] = about.ahead;
  j["seconds"] = run.seconds;
  j["hash"] = fmt::format("{:016x}", run.hash);
  if (run.verified) j["verified"] = *run.verified;
  j["moves"] = run.moves;
  j["norms"] = nlohmann::ordered_json::array();
  for (const norm_record& r : run.norms) j["norms"].push_back({{"iteration", r.iteration}, {"change", r.change}});
  j["blocks_by_rank"] = nlohmann::ordered_json::array();
  j["device_tasks_by_rank"] = nlohmann::ordered_json::array();
  for (const rank_figures& r : run.ranks) {
    j["blocks_by_rank"].push_back(r.blocks);
    j["device_tasks_by_rank"].push_back(r.kernels);
  }
  return j.dump(2) + "\n";
}

} // namespace jacobi3d
