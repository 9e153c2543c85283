// SPDX-License-Identifier: Apache-2.0
/// \file
/// The coastal mesher against one sequential call of CGAL on the same sea with the same sizing
/// (docs/results/mesh.md). Both are whole programs; what is compared is what they report: the
/// seconds between the domain and the finished mesh, and their processes' peak memory.

#include "bench/harness/harness.hpp"
#include "bench/harness/scratch.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#ifndef BENCH_MESH_PATH
#error "define BENCH_MESH_PATH and BENCH_TERN_PATH as the paths of mesh and tern"
#endif

namespace {

using tern::bench::direction;
using tern::bench::scale;
using strings = std::vector<std::string>;

const tern::bench::scratch& folder() {
  static const tern::bench::scratch one("bench-mesh");
  return one;
}

double meshing(const nlohmann::json& report) { return report.at("seconds").at("meshing").get<double>(); }
double peak(const nlohmann::json& report) { return report.at("peak_mib").get<double>(); }

/// Runs of the mesher: of the usual sea, or tiny a coarse mesh of it.
class runs {
public:
  explicit runs(const scale& of) : resolution_(of(strings{}, coarse)) {}

  strings job(int ranks, const strings& arguments, bool mpi = false) const {
    strings line{BENCH_TERN_PATH, "run", "-n", std::to_string(ranks), "--workers", "1"};
    if (mpi) line.insert(line.end(), {"--transport", "mpi"});
    line.insert(line.end(), {"--", BENCH_MESH_PATH, "--quiet"});
    line.insert(line.end(), resolution_.begin(), resolution_.end());
    line.insert(line.end(), arguments.begin(), arguments.end());
    return line;
  }

  /// What a job reports, which must be a mesh that keeps its promises.
  nlohmann::json ours(int ranks, strings arguments = {}, bool mpi = false) const {
    const std::string report = folder() / "ours.json";
    arguments.insert(arguments.end(), {"--json", report});
    auto found = tern::bench::run_for_json(job(ranks, arguments, mpi), report);
    if (!found.at("conforming").get<bool>()) throw std::runtime_error("the mesh does not conform");
    return found;
  }

  /// Seconds of a whole program.
  double whole(const strings& arguments = {}) const { return tern::bench::run_command(job(2, arguments)).seconds; }
  /// The same of one that is saved three times while it meshes.
  double saved_thrice() {
    if (subdomains_ == 0) subdomains_ = ours(2).at("subdomains").get<std::uint64_t>();
    const std::uint64_t every = (subdomains_ + 2) / 3; // the last time is when all is meshed
    const std::string saved = folder() / "saved";
    const double taken = whole({"--checkpoint", saved, "--every", std::to_string(every)});
    const auto newest = std::filesystem::path(saved) / "checkpoint-000003";
    if (!std::filesystem::exists(newest)) throw std::runtime_error("the mesher was not saved three times");
    std::filesystem::remove_all(saved);
    return taken;
  }

  /// The rival's runs, each used once by every metric that wants one: its seconds and its memory
  /// come from the same run.
  const nlohmann::json& rival(const std::string& metric) {
    const std::size_t index = used_[metric]++;
    if (index == rivals_.size()) {
      const std::string report = folder() / "rival.json";
      strings line{BENCH_MESH_PATH, "--sequential", "--json", report};
      line.insert(line.end(), resolution_.begin(), resolution_.end());
      rivals_.push_back(tern::bench::run_for_json(line, report));
    }
    return rivals_.at(index);
  }

  /// Whether ranks can be processes here.
  bool mpi_works() {
    if (!mpi_works_) {
      try {
        runs(scale(true)).ours(2, {}, true);
        mpi_works_ = true;
      } catch (const std::runtime_error&) { // the launcher, or the plug-in, is not there
        mpi_works_ = false;
      }
    }
    return *mpi_works_;
  }

private:
  static inline const strings coarse{"--hmin", "4", "--hmax", "40"};
  strings resolution_;
  std::vector<nlohmann::json> rivals_;
  std::uint64_t subdomains_ = 0; ///< 0: not known
  std::map<std::string, std::size_t> used_;
  std::optional<bool> mpi_works_;
};

std::vector<tern::bench::metric> metrics(const scale& of) {
  using tern::bench::budget;
  const auto all = std::make_shared<runs>(of);
  const std::string cgal = "one CGAL call";
  const auto imbalance = [all](const char* estimate) {
    return [=] { return all->ours(2, {"--estimate", estimate}).at("imbalance").get<double>(); };
  };
  return {
      {.name = "mesh.speed",
       .unit = "s",
       .target = 0.60,
       .rival_name = cgal,
       .ours = [=] { return meshing(all->ours(2)); },
       .rival = [=] { return meshing(all->rival("speed")); }},
      // Ranks that are processes: threads of one would share what each rank has to have.
      {.name = "mesh.memory",
       .unit = "MiB",
       .target = 1.6,
       .rival_name = cgal,
       .ours = [=] { return peak(all->ours(2, {}, all->mpi_works())); },
       .rival = [=] { return peak(all->rival("memory")); }},
      {.name = "mesh.total",
       .unit = "s",
       .target = 1,
       .rival_name = "budget",
       .ours =
           [=] {
             return tern::bench::run_command(all->job(2, {"--out", folder() / "out"})).seconds;
           },
       .rival = budget(10)},
      {.name = "mesh.triangles",
       .unit = "M",
       .better = direction::higher,
       .target = 1,
       .rival_name = "budget",
       .ours = [=] { return all->ours(2).at("triangles").get<double>() / 1e6; },
       .rival = budget(2)},
      {.name = "mesh.scaling",
       .unit = "s",
       .rival_name = "1 rank",
       .ours = [=] { return meshing(all->ours(2)); },
       .rival = [=] { return meshing(all->ours(1)); }},
      {.name = "checkpoint.pause",
       .unit = "s",
       .target = 1.10,
       .rival_name = "no checkpoint",
       .ours = [=] { return all->saved_thrice(); },
       .rival = [=] { return all->whole(); }},
      {.name = "mesh.imbalance.count",
       .unit = "max/mean",
       .rival_name = "perfect",
       .ours = imbalance("count"),
       .rival = budget(1)},
      {.name = "mesh.imbalance.area",
       .unit = "max/mean",
       .rival_name = "perfect",
       .ours = imbalance("area"),
       .rival = budget(1)},
  };
}

} // namespace

int main(int argc, char** argv) { return tern::bench::run(argc, argv, metrics); }
