// SPDX-License-Identifier: Apache-2.0
#include <tern/balance/policies/resources/resources.hpp>

#include <algorithm>
#include <string>

namespace tern::balance::detail {
namespace {

/// Of a rank without devices: what is to run on one should not come there.
constexpr double no_devices = 1e30;

} // namespace

counted by_parameter(parameters& p) {
  const std::string by = p.word("by", "both", "both|worker|device");
  return by == "worker" ? counted::worker : by == "device" ? counted::device : counted::both;
}

double device_view::waiting() const noexcept {
  double all = 0;
  for (const object_info& x : all_.objects())
    if (x.movable) all += x.device;
  return std::min(all, load());
}

std::vector<object_info> device_view::objects() const {
  std::vector<object_info> all = all_.objects();
  for (object_info& x : all) {
    x.load = x.device;
    x.ran = 0;
  }
  std::sort(all.begin(), all.end(), [](const object_info& a, const object_info& b) {
    return a.load != b.load ? a.load > b.load : a.id < b.id;
  });
  return all;
}

double resources::pace(resource r) const noexcept {
  if (r == resource::worker) return workers_.pace();
  return workers_.devices() > 0 ? workers_.device_pace() : no_devices;
}

double resources::ahead(resource r) const noexcept {
  const policy_context& seen = of(r);
  return seen.load() * seen.pace() / std::max(seen.workers(), 1);
}

resource resources::critical() const noexcept {
  if (by_ != counted::both) return by_ == counted::device ? resource::device : resource::worker;
  if (workers_.devices() == 0 || workers_.device_pace() <= 0) return resource::worker;
  return ahead(resource::device) > ahead(resource::worker) ? resource::device : resource::worker;
}

} // namespace tern::balance::detail
