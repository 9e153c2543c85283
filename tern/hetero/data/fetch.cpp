// SPDX-License-Identifier: Apache-2.0
/// \file
/// Transfers bring to an instance what is not valid there, and what a task has written becomes
/// valid.
#include <algorithm>
#include <array>
#include <bit>
#include <exception>
#include <memory_resource>
#include <mutex>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/hetero/data/coherence.hpp>
#include <tern/hetero/record/failure.hpp>

namespace tern::hetero::detail {

std::exception_ptr not_written_error(const task_record& t, const object_state& o, const box& part, bool lost) {
  if (lost)
    return std::make_exception_ptr(error(errc::device_lost,
                                         std::string("task '") + t.text_name() + "' reads " + o.text(part) +
                                             ", of which the only valid copy was lost with its device",
                                         "write it anew, or keep what matters on the host as well"));
  return std::make_exception_ptr(
      error(errc::invalid_state,
            std::string("task '") + t.text_name() + "' reads " + o.text(part) + ", which nothing has written yet",
            "write it first, or give the object a value when it is made"));
}

namespace {

struct missing_piece {
  fragment* of;
  std::uint8_t from;
};

transfer* coming_to(const fragment& f, std::uint8_t to) noexcept {
  for (transfer* x : f.coming)
    if (x->to == to) return x;
  return nullptr;
}

} // namespace

void coherence::await(task_record* t, transfer* x, bool needs) {
  for (transfer::waiter& w : x->tasks)
    if (w.task == t) {
      w.needs = w.needs || needs;
      return;
    }
  t->pending.fetch_add(1, std::memory_order_relaxed);
  x->tasks.push_back({t, needs});
}

// Under the object's lock.
transfer* coherence::new_transfer(object_state& o, const box& part, std::uint8_t from, std::uint8_t to) {
  transfer* const x = transfers_.make();
  x->object = &o;
  x->part = part;
  x->from = from;
  x->to = to;
  ++o.instances[from].users;
  if (to != transfer::unsettled) {
    x->device = to != 0 ? o.instances[to].space : o.instances[from].space;
    ++o.instances[to].users;
  }
  o.each(part, [&](fragment& f) { f.coming.push_back(x); });
  return x;
}

bool coherence::fetch(task_record* t, object_state& o, use& u, transfer_chain& begun) {
  const std::uint8_t to = u.instance;
  // A few in place: most uses are of one fragment.
  std::array<std::byte, 32 * sizeof(missing_piece)> place;
  std::pmr::monotonic_buffer_resource few(place.data(), place.size());
  std::pmr::vector<missing_piece> missing(&few);
  std::int64_t total = 0;
  bool there = true, lost = false;
  o.each(u.part, [&](fragment& f) {
    if (f.valid & bit(to)) return;
    if (transfer* const x = coming_to(f, to)) {
      await(t, x, true);
      return;
    }
    there = there && f.valid != 0;
    lost = lost || f.lost;
    if (f.valid == 0) return;
    // In the same memory, or where it can be got straight from; else the host's, unless only others
    // are right.
    std::uint8_t from = 0;
    int best = f.valid & 1 ? 1 : 0;
    for (std::size_t i = 1; i < o.instances.size(); ++i) {
      if (!(f.valid & bit(i))) continue;
      const std::uint8_t source = o.instances[i].space, target = o.instances[to].space;
      const int good = source == target                                                          ? 3
                       : target != 0 && devices_.queue(target)->reaches(*devices_.queue(source)) ? 2
                                                                                                 : 0;
      if (good > best || (good == best && from == 0 && best == 0)) {
        from = static_cast<std::uint8_t>(i);
        best = good;
      }
    }
    missing.push_back({&f, from});
    total += f.where.size();
  });
  if (!there) {
    fail(t, not_written_error(*t, o, u.part, lost));
    return false;
  }
  if (missing.empty()) return true;
  // One copy instead of many, if all of it comes from the same place.
  const bool same = std::all_of(missing.begin(), missing.end(), [&](const missing_piece& m) {
    return m.from == missing.front().from && coming_to(*m.of, 0) == nullptr;
  });
  const bool together = missing.size() > 1 && same && total == u.part.size();
  for (const missing_piece& m : missing) {
    const box part = together ? u.part : m.of->where;
    const std::uint8_t from_space = o.instances[m.from].space, to_space = o.instances[to].space;
    if (from_space == to_space || from_space == 0 || to_space == 0 ||
        devices_.queue(to_space)->reaches(*devices_.queue(from_space))) {
      transfer* const x = new_transfer(o, part, m.from, to);
      await(t, x, true);
      begun.push(x);
    } else { // through the host
      if (!o.paged) o.host_memory();
      transfer* first = coming_to(*m.of, 0);
      if (!first) {
        first = new_transfer(o, part, m.from, 0);
        begun.push(first);
      }
      transfer* const second = new_transfer(o, part, 0, to);
      second->waits = 1;
      if (o.paged) ++o.paged->parked; // until the first has ended, which may have to wait for the block
      first->after.push_back(second);
      await(t, second, true);
    }
    if (together) break;
  }
  return true;
}

coherence::acquired coherence::acquire(task_record* t, std::uint8_t d) noexcept {
  const std::uint8_t space = devices_.space_of(d);
  std::size_t got = 0;
  bool in_memory = space != 0 || !paging_ || paging_->may_pass();
  try {
    for (; got < t->use_count; ++got) {
      use& u = t->use_at(got);
      const std::lock_guard hold(u.object->lock);
      if (!find_instance(*u.object, u, *t, space)) break;
      if (space == 0 && u.object->paged) in_memory = in_memory && holds_host_block(*t, u);
    }
    if (got < t->use_count) {
      devices_.queue(d)->evict_for(*t, got); // while what it has got stays
      while (got-- > 0) drop_use(t->use_at(got));
      return acquired::no_memory;
    }
  } catch (...) { // the device is lost, or the host has no memory
    while (got-- > 0) drop_use(t->use_at(got));
    t->flags &= static_cast<std::uint16_t>(~task_record::acquired);
    if (const device_queue* const at = devices_.queue(d); at && at->has_found_loss()) return acquired::lost;
    fail(t, std::current_exception());
    return acquired::failed;
  }
  if (!in_memory) {
    park(*t);
    return acquired::ready;
  }
  bring_data(t);
  return t->has_failed() ? acquired::failed : acquired::ready;
}

// \pre it has instances.
void coherence::bring_data(task_record* t) {
  transfer_chain begun;
  bring_data(t, begun);
  begun.take_each([this](transfer* x) { start(x); });
}

void coherence::bring_data(task_record* t, transfer_chain& begun) noexcept {
  // A task that writes waits for all that is on its way from there or to there: copies that free
  // memory have no order. From now on what it writes is not saved elsewhere: so what it reads as
  // well must be on its way here by then.
  for (std::size_t i = 0; i < t->use_count && !t->has_failed(); ++i) {
    use& u = t->use_at(i);
    const std::lock_guard hold(u.object->lock);
    try {
      if (writes(u.how))
        u.object->each(u.part, [&](fragment& f) {
          for (transfer* x : f.coming)
            if (!x->passed) await(t, x, false); // else the task that it was made for comes before this one
        });
      if (reads(u.how) && !fetch(t, *u.object, u, begun)) break;
    } catch (...) { // the host has no memory
      fail(t, std::current_exception());
      break;
    }
    if (!writes(u.how)) continue;
    u.writing = true;
    u.object->each(u.part, [](fragment& f) { ++f.writing; });
  }
}

copy_request coherence::describe(const transfer& x) {
  object_state& o = *x.object;
  const std::lock_guard hold(o.lock);
  const instance &from = o.instances[x.from], &to = o.instances[x.to];
  copy_request c;
  c.row_bytes = static_cast<std::size_t>(x.part.extent(2)) * o.element;
  c.rows = static_cast<std::size_t>(x.part.extent(1));
  c.slices = static_cast<std::size_t>(x.part.extent(0));
  const auto on_device = [&](const instance& i) {
    c.device = i.memory;
    c.offset = i.how.offset(i.where, x.part);
    c.pitch = i.how.pitch;
    c.slice = i.how.slice;
  };
  if (x.from != 0 && x.to != 0) {
    if (!from.exists) // and it is not the device of the transfer that has gone
      throw error(errc::device_failed, "a copy of " + o.text(x.part) + " would have come from a device that was lost");
    c.way = from.space == to.space ? direction::within : direction::between;
    if (c.way == direction::between) c.source = &devices_.queue(from.space)->of();
    on_device(to);
    c.from = from.memory;
    c.from_offset = from.how.offset(from.where, x.part);
    c.from_pitch = from.how.pitch;
    c.from_slice = from.how.slice;
    return c;
  }
  c.way = x.to != 0 ? direction::to_device : direction::from_device;
  on_device(x.to != 0 ? to : from);
  const box& of = x.out_of ? x.out_of->use_at(0).part : o.all;
  const layout how = x.out_of ? layout::packed(of, o.element) : o.host_layout;
  c.host = (x.out_of ? x.outside : o.host.load(std::memory_order_relaxed)) + how.offset(of, x.part);
  c.host_pitch = how.pitch;
  c.host_slice = how.slice;
  return c;
}

void coherence::transfer_done(transfer* x, std::exception_ptr failed) noexcept {
  object_state& o = *x->object;
  if (x->out_of) {
    {
      const std::lock_guard hold(o.lock);
      --o.instances[x->to != 0 ? x->to : x->from].users;
    }
    x->copied(x->out_of, failed);
    transfers_.free(x);
    return;
  }
  transfer_chain next;
  bool last = false;         // no other has the object
  std::uint64_t waiting = 0; // devices: for this one, with a copy behind it
  std::unique_ptr<promise<void>> saved;
  {
    const std::lock_guard hold(o.lock);
    o.each(x->part, [&](fragment& f) {
      const bool awaited = std::erase(f.coming, x) > 0; // else it has been overwritten since
      if (awaited && !failed && o.instances[x->to].exists) o.set_valid(f, f.valid | bit(x->to));
    });
    --o.instances[x->from].users;
    --o.instances[x->to].users;
    if (x->save) --o.instances[x->from].saves;
    if (o.instances[x->to].exists) o.instances[x->to].last_used = tick();
    if (x->save && failed) { // else it would be tried for ever
      if (x->to == 0)
        o.instances[x->from].cannot_save = failed;
      else
        o.instances[x->from].home_only = true;
    }
    for (transfer* y : x->after)
      if (--y->waits == 0) {
        next.push(y);
        if (o.paged) --o.paged->parked;
      }
    for (transfer* y : x->behind) {
      y->source = nullptr;
      y->source_failed = failed;
      waiting |= bit(y->device);
    }
    if (x->source) std::erase(x->source->behind, x);
    if (x->save && --o.saving == 0) saved = std::move(o.saved);
    o.update_on_host();
    if (o.orphan &&
        std::all_of(o.instances.begin(), o.instances.end(), [](const instance& i) { return i.users == 0; })) {
      o.orphan = false;
      last = true;
    }
  }
  next.take_each([&](transfer* y) {
    if (failed)
      transfer_done(y, failed);
    else
      start(y);
  });
  for (; waiting != 0; waiting &= waiting - 1)
    devices_.queue(static_cast<std::size_t>(std::countr_zero(waiting)))->look_again();
  for (const transfer::waiter& w : x->tasks) {
    if (failed && w.needs) fail(w.task, failed);
    client_.release_dependency(w.task);
  }
  if (paging_) paging_->look_again();
  if (x->save) client_.save_ended();
  if (saved) saved->set_value();
  transfers_.free(x);
  if (last) destroy(&o);
}

void coherence::release_uses(task_record* t) noexcept {
  const bool wrote = !t->has_failed();
  for (std::size_t i = 0; i < t->use_count; ++i) {
    use& u = t->use_at(i);
    object_state& o = *u.object;
    const std::lock_guard hold(o.lock);
    instance& x = o.instances[u.instance];
    --x.users;
    x.last_used = tick();
    if (o.paged && u.instance == 0 && (t->flags & task_record::waits_release)) --o.paged->open;
    if (u.writing) o.each(u.part, [](fragment& f) { --f.writing; });
    u.writing = false;
    if (t->flags & task_record::pins && wrote) x.pinned = 1;
    if (!wrote || !writes(u.how) || (t->flags & task_record::given)) continue;
    o.each(u.part, [&](fragment& f) {
      o.set_valid(f, x.exists ? bit(u.instance) : 0);
      f.lost = !x.exists; // its device went meanwhile
    });
    x.cannot_save = nullptr; // perhaps what is there now can be
    o.update_on_host();
  }
  if (paging_) paging_->look_again();
}

template <class F> void coherence::look_for_missing(task_record* t, std::uint8_t d, F&& found) {
  const std::uint8_t space = devices_.space_of(d);
  for (std::size_t i = 0; i < t->use_count; ++i) {
    const use& u = t->use_at(i);
    if (!reads(u.how)) continue;
    object_state& o = *u.object;
    // acquire: as acquire_on_host
    if (space == 0 && o.on_host.load(std::memory_order_acquire)) continue;
    const std::lock_guard hold(o.lock);
    std::uint64_t here = space == 0 ? 1 : 0;
    for (std::size_t k = 1; k < o.instances.size(); ++k)
      if (o.instances[k].exists && o.instances[k].space == space) here |= bit(k);
    o.each(u.part, [&](fragment& f) {
      if (!(f.valid & here)) found(o, f, f.where.common(u.part));
    });
  }
}

std::int64_t coherence::bytes_missing(task_record* t, std::uint8_t d) {
  std::int64_t bytes = 0;
  look_for_missing(t, d, [&](const object_state& o, const fragment&, const box& part) {
    bytes += part.size() * static_cast<std::int64_t>(o.element);
  });
  return bytes;
}

void coherence::each_piece(task_record* t, const std::function<void(const data_piece&)>& f) {
  for (std::size_t i = 0; i < t->use_count; ++i) {
    const use& u = t->use_at(i);
    if (!reads(u.how)) continue;
    object_state& o = *u.object;
    const std::lock_guard hold(o.lock);
    o.each(u.part, [&](fragment& x) {
      const box part = x.where.common(u.part);
      constexpr std::uint64_t prime = 0x100000001b3; // as in FNV
      data_piece p{o.number, part.size() * static_cast<std::int64_t>(o.element), 0, 0};
      for (std::size_t k = 0; k < 3; ++k)
        p.number = (p.number * prime + static_cast<std::uint64_t>(part.low[k])) * prime +
                   static_cast<std::uint64_t>(part.high[k]);
      // Also if it is valid nowhere, it comes from the host.
      if (x.valid != 0) p.from = o.instances[static_cast<std::size_t>(std::countr_zero(x.valid))].space;
      for (std::uint64_t left = x.valid; left != 0; left &= left - 1)
        p.spaces |= bit(o.instances[static_cast<std::size_t>(std::countr_zero(left))].space);
      f(p);
    });
  }
}

void coherence::count_copy(direction way, std::size_t bytes) noexcept {
  if (way == direction::within) return;
  copied& c = copies_[static_cast<std::size_t>(way)];
  c.times.fetch_add(1, std::memory_order_relaxed);
  c.bytes.fetch_add(bytes, std::memory_order_relaxed);
}

void coherence::add_to(statistics& s) const noexcept {
  const auto tell = [&](direction way, std::uint64_t& times, std::uint64_t& bytes) {
    times = copies_[static_cast<std::size_t>(way)].times.load(std::memory_order_relaxed);
    bytes = copies_[static_cast<std::size_t>(way)].bytes.load(std::memory_order_relaxed);
  };
  tell(direction::to_device, s.copies_to_devices, s.bytes_to_devices);
  tell(direction::from_device, s.copies_from_devices, s.bytes_from_devices);
  tell(direction::between, s.copies_between_devices, s.bytes_between_devices);
  s.copied_behind = behind_.load(std::memory_order_relaxed);
}

} // namespace tern::hetero::detail
