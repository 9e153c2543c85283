// SPDX-License-Identifier: Apache-2.0
/// \file
/// How long handlers take.
#include <tern/mobile/load/handler_costs.hpp>

#include <algorithm>

#include <tern/net/handler.hpp>

namespace tern::mobile::detail {
namespace {

constexpr float quick = 5e-6F;            // seconds: what runs no longer is not worth a place in a queue
constexpr float forgets = 0.98F;          // of the longest time, with each that is measured
constexpr unsigned runs_for_measure = 16; // one in so many of the quick ones is measured

} // namespace

void handler_costs::prepare() {
  if (!handler_cost_) handler_cost_ = std::make_unique<std::atomic<float>[]>(net::handler_table::size());
}

bool handler_costs::is_quick(std::uint32_t handler) const noexcept {
  const float longest = handler_cost_[handler].load(std::memory_order_relaxed);
  return longest > 0 && longest < quick;
}

void handler_costs::note(std::uint32_t handler, double seconds) noexcept {
  std::atomic<float>& longest = handler_cost_[handler];
  const auto took = static_cast<float>(seconds);
  longest.store(std::max({took, 1e-9F, forgets * longest.load(std::memory_order_relaxed)}), std::memory_order_relaxed);
}

bool handler_costs::measures_next() noexcept {
  const unsigned n = quick_runs_.load(std::memory_order_relaxed) + 1;
  quick_runs_.store(n, std::memory_order_relaxed); // one that is lost is no harm
  return n % runs_for_measure == 0;
}

} // namespace tern::mobile::detail
