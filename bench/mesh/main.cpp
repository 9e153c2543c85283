// SPDX-License-Identifier: Apache-2.0
/// \file
/// The coastal mesher against one sequential call of CGAL on the same sea with the same sizing (docs/results/mesh.md).
/// Both are whole programs; what is compared is what they report: the seconds between the domain and the finished mesh,
/// and their processes' peak memory.

#include "bench/harness/harness.hpp"

#include <cstdlib>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>

#ifndef BENCH_MESH_PATH
#error "define BENCH_MESH_PATH and BENCH_TERN_PATH as the paths of mesh and tern"
#endif

namespace {

using tern::bench::direction;
using strings = std::vector<std::string>;

/// A folder for what the programs write, gone with the process.
class scratch {
public:
  scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "bench-mesh-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("cannot make a folder for temporary files in " + name);
    path_ = name;
  }
  ~scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

private:
  std::filesystem::path path_;
};

const scratch& folder() {
  static const scratch one;
  return one;
}

strings job(int ranks, const strings& arguments, bool mpi = false) {
  strings line{BENCH_TERN_PATH, "run", "-n", std::to_string(ranks), "--workers", "1"};
  if (mpi) line.insert(line.end(), {"--transport", "mpi"});
  line.insert(line.end(), {"--", BENCH_MESH_PATH, "--quiet"});
  line.insert(line.end(), arguments.begin(), arguments.end());
  return line;
}

/// What a job reports, which must be a mesh that keeps its promises.
nlohmann::json ours(int ranks, strings arguments = {}, bool mpi = false) {
  const std::string report = folder() / "ours.json";
  arguments.insert(arguments.end(), {"--json", report});
  auto found = tern::bench::run_for_json(job(ranks, arguments, mpi), report);
  if (!found.at("conforming").get<bool>()) throw std::runtime_error("the mesh does not conform");
  return found;
}

/// The rival's runs, each used once by every metric that wants one: its seconds and its memory come from the same run.
class rival_runs {
public:
  const nlohmann::json& next(const std::string& metric) {
    const std::size_t index = used_[metric]++;
    if (index == runs_.size()) {
      const std::string report = folder() / "rival.json";
      runs_.push_back(tern::bench::run_for_json({BENCH_MESH_PATH, "--sequential", "--json", report}, report));
    }
    return runs_.at(index);
  }

private:
  std::vector<nlohmann::json> runs_;
  std::map<std::string, std::size_t> used_;
};

double meshing(const nlohmann::json& report) { return report.at("seconds").at("meshing").get<double>(); }
double peak(const nlohmann::json& report) { return report.at("peak_mib").get<double>(); }

bool mpi_works() {
  static const bool works = [] {
    try {
      ours(2, {"--hmin", "4", "--hmax", "40"}, true);
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }();
  return works;
}

} // namespace

int main(int argc, char** argv) {
  using tern::bench::budget;
  rival_runs rival;
  const std::string cgal = "one CGAL call";
  return tern::bench::run(argc, argv,
                          {
                              {.name = "mesh.speed",
                               .unit = "s",
                               .target = 0.60,
                               .rival_name = cgal,
                               .ours = [] { return meshing(ours(2)); },
                               .rival = [&] { return meshing(rival.next("speed")); }},
                              // Ranks that are processes: threads of one would share what each rank has to have.
                              {.name = "mesh.memory",
                               .unit = "MiB",
                               .target = 1.6,
                               .rival_name = cgal,
                               .ours = [] { return peak(ours(2, {}, mpi_works())); },
                               .rival = [&] { return peak(rival.next("memory")); }},
                              {.name = "mesh.total",
                               .unit = "s",
                               .target = 1,
                               .rival_name = "budget",
                               .ours =
                                   [] {
                                     const auto line = job(2, {"--out", folder() / "out"});
                                     return tern::bench::run_command(line).seconds;
                                   },
                               .rival = budget(10)},
                              {.name = "mesh.triangles",
                               .unit = "M",
                               .better = direction::higher,
                               .target = 1,
                               .rival_name = "budget",
                               .ours = [] { return ours(2).at("triangles").get<double>() / 1e6; },
                               .rival = budget(2)},
                              {.name = "mesh.scaling",
                               .unit = "s",
                               .rival_name = "1 rank",
                               .ours = [] { return meshing(ours(2)); },
                               .rival = [] { return meshing(ours(1)); }},
                              {.name = "mesh.imbalance.count",
                               .unit = "max/mean",
                               .rival_name = "perfect",
                               .ours =
                                   [] {
                                     return ours(2, {"--estimate", "count"}).at("imbalance").get<double>();
                                   },
                               .rival = budget(1)},
                              {.name = "mesh.imbalance.area",
                               .unit = "max/mean",
                               .rival_name = "perfect",
                               .ours =
                                   [] {
                                     return ours(2, {"--estimate", "area"}).at("imbalance").get<double>();
                                   },
                               .rival = budget(1)},
                          });
}
