// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include <tern/base/error.hpp>
#include <tern/base/topology.hpp>

namespace tern {

std::string_view name_of(binding kind) noexcept {
  switch (kind) {
  case binding::none:
    return "none";
  case binding::core:
    return "core";
  case binding::numa:
    return "numa";
  }
  return "unknown";
}

binding binding_from(std::string_view name) {
  for (const binding kind : {binding::none, binding::core, binding::numa})
    if (name_of(kind) == name) return kind;
  throw error(errc::invalid_argument, "\"" + std::string(name) + "\" is no way to bind threads",
              "use none, core or numa");
}

std::vector<std::vector<int>> plan_binding(binding kind, int workers, int host_rank, int host_size,
                                           const std::vector<cpu_core>& cores) {
  if (workers < 0 || host_size < 1 || host_rank < 0 || host_rank >= host_size)
    throw error(errc::invalid_argument,
                "cannot place " + std::to_string(workers) + " workers of rank " + std::to_string(host_rank) + " of " +
                    std::to_string(host_size) + " on this host",
                "workers must be at least 0, and the rank from 0 to one less than the number of ranks on the host");
  std::vector<std::vector<int>> plan(static_cast<std::size_t>(workers));
  if (kind == binding::none || cores.empty()) return plan;

  const std::size_t n = cores.size(), ranks = static_cast<std::size_t>(host_size),
                    rank = static_cast<std::size_t>(host_rank);
  std::size_t first = rank * n / ranks, count = (rank + 1) * n / ranks - first;
  if (ranks > n) first = rank % n, count = 1;
  for (std::size_t w = 0; w < plan.size(); ++w) {
    if (kind == binding::core) {
      plan[w] = cores[first + w % count].pus;
      continue;
    }
    // Spread, or two workers of a block that spans two nodes would sit on one node.
    const std::size_t place = plan.size() <= count ? w * count / plan.size() : w % count;
    const int node = cores[first + place].numa;
    for (const cpu_core& core : cores)
      if (core.numa == node) plan[w].insert(plan[w].end(), core.pus.begin(), core.pus.end());
    std::sort(plan[w].begin(), plan[w].end());
  }
  return plan;
}

std::vector<std::vector<int>> plan_binding(binding kind, int workers, int host_rank, int host_size) {
  // Asking the machine takes time, which `none` need not pay.
  return plan_binding(kind, workers, host_rank, host_size,
                      kind == binding::none ? std::vector<cpu_core>() : describe_machine().allowed_cores);
}

} // namespace tern
