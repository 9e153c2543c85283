// SPDX-License-Identifier: Apache-2.0
/// \file
/// Data of tasks that are put behind others on a device, before these have ended.
#include <algorithm>
#include <cstdint>
#include <mutex>
#include <vector>

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
      can = (space != 0 || !u.object->paged) && find_instance(*u.object, u, *t, space);
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

// A copy home that comes behind all that the task follows may read what these are still to write:
// what is valid in an instance is valid when they are over. What another device has no task writes.
bool coherence::can_come_home_behind(const use& u, std::uint8_t space, bool& any) {
  const object_state& o = *u.object;
  bool can = u.ordered;
  if (reads(u.how))
    u.object->each(u.part, [&](const fragment& f) {
      if (f.valid & 1) return;
      any = true;
      bool there = false; // where the copy has an order
      for (std::size_t k = 1; k < o.instances.size(); ++k)
        there = there || ((f.valid & bit(k)) && o.instances[k].exists && o.instances[k].space == space);
      can = can && f.valid != 0 && (there || f.writing == 0) &&
            std::all_of(f.coming.begin(), f.coming.end(), [](const transfer* x) { return x->to == 0; });
    });
  return can;
}

bool coherence::acquire_home_behind(task_record* t, std::uint8_t d, transfer_chain& behind) noexcept {
  const std::uint8_t space = devices_.space_of(d);
  if (space == 0) return false; // all is at home
  std::size_t got = 0;
  bool can = true, any = false;
  try {
    for (std::size_t i = 0; i < t->use_count && can; ++i) {
      const use& u = t->use_at(i);
      const std::lock_guard hold(u.object->lock);
      can = !u.object->paged && can_come_home_behind(u, space, any);
    }
    if (!can || !any) return false;
    for (; got < t->use_count; ++got) {
      use& u = t->use_at(got);
      const std::lock_guard hold(u.object->lock);
      find_instance(*u.object, u, *t, 0);
    }
  } catch (...) { // the host has no memory: that is said when its turn comes
    while (got-- > 0) drop_use(t->use_at(got));
    return false;
  }
  t->flags |= task_record::acquired;
  transfer_chain begun;
  bring_data(t, begun);
  begun.take_each([&](transfer* x) {
    if (x->to == 0 && x->device == d)
      behind.push(x);
    else
      start(x);
  });
  return true;
}

// Copies that are over when its turn comes. What cannot be begun now is fetched then.
void coherence::bring_home_behind(task_record* t, std::uint8_t d, transfer_chain& behind) noexcept {
  const std::uint8_t space = devices_.space_of(d);
  if (space == 0) return;
  struct piece {
    box part;
    std::uint8_t from;
  };
  std::vector<piece> pieces;
  try {
    for (std::size_t i = 0; i < t->use_count; ++i) {
      const use& u = t->use_at(i);
      object_state& o = *u.object;
      if (!reads(u.how) || !u.ordered) continue;
      const std::lock_guard hold(o.lock);
      if (o.paged || o.other_layout_on(devices_.info(d).kind)) continue;
      pieces.clear();
      std::int64_t elements = 0;
      o.each(u.part, [&](const fragment& f) {
        if ((f.valid & 1) || !f.coming.empty()) return;
        for (std::size_t k = 1; k < o.instances.size(); ++k)
          if ((f.valid & bit(k)) && o.instances[k].exists && o.instances[k].space == space) {
            pieces.push_back({f.where, static_cast<std::uint8_t>(k)});
            elements += f.where.size();
            return;
          }
      });
      if (pieces.empty()) continue;
      o.host_memory();
      const auto as_first = [&](const piece& p) { return p.from == pieces.front().from; };
      if (elements == u.part.size() && std::all_of(pieces.begin(), pieces.end(), as_first))
        pieces = {{u.part, pieces.front().from}}; // one copy instead of many
      for (const piece& p : pieces) {
        transfer* const x = new_transfer(o, p.part, p.from, 0);
        await(t, x, false);
        behind.push(x);
      }
    }
  } catch (...) { // no memory: the task will say so when its turn comes
  }
}

void coherence::written_when_given(task_record* t) noexcept {
  const bool across = (t->marks.load(std::memory_order_relaxed) & task_record::across) != 0;
  for (std::size_t i = 0; i < t->use_count; ++i) {
    const use& u = t->use_at(i);
    if (!writes(u.how) && !across) continue;
    object_state& o = *u.object;
    const std::lock_guard hold(o.lock);
    if (across)
      o.each(u.part, [t](fragment& f) {
        for (transfer* x : f.coming)
          x->passed = x->passed || std::any_of(x->tasks.begin(), x->tasks.end(),
                                               [t](const transfer::waiter& w) { return w.task == t; });
      });
    if (!writes(u.how)) continue;
    instance& x = o.instances[u.instance];
    o.each(u.part, [&](fragment& f) {
      f.coming.clear(); // all of it comes before the task, which overwrites it
      o.set_valid(f, x.exists ? bit(u.instance) : 0);
      f.lost = !x.exists;
    });
    x.cannot_save = nullptr; // perhaps what is there now can be
    o.update_on_host();
  }
}

} // namespace tern::hetero::detail
