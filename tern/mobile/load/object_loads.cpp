// SPDX-License-Identifier: Apache-2.0
/// \file
/// What there is to do for the objects of a rank.
#include <tern/mobile/load/object_loads.hpp>

#include <cmath>
#include <mutex>
#include <new>
#include <string>

#include <tern/base/log.hpp>

namespace tern::mobile::detail {

// The first one here counts for all: what has come along is of another rank's devices.
void object_loads::note_device(entry& e, double load) noexcept {
  if (!(load > 0) || !e.extras) return;
  extra_state& x = *e.extras;
  x.device = x.device_is_own ? 0.75F * x.device + 0.25F * static_cast<float>(load) : static_cast<float>(load);
  x.device_is_own = true;
}

void object_loads::note_time(entry& e, double seconds) {
  float typical = 0;
  {
    const std::lock_guard hold(objects_.shard_of(e.id).lock);
    extra_state& x = e.extra();
    x.times.add(static_cast<float>(seconds));
    typical = x.seconds = x.times.typical();
  }
  note_typical(*e.type, typical);
}

// Of a class of which nothing is known: as all others take, or a guess. Under a shard's lock.
float object_loads::typical_of(const type_record& type) const noexcept {
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
double object_loads::undeclared(const extra_state& x, const type_record& type) const noexcept {
  if (model_.load(std::memory_order_relaxed) == load_model::constant) return 1;
  return x.seconds > 0 ? x.seconds : typical_of(type);
}

void object_loads::note_typical(const type_record& type, float seconds) {
  const std::lock_guard hold(guard_);
  for (auto& [of, known] : typical_)
    if (of == &type) {
      known = 0.9F * known + 0.1F * seconds;
      return;
    }
  typical_.emplace_back(&type, seconds);
}

// What a class says of its objects. \return 0 for what is no load, with one warning.
double object_loads::sound(double says, const type_record& type) noexcept {
  if (says >= 0 && std::isfinite(says)) return says;
  if (!unsound_.exchange(true, std::memory_order_relaxed)) try {
      log_warning("the workload of an object of class " + type.name + " is " + std::to_string(says) +
                  ": counted as 0, as will be all that are negative or no numbers");
    } catch (const std::bad_alloc&) { // the load is corrected all the same
    }
  return 0;
}

void object_loads::weigh_first(entry& e, const void* object) noexcept {
  extra_state& x = e.extra();
  if (const auto says = e.type->workload; says && model_.load(std::memory_order_relaxed) == load_model::declared) {
    x.load = sound(says(object, 0), *e.type);
    x.each = sound(says(object, 1), *e.type) - x.load;
  } else {
    x.each = undeclared(x, *e.type);
  }
}

void object_loads::weigh_landed(entry& e, const type_record& type, const void* object) noexcept {
  const auto says = model_.load(std::memory_order_relaxed) == load_model::declared ? type.workload : nullptr;
  const double idle = says ? sound(says(object, 0), type) : 0, each = says ? sound(says(object, 1), type) - idle : 0;
  const std::lock_guard hold(objects_.shard_of(e.id).lock);
  extra_state& x = e.extra();
  x.each = says ? each : undeclared(x, type);
  set(e, idle + x.each * e.pending());
}

double object_loads::weigh(entry& e, std::uint32_t ending) {
  const auto says =
      e.object && model_.load(std::memory_order_relaxed) == load_model::declared ? e.type->workload : nullptr;
  std::uint32_t then = 0; // pending, when the class was asked
  double load = 0, more = 0;
  if (says) {
    {
      const std::lock_guard hold(objects_.shard_of(e.id).lock);
      then = e.pending() - ending;
    }
    load = sound(says(e.object, then), *e.type);
    more = sound(says(e.object, then + 1), *e.type);
  }
  const std::lock_guard hold(objects_.shard_of(e.id).lock);
  const std::uint32_t now = e.pending() - ending;
  extra_state& x = e.extra();
  x.each = says ? more - load : undeclared(x, *e.type);
  set(e, says ? load + x.each * (static_cast<double>(now) - then) : x.each * now);
  return x.each;
}

void object_loads::set(entry& e, double load) noexcept {
  if (load == e.known().load) return;
  sum_.fetch_add(load - e.known().load, std::memory_order_relaxed); // a sum, which orders nothing
  e.extra().load = load;
}

} // namespace tern::mobile::detail
