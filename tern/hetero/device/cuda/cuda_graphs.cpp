// SPDX-License-Identifier: Apache-2.0
// Sequences of kernels that are launched again and again become CUDA graphs.
#include <algorithm>
#include <utility>

#include <tern/hetero/device/cuda/cuda_device.hpp>

namespace tern::hetero::detail {
namespace {
constexpr std::size_t most_entries = 64;  // with more of them, those that were used longest ago go
constexpr std::uint64_t most_changes = 8; // rounds with another shape, if that are most of them
} // namespace

bool cuda_launch::same_as(const cuda_launch& other) const noexcept {
  return what.code == other.what.code && std::equal(what.groups, what.groups + 3, other.what.groups) &&
         std::equal(what.items, what.items + 3, other.what.items) && what.dynamic_bytes == other.what.dynamic_bytes &&
         words == other.words;
}

cuda_graphs::~cuda_graphs() {
  for (auto& [number, e] : entries_) drop(e);
}

// One that is under way goes on, and is freed by the driver when it has ended.
void cuda_graphs::drop(entry& e) noexcept {
  if (e.exec) target_.api.GraphExecDestroy(std::exchange(e.exec, nullptr));
  if (e.graph) target_.api.GraphDestroy(std::exchange(e.graph, nullptr));
  e.nodes.clear();
}

cu::result cuda_graphs::make(entry& e) {
  const cuda_api& api = target_.api;
  drop(e);
  ++e.made;
  if (const cu::result r = api.GraphCreate(&e.graph, 0); r != cu::success) return r;
  std::vector<cu::graph_node> after;
  for (std::size_t i = 0; i < e.launches.size(); ++i) {
    after.clear();
    for (std::uint32_t b = e.begins[i]; b < e.begins[i + 1]; ++b) after.push_back(e.nodes[e.before[b]]);
    cu::graph_node made = nullptr;
    const cu::result r = api.GraphAddKernelNode(&made, e.graph, after.empty() ? nullptr : after.data(), after.size(),
                                                &e.launches[i].what);
    if (r != cu::success) return r;
    e.nodes.push_back(made);
  }
  const cu::result r = target_.with_free_memory([&] { return api.GraphInstantiateWithFlags(&e.exec, e.graph, 0); });
  if (r == cu::success) ++made_;
  return r;
}

void cuda_graphs::evict() {
  if (entries_.size() < most_entries) return;
  const auto oldest = std::min_element(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
    return a.second.last_used < b.second.last_used;
  });
  drop(oldest->second);
  entries_.erase(oldest);
}

bool cuda_graphs::launch(cu::stream to, std::uint64_t number, std::vector<cuda_launch>& launches,
                         const std::vector<std::uint32_t>& before, const std::vector<std::uint32_t>& begins) {
  const cuda_api& api = target_.api;
  auto at = entries_.find(number);
  if (at == entries_.end()) {
    evict();
    entries_[number].last_used = ++clock_;
    return false; // there may never be a second round
  }
  entry& e = at->second;
  e.last_used = ++clock_;
  ++e.rounds;
  if (e.given_up) return false;
  // Launches that are under way keep the parameters that they began with.
  bool same = e.exec && e.launches.size() == launches.size() && e.before == before && e.begins == begins;
  for (std::size_t i = 0; same && i < launches.size(); ++i) same = e.launches[i].what.code == launches[i].what.code;
  if (same) {
    for (std::size_t i = 0; same && i < launches.size(); ++i) {
      if (e.launches[i].same_as(launches[i])) continue;
      std::swap(e.launches[i], launches[i]);
      same = api.GraphExecKernelNodeSetParams(e.exec, e.nodes[i], &e.launches[i].what) == cu::success;
      if (!same) { // as it is now, once more from the beginning
        for (std::size_t k = i + 1; k < launches.size(); ++k) std::swap(e.launches[k], launches[k]);
      }
    }
  } else {
    e.launches.swap(launches);
    e.before = before;
    e.begins = begins;
  }
  if (!same) {
    const cu::result r = make(e);
    e.given_up = r != cu::success || (e.made > most_changes && 2 * e.made > e.rounds);
    if (r != cu::success) {
      drop(e);
      launches.swap(e.launches);
      return false;
    }
  }
  if (const cu::result r = api.GraphLaunch(e.exec, to); r != cu::success)
    target_.fail(r, "launch recorded tasks as a graph", "--tern-cuda=no-graphs launches them one by one");
  return true;
}

} // namespace tern::hetero::detail
