// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/graph/commute.hpp>

#include <mutex>
#include <utility>

#include <tern/hetero/data/object_state.hpp>

namespace tern::hetero::detail {

// Under lock_. \return true: it has all; else it waits in the list of an object that another task
// has.
bool commute_locks::take(task_record* t) noexcept {
  for (std::size_t i = 0; i < t->use_count; ++i) {
    const use& u = t->use_at(i);
    if (u.how != access_mode::commute || !u.object->commuter || u.object->commuter == t) continue;
    object_state& o = *u.object;
    t->next = nullptr;
    (o.commuters_first ? o.commuters_last->next : o.commuters_first) = t;
    o.commuters_last = t;
    return false;
  }
  for (std::size_t i = 0; i < t->use_count; ++i)
    if (use& u = t->use_at(i); u.how == access_mode::commute) u.object->commuter = t;
  return true;
}

bool commute_locks::lock(task_record* t) {
  const std::lock_guard hold(lock_);
  return take(t);
}

task_record* commute_locks::unlock(task_record* t) noexcept {
  task_record* freed = nullptr;
  const std::lock_guard hold(lock_);
  for (std::size_t i = 0; i < t->use_count; ++i)
    if (use& u = t->use_at(i); u.how == access_mode::commute && u.object->commuter == t) u.object->commuter = nullptr;
  for (std::size_t i = 0; i < t->use_count; ++i) {
    if (t->use_at(i).how != access_mode::commute) continue;
    object_state& o = *t->use_at(i).object;
    while (o.commuters_first && !o.commuter) { // the first that needs nothing else; others wait elsewhere from now on
      task_record* const x = o.commuters_first;
      o.commuters_first = std::exchange(x->next, nullptr);
      if (!take(x)) continue;
      x->next = freed;
      freed = x;
    }
  }
  return freed;
}

} // namespace tern::hetero::detail
