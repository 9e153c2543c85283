// SPDX-License-Identifier: Apache-2.0
/// \file
/// What there is to do for the objects of a rank.
#include <tern/mobile/directory.hpp>

#include <chrono>
#include <mutex>

#include <tern/net/message.hpp>
#include <tern/task/fiber.hpp>

namespace tern::mobile {

// In the fiber that has the access.
void directory::run_watched(net::node& here, const invocable& what, entry& e, void* object, const address& to,
                            const net::wire_header& header, net::payload& message) {
  weigh(e, 0);
  const auto begun = fiber_clock::now();
  what.run(here, object, to, header, message);
  const float took = std::chrono::duration<float>(fiber_clock::now() - begun).count();
  const std::lock_guard hold(shard_of(e.id).lock);
  float& each = e.extra().seconds;
  each = each > 0 ? 0.75F * each + 0.25F * took : took; // the last few count most
}

// By who has the access: the class is asked without the lock. \param ending of those that are pending.
void directory::weigh(entry& e, std::uint32_t ending) {
  const auto says = e.object ? e.type->workload : nullptr;
  std::uint32_t then = 0; // pending, when the class was asked
  double load = 0, more = 0;
  if (says) {
    {
      const std::lock_guard hold(shard_of(e.id).lock);
      then = e.pending() - ending;
    }
    load = says(e.object, then);
    more = says(e.object, then + 1);
  }
  const std::lock_guard hold(shard_of(e.id).lock);
  const std::uint32_t now = e.pending() - ending;
  extra_state& x = e.extra();
  x.each = says ? more - load : x.seconds;
  set_load(e, says ? load + x.each * (static_cast<double>(now) - then) : x.each * now);
}

void directory::watch_loads(bool on) noexcept {
  // relaxed: who sees it late counts late
  if (on)
    attention_.fetch_or(to_loads, std::memory_order_relaxed);
  else
    attention_.fetch_and(~unsigned{to_loads}, std::memory_order_relaxed);
}

// Whoever has the access may be changing what the class would look at: so it is as much more as it was last time.
void directory::weigh_arrival(entry& e) noexcept { set_load(e, e.known().load + e.known().each); }

void directory::set_load(entry& e, double load) noexcept {
  if (load == e.known().load) return;
  shard_of(e.id).load += load - e.known().load;
  e.extra().load = load;
}

double directory::load() const {
  double all = 0;
  for (std::size_t k = 0; k < shards; ++k) {
    const std::lock_guard hold(shards_[k].lock);
    all += shards_[k].load;
  }
  return all;
}

std::vector<object_load> directory::loads() const {
  std::vector<object_load> all;
  for (std::size_t k = 0; k < shards; ++k) {
    const std::lock_guard hold(shards_[k].lock);
    const auto& table = shards_[k].entries;
    for (std::size_t i = 0; i < table.capacity(); ++i) {
      const entry* const e = table.at(i);
      if (!e || !e->is_present()) continue;
      const extra_state& x = e->known();
      all.push_back({e->id, &e->type->name, x.load, e->pending(), x.seconds, e->type->pack && e->pins == 0});
    }
  }
  return all;
}

} // namespace tern::mobile
