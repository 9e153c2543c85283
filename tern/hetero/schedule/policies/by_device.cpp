// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/schedule/policies/by_device.hpp>

#include <algorithm>

namespace tern::hetero::detail {

bool usable(const ready_task& t, std::span<const device_load> devices, std::size_t d) {
  return !devices[d].lost && t.may_run_on(static_cast<int>(d));
}

bool anywhere(const ready_task& t, std::span<const device_load> devices) {
  for (std::size_t d = 0; d < devices.size(); ++d)
    if (usable(t, devices, d)) return true;
  return false;
}

void by_load(std::span<const device_load> devices, std::vector<std::size_t>& order) {
  order.clear();
  for (std::size_t d = 0; d < devices.size(); ++d)
    if (devices[d].free_slots > 0 && !devices[d].lost) order.push_back(d);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return devices[a].tasks != devices[b].tasks ? devices[a].tasks < devices[b].tasks : a < b;
  });
}

void by_device::push(ready_task t, std::span<const device_load> devices) {
  queues_.resize(std::max(queues_.size(), devices.size()));
  const int d = choose(t, devices);
  if (d < 0)
    unplaceable_.push(t);
  else
    queues_[static_cast<std::size_t>(d)].push(t);
}

std::optional<placement> by_device::pop(std::span<const device_load> devices) {
  if (queues_.size() < devices.size()) queues_.resize(devices.size());
  std::size_t best = devices.size();
  bool could_take = false;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    while (devices[d].lost && !queues_[d].empty()) push(*take(d), devices); // they are chosen for again
    if (devices[d].lost || devices[d].free_slots <= 0) continue;
    could_take = true;
    if (!queues_[d].empty() && (best == devices.size() || devices[d].tasks < devices[best].tasks)) best = d;
  }
  if (const auto t = unplaceable_.take([](const ready_task&) { return true; })) return placement{*t, -1};
  if (best < devices.size()) return give(*take(best), best);
  if (!could_take) return std::nullopt;
  by_load(devices, order_);
  for (const std::size_t d : order_)
    if (const auto t = steal(d, devices)) return give(*t, d);
  return std::nullopt;
}

std::optional<ready_task> by_device::take(std::size_t d) {
  return queues_[d].take([](const ready_task&) { return true; });
}

} // namespace tern::hetero::detail
