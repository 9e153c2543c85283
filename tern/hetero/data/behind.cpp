// SPDX-License-Identifier: Apache-2.0
/// \file
/// Data of tasks that are put behind others on a device, before these have ended.
#include <algorithm>
#include <cstdint>
#include <mutex>

#include <tern/hetero/data/coherence.hpp>

namespace tern::hetero::detail {

// Transfers have no order with what is in streams. So none may begin that would read what a task is
// still to write. Nor is a fragment that is not valid in an instance read there by a task that has
// not ended: it was valid for that task, so another one writes it after that, and has not ended
// either. What is just coming to another instance need not be fetched a second time: soon it will
// be there.
bool coherence::can_come_behind(const use& u) {
  bool can = true;
  if (reads(u.how))
    u.object->each(u.part, [&](const fragment& f) {
      if (f.valid & bit(u.instance)) return;
      can = can && f.valid != 0 && f.writing == 0 &&
            std::all_of(f.coming.begin(), f.coming.end(), [&](const transfer* x) { return x->to == u.instance; });
    });
  return can;
}

coherence::acquired coherence::acquire_behind(task_record* t, std::uint8_t d) noexcept {
  const std::uint8_t space = devices_.space_of(d);
  std::size_t got = 0;
  bool can = true;
  try {
    for (; got < t->use_count && can; got += can ? 1 : 0) {
      use& u = t->use_at(got);
      const std::lock_guard hold(u.object->lock);
      // What the host's memory has no room for is waited for when its turn comes.
      can = (space != 0 || !u.object->paged) && find_instance(*u.object, u, space);
    }
    for (std::size_t i = 0; i < got && can; ++i) {
      use& u = t->use_at(i);
      const std::lock_guard hold(u.object->lock);
      can = can_come_behind(u);
    }
  } catch (...) { // the device is lost, or the host has no memory: that is said when its turn comes
    can = false;
  }
  if (!can) {
    while (got-- > 0) drop_use(t->use_at(got));
    return acquired::no_memory;
  }
  bring_data(t);
  return t->has_failed() ? acquired::failed : acquired::ready;
}

void coherence::written_when_given(task_record* t) noexcept {
  for (std::size_t i = 0; i < t->use_count; ++i) {
    const use& u = t->use_at(i);
    if (!writes(u.how)) continue;
    object_state& o = *u.object;
    const std::lock_guard hold(o.lock);
    instance& x = o.instances[u.instance];
    o.each(u.part, [&](fragment& f) {
      o.set_valid(f, x.exists ? bit(u.instance) : 0);
      f.lost = !x.exists;
    });
    x.cannot_save = nullptr; // perhaps what is there now can be
    o.update_on_host();
  }
}

} // namespace tern::hetero::detail
