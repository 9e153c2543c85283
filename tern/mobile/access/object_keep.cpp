// SPDX-License-Identifier: Apache-2.0
/// \file
/// Objects that are kept here by what their invocations have submitted.
#include <tern/mobile/access/object_keep.hpp>

#include <exception>
#include <mutex>
#include <string>
#include <utility>

#include <tern/mobile/access/admission.hpp>
#include <tern/mobile/entry/rank_objects.hpp>
#include <tern/mobile/load/object_loads.hpp>
#include <tern/net/message.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::mobile::detail {

object_keep::object_keep(admission& a, std::vector<entry*> of, tern::detail::causal_context* outer)
    : admission_(a), round_(a.round()), outer_(outer) {
  of_.reserve(of.size());
  for (entry* const e : of) of_.push_back({e, e->id});
  for (const kept& k : of_) admission_.keep(*k.of);
}

void object_keep::end() noexcept {
  // relaxed: `left_` orders what tasks have charged before this
  device_time spent{seconds_.load(std::memory_order_relaxed), amount_.load(std::memory_order_relaxed)};
  for (const kept& k : of_) admission_.let_go(*k.of, k.id, round_, std::exchange(spent, {}));
  delete this;
}

std::uint32_t admission::round() const noexcept { return objects_.round(); }

bool admission::is_kept(entry& e) {
  const std::lock_guard hold(objects_.shard_of(e.id).lock);
  return e.keeps > 0;
}

void admission::keep(entry& e) {
  const std::lock_guard hold(objects_.shard_of(e.id).lock);
  ++e.keeps;
}

// \return the load that this counts as; 0 if loads are of no interest.
double admission::load_of(object_id id, const device_time& spent) noexcept {
  if (!(spent.seconds > 0) || !objects_.watches()) return 0;
  auto* const b = objects_.balancer();
  return b ? b->charged(id, spent.seconds, spent.amount) : spent.seconds;
}

void admission::charge(entry& e, const device_time& spent) noexcept {
  const double load = load_of(e.id, spent);
  const std::lock_guard hold(objects_.shard_of(e.id).lock);
  object_loads::note_device(e, load);
}

void admission::let_go(entry& e, object_id id, std::uint32_t round, device_time spent) noexcept {
  if (tern::detail::this_worker()) { // a device's thread may not take the lock (owner_lock)
    const double load = load_of(id, std::exchange(spent, {}));
    const std::lock_guard hold(objects_.shard_of(id).lock);
    if (objects_.round() != round) return; // the job has gone back, and the entry is gone
    object_loads::note_device(e, load);
    if (e.keeps > 1 || !e.waits_for_keeps()) {
      --e.keeps;
      return;
    }
  }
  // Something may wait for this, and is done by a fiber: tasks end where nothing may wait. So long
  // the object is kept.
  try {
    node_.fibers().spawn(
        [this, &e, id, round, spent] {
          deferred_actions then(&e);
          const double load = load_of(id, spent);
          {
            const std::lock_guard hold(objects_.shard_of(id).lock);
            if (objects_.round() != round) return;
            object_loads::note_device(e, load);
            if (--e.keeps == 0) admit_waiting(e, then);
          }
          objects_.perform(then);
        },
        {.name = "tasks of an object have ended"});
  } catch (const std::exception& x) { // memory has run out: the object would stay for ever
    node_.fatal("what waits for the tasks of object " + to_string(id) + " cannot go on: " + x.what());
  }
}

void admission::wait_for_tasks(entry& e) {
  auto& lock = objects_.shard_of(e.id).lock;
  lock.lock();
  if (e.keeps == 0) return lock.unlock();
  tern::detail::waiter self({tern::detail::wait_kind::other, &e});
  e.travels().drained.push(self);
  self.wait([](void* l) { static_cast<tern::detail::owner_lock*>(l)->unlock(); }, &lock);
}

} // namespace tern::mobile::detail
