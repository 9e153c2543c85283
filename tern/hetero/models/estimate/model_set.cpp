// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/models/estimate/model_set.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace tern::hetero::detail {

bool model_set::has_fresh() const noexcept {
  return std::any_of(kernels.begin(), kernels.end(), [](const auto& e) { return e.second.fresh > 0; }) ||
         std::any_of(links.begin(), links.end(), [](const auto& e) { return e.second.link.has_fresh(); }) ||
         std::any_of(power.begin(), power.end(), [](const auto& e) { return e.second.fresh; });
}

void model_set::merge_fresh(const model_set& newer) {
  for (const auto& [key, from] : newer.kernels) {
    if (from.fresh == 0) continue;
    kernel_model& to = kernels[key];
    to.size = from.size;
    const auto all = from.times.samples();
    for (const float x : all.last(std::min<std::size_t>(from.fresh, all.size()))) to.times.add(x);
    to.last = std::max(to.last, from.last);
  }
  for (const auto& [ends, from] : newer.links) {
    if (!from.link.has_fresh()) continue;
    dated_link& to = links[ends];
    to.link.merge_fresh(from.link);
    to.last = std::max(to.last, from.last);
  }
  for (const auto& [device, from] : newer.power)
    if (from.fresh) power[device] = from;
}

void model_set::expire(std::int64_t now) {
  const auto expire_in = [now](auto& all) {
    for (auto& [key, model] : all) model.last = std::min(model.last, now);
    std::erase_if(all, [now](const auto& e) { return e.second.last < now - expires_after; });
  };
  expire_in(kernels);
  expire_in(links);
  expire_in(power);
  if (kernels.size() <= kernels_most) return;
  std::vector<std::int64_t> dates;
  dates.reserve(kernels.size());
  for (const auto& [key, model] : kernels) dates.push_back(model.last);
  const auto limit = dates.begin() + static_cast<std::ptrdiff_t>(kernels.size() - kernels_most);
  std::nth_element(dates.begin(), limit, dates.end());
  std::erase_if(kernels, [&](const auto& e) { return e.second.last < *limit; });
  std::size_t surplus = kernels.size() - kernels_most; // as old as the limit
  std::erase_if(kernels, [&](const auto& e) { return e.second.last == *limit && surplus > 0 && surplus-- > 0; });
}

model_set model_set::take_fresh() {
  model_set taken;
  for (auto& [key, model] : kernels)
    if (model.fresh > 0) {
      taken.kernels.emplace(key, model);
      model.fresh = 0;
    }
  for (auto& [ends, model] : links)
    if (model.link.has_fresh()) {
      taken.links.emplace(ends, model);
      model.link.set_stored();
    }
  for (auto& [device, model] : power)
    if (std::exchange(model.fresh, false)) {
      taken.power.emplace(device, model);
      taken.power.at(device).fresh = true;
    }
  return taken;
}

} // namespace tern::hetero::detail
