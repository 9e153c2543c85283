// SPDX-License-Identifier: Apache-2.0
/// \file
/// Which instances leave a device's memory, what is saved first, and what becomes of them when a
/// device is lost.
#include <algorithm>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/hetero/data/coherence.hpp>

namespace tern::hetero::detail {

using tern::detail::spin_lock;

namespace {

/// Under its lock: must something be saved before the instance goes? What is being written anew
/// elsewhere is not worth it: it was not fetched from here.
bool only_in(const fragment& f, std::size_t i) noexcept { return f.valid == bit(i) && f.writing == 0; }
bool holds_alone(object_state& o, std::size_t i) {
  bool alone = false;
  o.each(o.instances[i].where, [&](const fragment& f) { alone = alone || only_in(f, i); });
  return alone;
}

/// The task itself holds its first `got` uses.
bool wanted_by_others(const object_state& o, std::size_t i, task_record& t, std::size_t got) noexcept {
  int users = o.instances[i].users - o.instances[i].saves;
  for (std::size_t k = 0; k < got; ++k)
    if (const use& u = t.use_at(k); u.object == &o && u.instance == i) --users;
  return users > 0;
}

} // namespace

void coherence::save(object_state& o, std::size_t i, bool home_only, transfer_chain& begun) {
  instance& x = o.instances[i];
  // Memory that was lent may go when the last handle has gone and the tasks have ended, which know
  // nothing of this copy. No handle comes back: what is saved goes to memory of our own.
  if (o.adopted && !o.left_lent && o.handles.load(std::memory_order_acquire) == 0 && !o.leave_lent_memory())
    throw error(errc::out_of_memory,
                o.text() + " cannot go home to the memory that was lent, as no handle is left and a part of it is "
                           "only there, or in use",
                "keep a handle until its tasks have ended");
  if (x.cannot_save) std::rethrow_exception(x.cannot_save);
  const std::uint8_t keeper = home_only || x.home_only ? std::uint8_t{0} : keeper_near(x);
  if (keeper == 0 && !o.paged) o.host_memory();
  o.each(x.where, [&](fragment& f) {
    if (!only_in(f, i)) return;
    transfer* const away =
        new_transfer(o, f.where, static_cast<std::uint8_t>(i), keeper == 0 ? 0 : transfer::unsettled);
    if (keeper != 0) away->device = keeper;
    away->save = true;
    begun.push(away);
    ++x.saves;
    x.leaving = true;
    ++o.saving;
    client_.save_began();
  });
}

bool coherence::has_quarter_free(std::uint8_t d, std::size_t beside) const noexcept {
  const device_queue& q = *devices_.queue(d);
  const auto held = static_cast<std::size_t>(std::max<std::int64_t>(q.bytes_held(), 0));
  return held + beside <= q.of().memory_limit() / 4 * 3;
}

std::uint8_t coherence::keeper_near(const instance& x) const noexcept {
  const device& from = devices_.queue(x.space)->of();
  for (std::size_t d = 1; d < devices_.count(); ++d)
    if (d != x.space && !devices_.info(d).shares_host_memory && devices_.queue(d)->of().is_near(from) &&
        has_quarter_free(static_cast<std::uint8_t>(d), x.bytes))
      return static_cast<std::uint8_t>(d);
  return 0;
}

bool coherence::settle(transfer* x, bool lost) noexcept {
  object_state& o = *x->object;
  std::exception_ptr failed;
  {
    const std::lock_guard hold(o.lock);
    std::size_t to = 0;
    try {
      if (!lost && has_quarter_free(x->device, static_cast<std::size_t>(x->part.size()) * o.element))
        to = add_instance(o, x->part, x->device);
    } catch (...) { // the device is lost
    }
    if (to == 0) {
      try {
        if (!o.instances[x->from].exists)
          throw error(errc::device_lost,
                      "a copy of " + o.text(x->part) + " would have come from a device that was lost");
        if (!o.paged) o.host_memory();
        x->device = o.instances[x->from].space;
      } catch (...) {
        failed = std::current_exception();
      }
    }
    x->to = static_cast<std::uint8_t>(to); // the host's, also if that fails
    ++o.instances[to].users;
    if (to != 0) return true;
  }
  if (failed)
    transfer_done(x, failed);
  else
    start(x);
  return false;
}

std::size_t coherence::bytes_lacking(task_record& t, std::size_t got, std::uint8_t d) {
  std::size_t bytes = 0;
  for (std::size_t i = got; i < t.use_count; ++i) {
    const use& u = t.use_at(i);
    bool there = false;
    for (std::size_t k = 0; k < i; ++k) there = there || (t.use_at(k).object == u.object && t.use_at(k).part == u.part);
    if (there && i != got) continue;
    {
      const std::lock_guard hold(u.object->lock);
      there = std::any_of(u.object->instances.begin() + 1, u.object->instances.end(),
                          [&](const instance& x) { return x.exists && x.space == d && x.where.contains(u.part); });
    }
    if (there && i != got) continue; // the first one lacks, whatever is there
    bytes += static_cast<std::size_t>(u.part.size()) * u.object->element;
  }
  return bytes;
}

// Whether a task uses what is in the way is seen in the look that finds it there: an instant later
// its copy may have ended, and then memory is free.
coherence::eviction coherence::make_room(std::uint8_t d, task_record* t, std::size_t got, std::size_t bytes,
                                         std::size_t batch, std::size_t ahead) noexcept {
  eviction r;
  transfer_chain begun;
  const bool foreseen = upcoming_.complete();
  std::size_t seen = 0;             // bytes that have gone, or are saved, or can go at once
  std::optional<std::uint64_t> key; // of the last that has gone, or is saved: the rest of that does, too
  bool gone = false;                // it has
  const auto rank = [&](object_state& o, std::size_t i) {
    const instance& x = o.instances[i];
    if (upcoming_.on())
      if (const auto next = upcoming_.next(o, x.where, d))
        return eviction_rank::of_next(*next, x.leaving && !holds_alone(o, i));
    if (foreseen || x.unwanted) return eviction_rank::of_idle(!holds_alone(o, i), x.unwanted ? 0 : x.last_used);
    return eviction_rank::of_unknown(x.last_used);
  };
  const bool skipped = devices_.queue(d)->each_held(rank, [&](object_state& o, std::size_t i) {
    instance& x = o.instances[i];
    const std::size_t size = x.bytes;
    const std::optional<std::uint64_t> its_key = x.keyed ? std::optional(x.key) : std::nullopt;
    const bool goes_too = its_key && its_key == key;
    if (seen >= ahead && !goes_too) return false;
    if (t) r.in_use = r.in_use || x.saves > 0 || wanted_by_others(o, i, *t, got);
    if (x.pinned > 0 || x.users > x.saves) return true;
    if (x.saves == 0) {
      if (!holds_alone(o, i)) {
        if (seen < batch || (goes_too && gone)) {
          forget(o, i);
          key = its_key;
          gone = true;
          r.made = true;
        }
      } else {
        try {
          save(o, i, false, begun);
          gone = goes_too && gone;
          key = its_key;
          r.made = true;
        } catch (...) { // then it stays where it is
          if (seen < bytes) r.why = std::current_exception();
          return true;
        }
      }
    }
    seen += size;
    return seen < ahead || its_key;
  });
  r.made = r.made || (skipped && t);
  begun.take_each([this](transfer* x) { start(x); });
  return r;
}

coherence::eviction coherence::evict(std::uint8_t d, task_record& t, std::size_t got, std::size_t bytes,
                                     const memory_reserve& reserve) noexcept {
  foresee();
  const std::size_t limit = devices_.queue(d)->of().memory_limit(), batch = memory_reserve::batch(limit, bytes);
  return make_room(d, &t, got, bytes, batch, std::max(batch, reserve.mark(limit)));
}

void coherence::save_ahead(std::uint8_t d, const memory_reserve& reserve) noexcept {
  if (!upcoming_.on()) return;
  const std::size_t limit = devices_.queue(d)->of().memory_limit(),
                    used = static_cast<std::size_t>(std::max<std::int64_t>(devices_.queue(d)->bytes_held(), 0));
  if (reserve.is_low(limit, used)) make_room(d, nullptr, 0, 0, 0, used + reserve.mark(limit) - limit);
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
      if (const instance& x = o.instances[i]; !x.exists || x.users > 0 || x.pinned > 0) continue;
      try {
        if (holds_alone(o, i))
          save(o, i, true, begun); // elsewhere would be one more
        else
          forget(o, i);
        r.made = true;
        break;
      } catch (...) { // then it stays where it is
        r.why = std::current_exception();
      }
    }
  }
  begun.take_each([this](transfer* x) { start(x); });
  return r;
}

void coherence::let_go(object_state& o, const box& part) {
  transfer_chain begun;
  {
    const std::lock_guard hold(o.lock);
    if (o.paged && part == o.all) o.instances[0].unwanted = true;
    for (std::size_t i = 1; i < o.instances.size(); ++i) {
      instance& x = o.instances[i];
      if (!x.exists || !part.contains(x.where)) continue;
      x.unwanted = true;
      if (!upcoming_.on() || x.users > 0 || x.cannot_save || !holds_alone(o, i)) continue;
      try {
        save(o, i, true, begun);
      } catch (...) { // there is no hurry: it is said when a task lacks the memory
      }
    }
  }
  begun.take_each([this](transfer* x) { start(x); });
}

void coherence::on_device_lost(std::uint8_t d) noexcept {
  device_queue* const gone = devices_.queue(d);
  for (int tries = 0; gone->holds_any(); ++tries) { // objects that others look at just now come next time
    const auto any_order = [](const object_state&, std::size_t) { return eviction_rank(); };
    gone->each_held(any_order, [&](object_state& o, std::size_t i) {
      instance& x = o.instances[i];
      o.each(x.where, [&](fragment& f) {
        if (!(f.valid & bit(i))) return;
        if (f.valid == bit(i)) f.lost = true;
        o.set_valid(f, f.valid & ~bit(i));
      });
      gone->held_no_more(o, i);
      gone->free_later(x.memory, x.bytes);        // which counts it
      const int users = x.users, saves = x.saves; // they will drop it
      x = instance();
      x.users = users;
      x.saves = saves;
      --o.elsewhere;
      o.update_on_host();
      return true;
    });
    if (gone->holds_any()) spin_lock::back_off(tries);
  }
}

} // namespace tern::hetero::detail
