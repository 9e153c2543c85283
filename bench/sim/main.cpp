// SPDX-License-Identifier: Apache-2.0
/// \file
/// The simulator: how many messages a second, how much memory for a rank, and whether it keeps to
/// its model.

#include "bench/harness/harness.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include "bench/harness/series.hpp"

#ifndef BENCH_SIM_TERN
#error "define BENCH_SIM_TERN as the path of bench_sim_tern"
#endif

namespace {

using tern::bench::budget;
using tern::bench::direction;
using tern::bench::metric;
using tern::bench::scale;
using tern::bench::series;

/// A file for what a contestant reports, gone with the process.
class scratch_file {
public:
  scratch_file() {
    std::string name = (std::filesystem::temp_directory_path() / "bench-sim-XXXXXX").string();
    const int fd = mkstemp(name.data());
    if (fd < 0) throw std::runtime_error("cannot make a temporary file in " + name);
    close(fd);
    path_ = name;
  }
  ~scratch_file() { std::remove(path_.c_str()); }
  scratch_file(const scratch_file&) = delete;
  scratch_file& operator=(const scratch_file&) = delete;
  const std::string& path() const noexcept { return path_; }

private:
  std::string path_;
};

nlohmann::json measure(std::vector<std::string> arguments) {
  static const scratch_file file;
  arguments.insert(arguments.begin(), BENCH_SIM_TERN);
  arguments.push_back(file.path());
  return tern::bench::run_for_json(arguments, file.path());
}

metric messages(const std::string& ranks, const std::string& millions, double target_millions) {
  return {.name = "sim.messages." + ranks,
          .unit = "M/s",
          .better = direction::higher,
          .target = 1,
          .rival_name = "budget",
          .ours =
              [=] {
                return measure({"messages", ranks, millions}).at("rate").get<double>();
              },
          .rival = budget(target_millions)};
}

/// At most that much.
metric limit(const std::string& name, const std::string& unit, double most, std::function<double()> ours, bool once) {
  return {.name = name,
          .unit = unit,
          .target = 1,
          .rival_name = "budget",
          .ours = std::move(ours),
          .rival = budget(most),
          .once = once};
}

/// How far from the model's closed form, either way.
metric model(const std::string& name, const std::vector<std::string>& arguments) {
  return {.name = "sim.model." + name,
          .unit = "of model",
          .target = 1.01,
          .rival_name = "closed form",
          .ours =
              [=] {
                const auto found = measure(arguments);
                const double ratio = found.at("measured").get<double>() / found.at("model").get<double>();
                return std::max(ratio, 1 / ratio);
              },
          .rival = budget(1)};
}

std::vector<metric> metrics(const scale& of) {
  // Takes seconds, and two metrics want it.
  const series start([ranks = std::string(of("100000", "1000"))] { return measure({"start", ranks}); });
  const std::string idle = of("10000", "1000");
  return {
      messages("64", of("2", "0.01"), 3),
      messages("1024", of("1", "0.01"), 1),
      limit(
          "sim.idle_rank", "KiB", 20,
          [=] {
            return measure({"idle", idle}).at("kib").get<double>();
          },
          false),
      limit("sim.start.100000", "s", 5, start["seconds"], true),
      limit("sim.memory.100000", "GiB", 2, start["gib"], true),
      model("pingpong.8", {"pingpong", "8"}),
      model("pingpong.65536", {"pingpong", "65536"}),
      model("alltoall.64", {"alltoall", "64", ""}),
      model("alltoall.64.gap", {"alltoall", "64", "gap=2us,overhead=50ns"}),
  };
}

} // namespace

int main(int argc, char** argv) { return tern::bench::run(argc, argv, metrics); }
