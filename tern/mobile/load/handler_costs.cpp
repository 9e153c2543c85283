// SPDX-License-Identifier: Apache-2.0
/// \file
/// How long handlers take.
#include <tern/mobile/load/handler_costs.hpp>

#include <new>

#include <tern/net/handler.hpp>

namespace tern::mobile::detail {
namespace {

constexpr float of_handler = 1.0F / 32; // the weight of the last time in the share of a function
constexpr float of_place = 1.0F / 8;    // and of a place
constexpr float hardly_any = 1.0F / 64; // of a function's invocations
constexpr float most = 0.5F;

// relaxed, all: statistics, in which a lost time is no harm
float follow(std::atomic<float>& average, float now, float weight) noexcept {
  const float before = average.load(std::memory_order_relaxed);
  const float after = before < 0 ? now : before + weight * (now - before);
  average.store(after, std::memory_order_relaxed);
  return after;
}

} // namespace

handler_costs::~handler_costs() {
  for (std::size_t i = 0; i < count_; ++i) {
    const class_costs* next = functions_[i].classes.load(std::memory_order_relaxed);
    while (const class_costs* const c = next) {
      next = c->next;
      delete c;
    }
  }
}

void handler_costs::prepare() {
  if (functions_) return;
  count_ = net::handler_table::size();
  functions_ = std::make_unique<function_costs[]>(count_);
}

expected handler_costs::judge(float share) noexcept {
  if (share >= 0 && share < hardly_any) return expected::quick;
  return share < 0 || share > 1 - hardly_any ? expected::takes_long : expected::by_object;
}

expected handler_costs::expects(std::uint32_t handler) const noexcept {
  return judge(functions_[handler].share.load(std::memory_order_relaxed));
}

handler_costs::class_costs* handler_costs::find(const function_costs& h, const type_record& type) noexcept {
  // acquire: the record has been made
  class_costs* c = h.classes.load(std::memory_order_acquire);
  while (c && c->of != &type) c = c->next;
  return c;
}

// \return null if memory has run out: then the function's own share counts.
handler_costs::class_costs* handler_costs::of(function_costs& h, const type_record& type) noexcept {
  if (class_costs* const known = find(h, type)) return known;
  class_costs* const fresh = new (std::nothrow) class_costs;
  if (!fresh) return nullptr;
  fresh->of = &type;
  for (std::atomic<float>& s : fresh->share) s.store(-1, std::memory_order_relaxed);
  fresh->next = h.classes.load(std::memory_order_acquire);
  // release: who finds it sees what it is. Two threads may both add one of a class; the later one
  // is found from then on.
  while (!h.classes.compare_exchange_weak(fresh->next, fresh, std::memory_order_release, std::memory_order_acquire)) {
  }
  return fresh;
}

bool handler_costs::waits(std::uint32_t handler, const type_record& type, int place, bool wanted) const noexcept {
  const auto& h = functions_[handler];
  float share = -1, seconds = -1;
  if (const class_costs* const c = find(h, type)) {
    const auto& known = place == long_rhythm::unknown ? c->share_unknown : c->share[static_cast<std::size_t>(place)];
    share = known.load(std::memory_order_relaxed);
    seconds = c->seconds.load(std::memory_order_relaxed);
  }
  if (share < 0) share = h.share.load(std::memory_order_relaxed);
  return share >= most || (wanted && is_long(double{share} * seconds));
}

void handler_costs::note(std::uint32_t handler, const type_record& type, int place, double seconds) noexcept {
  auto& h = functions_[handler];
  const float was_long = is_long(seconds) ? 1 : 0;
  if (judge(follow(h.share, was_long, of_handler)) != expected::by_object) return;
  class_costs* const c = of(h, type);
  if (!c) return;
  follow(place == long_rhythm::unknown ? c->share_unknown : c->share[static_cast<std::size_t>(place)], was_long,
         of_place);
  if (was_long > 0) follow(c->seconds, static_cast<float>(seconds), of_place);
}

bool handler_costs::measures_next() noexcept {
  // relaxed: one that is lost is no harm
  const std::uint32_t n = quick_runs_.load(std::memory_order_relaxed) + 1;
  quick_runs_.store(n, std::memory_order_relaxed);
  if (static_cast<std::int32_t>(n - measure_at_.load(std::memory_order_relaxed)) < 0) return false;
  measure_at_.store(n + 9 + (n * 0x9e3779b9u >> 28), std::memory_order_relaxed); // 9 to 24 from here
  return true;
}

} // namespace tern::mobile::detail
