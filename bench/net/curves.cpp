// SPDX-License-Identifier: Apache-2.0
#include "bench/net/curves.hpp"

#include <cstddef>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench/harness/harness.hpp"
#include "bench/net/jobs.hpp"

namespace tern::bench::net {
namespace {

constexpr int turns = 5;

struct line {
  std::string name;
  std::function<nlohmann::json(const words&)> run;
};

std::string sizes(std::size_t first, std::size_t last) {
  std::string text;
  for (std::size_t size = first; size <= last; size *= 2) text += (text.empty() ? "" : ",") + std::to_string(size);
  return text;
}

} // namespace

nlohmann::ordered_json measure_curves() {
  const auto raw = [](mpi library) { return [=](const words& w) { return run_raw(library, "single", w); }; };
  const auto tern = [](mpi library, const char* preallocate) {
    return [=](const words& w) { return run_tern(library, w, spinning::usual, {{"TERN_PREALLOCATE", preallocate}}); };
  };
  const std::vector<line> lines{{"Open MPI", raw(mpi::open_mpi)},
                                {"MPICH", raw(mpi::mpich)},
                                {"Tern on Open MPI", tern(mpi::open_mpi, "yes")},
                                {"Tern on Open MPI, no preallocation", tern(mpi::open_mpi, "no")},
                                {"Tern on MPICH", tern(mpi::mpich, "yes")}};
  const std::string all = sizes(8, std::size_t{64} << 20);
  std::map<std::string, std::map<std::string, std::map<std::size_t, std::vector<double>>>> found;
  for (int turn = 0; turn < turns; ++turn)
    for (const auto& one : lines)
      for (const std::string what : {"latency", "bandwidth"}) {
        try {
          const auto run = one.run({what, all, "0.1"});
          for (const auto& [size, value] : run.items())
            found[one.name][what][std::stoull(size)].push_back(value.get<double>());
        } catch (const absent& e) {
          if (turn == 0) std::fprintf(stderr, "%s: %s is absent\n", one.name.c_str(), e.what());
        }
      }
  nlohmann::ordered_json curves;
  curves["lines"] = nlohmann::ordered_json::array();
  for (const auto& one : lines) {
    if (!found.count(one.name)) continue;
    nlohmann::ordered_json values_of;
    values_of["name"] = one.name;
    for (const auto& [what, by_size] : found[one.name])
      // The better quartile: the host moves processes between near and far cores.
      for (const auto& [size, values] : by_size)
        values_of[what][std::to_string(size)] = quantile(values, what == "latency" ? 0.25 : 0.75);
    curves["lines"].push_back(values_of);
  }
  return curves;
}

} // namespace tern::bench::net
