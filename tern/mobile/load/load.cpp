// SPDX-License-Identifier: Apache-2.0
/// \file
/// What there is to do for the objects of a rank.
#include <tern/mobile/directory.hpp>

#include <cmath>
#include <mutex>
#include <new>
#include <string>

#include <tern/base/log.hpp>
#include <tern/net/message.hpp>
#include <tern/task/fiber/causal_context.hpp>

namespace tern::mobile {

// In the fiber that has the access.
void directory::run_watched(net::node& here, const invocable& what, entry& e, void* object, const address& to,
                            const net::wire_header& header, net::payload& message, const running_invocation& frame) {
  weigh(e, 0);
  double load = 0;
  {
    const std::lock_guard hold(shard_of(e.id).lock);
    load = e.known().each;
  }
  balancer* const b = told();
  if (b) b->begun(e.id, load);
  const tern::detail::run_timer time;
  what.run(here, object, to, header, message);
  const double took = time.seconds();
  measured(header, took);
  float seconds = 0;
  {
    const std::lock_guard hold(shard_of(e.id).lock);
    extra_state& x = e.extra();
    x.times.add(static_cast<float>(took));
    seconds = x.seconds = x.times.typical();
    x.device = 0.75F * x.device + 0.25F * static_cast<float>(frame.device());
  }
  note_typical(*e.type, seconds);
  if (b) b->ended(e.id, *e.type, object, load, took, frame.device());
}

// Of a class of which nothing is known: as all others take, or a guess. Under a shard's lock.
float directory::typical_of(const type_record& type) const noexcept {
  constexpr float guess = 1e-3F;
  const std::lock_guard hold(guard_);
  float all = 0;
  for (const auto& [of, seconds] : typical_) {
    if (of == &type) return seconds;
    all += seconds;
  }
  return typical_.empty() ? guess : all / static_cast<float>(typical_.size());
}

// For one invocation. Under the shard's lock.
double directory::undeclared(const extra_state& x, const type_record& type) const noexcept {
  if (model_.load(std::memory_order_relaxed) == load_model::constant) return 1;
  return x.seconds > 0 ? x.seconds : typical_of(type);
}

void directory::note_typical(const type_record& type, float seconds) {
  const std::lock_guard hold(guard_);
  for (auto& [of, known] : typical_)
    if (of == &type) {
      known = 0.9F * known + 0.1F * seconds;
      return;
    }
  typical_.emplace_back(&type, seconds);
}

// What a class says of its objects: others would suffer from what is no load. \return 0 instead, with one warning.
double directory::sound(double says, const type_record& type) noexcept {
  if (says >= 0 && std::isfinite(says)) return says;
  if (!unsound_.exchange(true, std::memory_order_relaxed)) try {
      log_warning("the workload of an object of class " + type.name + " is " + std::to_string(says) +
                  ": counted as 0, as will be all that are negative or no numbers");
    } catch (const std::bad_alloc&) { // there are worse things to say then
    }
  return 0;
}

// Before anybody else knows the object.
void directory::weigh_first(entry& e, const void* object) noexcept {
  extra_state& x = e.extra();
  if (const auto says = e.type->workload; says && model_.load(std::memory_order_relaxed) == load_model::declared) {
    x.load = sound(says(object, 0), *e.type);
    x.each = sound(says(object, 1), *e.type) - x.load;
  } else {
    x.each = undeclared(x, *e.type);
  }
}

// It has arrived, and all that comes for it is held.
void directory::weigh_landed(entry& e, const type_record& type, const void* object) noexcept {
  const auto says = model_.load(std::memory_order_relaxed) == load_model::declared ? type.workload : nullptr;
  const double idle = says ? sound(says(object, 0), type) : 0, each = says ? sound(says(object, 1), type) - idle : 0;
  const std::lock_guard hold(shard_of(e.id).lock);
  extra_state& x = e.extra();
  x.each = says ? each : undeclared(x, type);
  set_load(e, idle + x.each * e.pending());
}

// By who has the access: the class is asked without the lock. \param ending of those that are pending.
void directory::weigh(entry& e, std::uint32_t ending) {
  const auto says =
      e.object && model_.load(std::memory_order_relaxed) == load_model::declared ? e.type->workload : nullptr;
  std::uint32_t then = 0; // pending, when the class was asked
  double load = 0, more = 0;
  if (says) {
    {
      const std::lock_guard hold(shard_of(e.id).lock);
      then = e.pending() - ending;
    }
    load = sound(says(e.object, then), *e.type);
    more = sound(says(e.object, then + 1), *e.type);
  }
  const std::lock_guard hold(shard_of(e.id).lock);
  const std::uint32_t now = e.pending() - ending;
  extra_state& x = e.extra();
  x.each = says ? more - load : undeclared(x, *e.type);
  set_load(e, says ? load + x.each * (static_cast<double>(now) - then) : x.each * now);
}

void directory::watch_loads(bool on) {
  {
    const std::lock_guard hold(guard_);
    loads_wanted_ = on;
    if (!on) {
      // relaxed: who sees it late counts late
      if (!(attends() & to_balance)) attention_.fetch_and(~unsigned{to_loads}, std::memory_order_relaxed);
      return;
    }
  }
  begin_watching();
}

void directory::begin_watching() {
  if (attention_.fetch_or(to_loads, std::memory_order_relaxed) & to_loads) return;
  std::vector<std::pair<object_id, const type_record*>> there;
  for (std::size_t k = 0; k < shards; ++k) {
    const std::lock_guard hold(shards_[k].lock);
    const auto& table = shards_[k].entries;
    for (std::size_t i = 0; i < table.capacity(); ++i)
      if (const entry* const e = table.at(i); e && e->at == entry::place::here) there.emplace_back(e->id, e->type);
  }
  // What ends is weighed; what is busy ends later.
  for (const auto& [id, type] : there)
    if (const held h = try_hold(id, *type, action::share); h.object) let_go(h, action::share);
}

// Whoever has the access may be changing what the class would look at: so it is as much more as it was last time.
void directory::weigh_arrival(entry& e) noexcept { set_load(e, e.known().load + e.known().each); }

void directory::set_load(entry& e, double load) noexcept {
  if (load == e.known().load) return;
  load_.fetch_add(load - e.known().load, std::memory_order_relaxed); // a sum, which orders nothing
  e.extra().load = load;
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
      all.push_back({e->id, &e->type->name, x.load, e->pending(), x.seconds, e->type->pack && e->pins == 0,
                     e->could_leave(), x.device});
    }
  }
  return all;
}

} // namespace tern::mobile
