// SPDX-License-Identifier: Apache-2.0
/// \file
/// Which instances leave a device's memory, what is saved first, and what becomes of them when a
/// device is lost.
#include <algorithm>
#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/hetero/data/coherence.hpp>

namespace tern::hetero::detail {

using tern::detail::spin_lock;

bool coherence::save_or_forget(object_state& o, std::size_t i, bool may_save, transfer_chain& begun) {
  const instance& x = o.instances[i];
  if (!x.exists || x.users > 0 || x.pinned > 0) return false;
  // What is being written anew elsewhere is not worth saving: it was not fetched from here.
  const auto only_here = [i](const fragment& f) { return f.valid == bit(i) && f.writing == 0; };
  bool alone = false;
  o.each(x.where, [&](fragment& f) { alone = alone || only_here(f); });
  if (!alone) {
    forget(o, i);
    return true;
  }
  if (!may_save) return false;
  // Memory that was lent may go when the last handle has gone and the tasks have ended, which know
  // nothing of this copy.
  if (o.adopted && o.handles.load(std::memory_order_acquire) == 0)
    throw error(errc::out_of_memory, o.text() + " cannot go home to the memory that was lent, as no handle is left",
                "keep a handle until its tasks have ended");
  if (x.cannot_save) std::rethrow_exception(x.cannot_save);
  o.host_memory();
  o.each(x.where, [&](fragment& f) {
    if (!only_here(f)) return;
    transfer* const x_home = new_transfer(o, f.where, static_cast<std::uint8_t>(i), 0);
    x_home->save = true;
    begun.push(x_home);
    ++o.saving;
    client_.save_began();
  });
  return true;
}

namespace {
/// The task itself holds its first `got` uses.
bool wanted_by_others(const object_state& o, std::size_t i, task_record& t, std::size_t got) noexcept {
  int users = o.instances[i].users;
  for (std::size_t k = 0; k < got; ++k)
    if (const use& u = t.use_at(k); u.object == &o && u.instance == i) --users;
  return users > 0;
}
} // namespace

// Whether a task uses what is in the way is seen in the look that finds it there: an instant later
// its copy may have ended, and then memory is free.
coherence::eviction coherence::evict(std::uint8_t d, task_record& t, std::size_t got, std::size_t bytes,
                                     bool may_save) noexcept {
  eviction r;
  std::size_t freed = 0;
  transfer_chain begun;
  const bool skipped = devices_.queue(d)->each_held([&](object_state& o, std::size_t i) {
    if (freed >= bytes) return;
    r.in_use = r.in_use || wanted_by_others(o, i, t, got);
    const std::size_t size = o.instances[i].bytes;
    try {
      if (!save_or_forget(o, i, may_save, begun)) return;
    } catch (...) { // then it stays where it is
      r.why = std::current_exception();
      return;
    }
    freed += size;
    r.made = true;
  });
  r.made = r.made || skipped;
  begun.take_each([this](transfer* x) { start(x); });
  return r;
}

coherence::eviction coherence::evict_one_of(object_state& o, task_record& t, std::size_t got) noexcept {
  eviction r;
  transfer_chain begun;
  {
    const std::lock_guard hold(o.lock);
    std::vector<std::size_t> order;
    for (std::size_t i = 1; i < o.instances.size(); ++i) order.push_back(i);
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return o.instances[a].last_used < o.instances[b].last_used; });
    for (const std::size_t i : order) {
      r.in_use = r.in_use || wanted_by_others(o, i, t, got);
      try {
        if ((r.made = save_or_forget(o, i, true, begun))) break;
      } catch (...) { // then it stays where it is
        r.why = std::current_exception();
      }
    }
  }
  begun.take_each([this](transfer* x) { start(x); });
  return r;
}

void coherence::on_device_lost(std::uint8_t d) noexcept {
  device_queue* const gone = devices_.queue(d);
  for (int tries = 0; gone->holds_any(); ++tries) { // objects that others look at just now come next time
    gone->each_held([&](object_state& o, std::size_t i) {
      instance& x = o.instances[i];
      o.each(x.where, [&](fragment& f) {
        if (!(f.valid & bit(i))) return;
        if (f.valid == bit(i)) f.lost = true;
        o.set_valid(f, f.valid & ~bit(i));
      });
      gone->held_no_more(o, i);
      gone->free_later(x.memory, x.bytes); // which counts it
      const int users = x.users;           // they will drop it
      x = instance();
      x.users = users;
      --o.elsewhere;
      o.update_on_host();
    });
    if (gone->holds_any()) spin_lock::back_off(tries);
  }
}

} // namespace tern::hetero::detail
