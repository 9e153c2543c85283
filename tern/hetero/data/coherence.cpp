// SPDX-License-Identifier: Apache-2.0
/// \file
/// Which copies are right, and how others become so: MSI for each fragment of an object.
///
/// A task that is about to run gets an instance for each of its uses in the memory of its device, and a transfer for
/// what is not valid there. While it runs, its instances stay; when it has ended, what it wrote is valid in its
/// instance alone. Only tasks that have nothing left to follow come here, so nobody else writes what they read.
#include <algorithm>
#include <array>
#include <exception>
#include <memory_resource>
#include <mutex>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/hetero/device/device_worker.hpp>
#include <tern/hetero/graph/runtime.hpp>

namespace tern::hetero::detail {

std::exception_ptr nothing_there(const task_record& t, const object_state& o, const box& part, bool lost) {
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

// Instances -----------------------------------------------------------------------------------------------------------

bool runtime::find_instance(object_state& o, use& u, std::uint8_t space) {
  if (space == 0) {
    o.host_memory();
    ++o.instances[0].users;
    u.instance = 0;
    u.pitch = static_cast<std::int32_t>(o.host_layout.pitch / o.element);
    return true;
  }
  std::size_t best = 0;
  std::uint64_t valid = ~std::uint64_t{0};
  o.each(u.part, [&](fragment& f) { valid &= f.valid; });
  for (std::size_t i = 1; i < o.instances.size(); ++i) {
    const instance& x = o.instances[i];
    if (!x.exists || x.space != space || !x.where.contains(u.part)) continue;
    if (x.how.offset(x.where, u.part) % worker_of(space)->of().alignment() != 0) continue; // one of its own, then
    if (best == 0 || (valid & bit(i)) > (valid & bit(best)) ||
        (!(valid & bit(best)) && x.bytes < o.instances[best].bytes))
      best = i;
  }
  if (best == 0) {
    best = 1;
    while (best < o.instances.size() && (o.instances[best].exists || o.instances[best].users > 0)) ++best;
    if (best == instances_most) { // very many views
      worker_of(space)->set_over_limit(o);
      return false;
    }
    if (best == o.instances.size()) o.instances.emplace_back();
    instance fresh;
    fresh.where = u.whole ? o.all : u.part;
    fresh.how = layout::packed(fresh.where, o.element);
    fresh.bytes = static_cast<std::size_t>(fresh.where.size()) * o.element;
    fresh.space = space;
    fresh.memory = worker_of(space)->allocate(fresh.bytes);
    if (!fresh.memory) return false;
    fresh.exists = true;
    o.instances[best] = fresh;
    ++o.elsewhere;
    o.update_on_host();
    worker_of(space)->holds(o, best);
  }
  instance& x = o.instances[best];
  ++x.users;
  x.last_used = tick();
  u.instance = static_cast<std::uint8_t>(best);
  u.pitch = static_cast<std::int32_t>(x.how.pitch / o.element);
  return true;
}

void runtime::drop_use(use& u) noexcept {
  const std::lock_guard hold(u.object->lock);
  --u.object->instances[u.instance].users;
}

void runtime::forget(object_state& o, std::size_t i) noexcept {
  instance& x = o.instances[i];
  device_worker* const d = worker_of(x.space);
  o.each(x.where, [&](fragment& f) {
    if (f.valid & bit(i)) o.set_valid(f, f.valid & ~bit(i));
  });
  if (x.memory)
    d->free_later(x.memory, x.bytes); // before it is out of the list: who looks for room sees one of the two
  d->held_no_more(o, i);
  x = instance();
  --o.elsewhere;
  o.update_on_host();
}

// Bringing data -------------------------------------------------------------------------------------------------------

namespace {

struct missing_piece {
  fragment* of;
  std::uint8_t from;
};

/// \param needs what it brings: fails if that does; else it must only not be under way any more. \pre the caller holds
/// one of the task's `pending`.
void await(task_record* t, transfer* x, bool needs) {
  for (transfer::waiter& w : x->tasks)
    if (w.task == t) {
      w.needs = w.needs || needs;
      return;
    }
  t->pending.fetch_add(1, std::memory_order_relaxed);
  x->tasks.push_back({t, needs});
}

transfer* coming_to(const fragment& f, std::uint8_t to) noexcept {
  for (transfer* x : f.coming)
    if (x->to == to) return x;
  return nullptr;
}

} // namespace

transfer* runtime::make_transfer() {
  {
    const std::lock_guard hold(transfers_lock_);
    if (transfer* const x = free_transfers_) {
      free_transfers_ = std::exchange(x->next, nullptr);
      return x;
    }
  }
  auto fresh = std::make_unique<transfer>();
  transfer* const x = fresh.get();
  const std::lock_guard hold(transfers_lock_);
  transfers_.push_back(std::move(fresh));
  return x;
}

// As a new one, but its lists keep their room.
void runtime::unmake(transfer* x) noexcept {
  x->tasks.clear();
  x->after.clear();
  x->staged = {};
  x->object = nullptr;
  x->from = x->to = x->device = 0;
  x->waits = 0;
  x->save = false;
  x->running = 0;
  x->out_of = nullptr;
  x->outside = nullptr;
  x->unpack = nullptr;
  x->unpack_to = nullptr;
  const std::lock_guard hold(transfers_lock_);
  x->next = free_transfers_;
  free_transfers_ = x;
}

std::size_t runtime::transfers_made() noexcept {
  const std::lock_guard hold(transfers_lock_);
  return transfers_.size();
}

// Under the object's lock.
transfer* runtime::new_transfer(object_state& o, const box& part, std::uint8_t from, std::uint8_t to) {
  transfer* const x = make_transfer();
  x->object = &o;
  x->part = part;
  x->from = from;
  x->to = to;
  x->device = to != 0 ? o.instances[to].space : o.instances[from].space;
  ++o.instances[from].users;
  ++o.instances[to].users;
  o.each(part, [&](fragment& f) { f.coming.push_back(x); });
  return x;
}

bool runtime::fetch(task_record* t, object_state& o, use& u, transfer_chain& begun) {
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
    // In the same memory, or where it can be got straight from; else the host's, unless only others are right.
    std::uint8_t from = 0;
    int best = f.valid & 1 ? 1 : 0;
    for (std::size_t i = 1; i < o.instances.size(); ++i) {
      if (!(f.valid & bit(i))) continue;
      const std::uint8_t source = o.instances[i].space, target = o.instances[to].space;
      const int good = source == target ? 3 : target != 0 && worker_of(target)->reaches(*worker_of(source)) ? 2 : 0;
      if (good > best || (good == best && from == 0 && best == 0)) {
        from = static_cast<std::uint8_t>(i);
        best = good;
      }
    }
    missing.push_back({&f, from});
    total += f.where.size();
  });
  if (!there) {
    fail(t, nothing_there(*t, o, u.part, lost));
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
        worker_of(to_space)->reaches(*worker_of(from_space))) {
      transfer* const x = new_transfer(o, part, m.from, to);
      await(t, x, true);
      begun.push(x);
    } else { // through the host
      o.host_memory();
      transfer* first = coming_to(*m.of, 0);
      if (!first) {
        first = new_transfer(o, part, m.from, 0);
        begun.push(first);
      }
      transfer* const second = new_transfer(o, part, 0, to);
      second->waits = 1;
      first->after.push_back(second);
      await(t, second, true);
    }
    if (together) break;
  }
  return true;
}

runtime::acquired runtime::acquire(task_record* t, std::uint8_t d) noexcept {
  const std::uint8_t space = space_of(d);
  std::size_t got = 0;
  try {
    for (; got < t->use_count; ++got) {
      use& u = t->use_at(got);
      const std::lock_guard hold(u.object->lock);
      if (!find_instance(*u.object, u, space)) break;
    }
    if (got < t->use_count) {
      worker_of(d)->evict_for(*t, got); // while what it has got stays
      while (got-- > 0) drop_use(t->use_at(got));
      return acquired::no_memory;
    }
  } catch (...) { // the device is lost, or the host has no memory
    while (got-- > 0) drop_use(t->use_at(got));
    t->flags &= static_cast<std::uint16_t>(~task_record::acquired);
    if (const device_worker* const at = worker_of(d); at && at->has_found_loss()) return acquired::lost;
    fail(t, std::current_exception());
    return acquired::failed;
  }
  transfer_chain begun;
  // Who writes waits for all that is on its way from there or to there: copies that make room have no order. From now
  // on nobody saves what it writes elsewhere: but what it reads as well must be on its way here by then, or be lost.
  for (std::size_t i = 0; i < t->use_count && !t->has_failed(); ++i) {
    use& u = t->use_at(i);
    const std::lock_guard hold(u.object->lock);
    try {
      if (writes(u.how))
        u.object->each(u.part, [&](fragment& f) {
          for (transfer* x : f.coming) await(t, x, false);
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
  begun.take_each([this](transfer* x) { start(x); });
  return t->has_failed() ? acquired::failed : acquired::ready;
}

void runtime::start(transfer* x) noexcept { worker_of(x->device)->arrive(x); }

copy_request runtime::describe(const transfer& x) {
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
    if (c.way == direction::between) c.source = &worker_of(from.space)->of();
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

void runtime::transfer_done(transfer* x, std::exception_ptr failed) noexcept {
  object_state& o = *x->object;
  if (x->out_of) {
    {
      const std::lock_guard hold(o.lock);
      --o.instances[x->from].users;
    }
    copied_out(x->out_of, failed);
    unmake(x);
    return;
  }
  transfer_chain next;
  bool last = false; // nobody else has the object
  std::unique_ptr<promise<void>> saved;
  {
    const std::lock_guard hold(o.lock);
    o.each(x->part, [&](fragment& f) {
      std::erase(f.coming, x);
      if (!failed && o.instances[x->to].exists) o.set_valid(f, f.valid | bit(x->to));
    });
    --o.instances[x->from].users;
    --o.instances[x->to].users;
    if (o.instances[x->to].exists) o.instances[x->to].last_used = tick();
    if (x->save && failed) o.instances[x->from].cannot_save = failed; // else it would be tried for ever
    for (transfer* y : x->after)
      if (--y->waits == 0) next.push(y);
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
  for (const transfer::waiter& w : x->tasks) {
    if (failed && w.needs) fail(w.task, failed);
    release_dependency(w.task);
  }
  if (x->save) count_completed();
  if (saved) saved->set_value();
  unmake(x);
  if (last) destroy(&o);
}

void runtime::release_uses(task_record* t) noexcept {
  const bool wrote = !t->has_failed();
  for (std::size_t i = 0; i < t->use_count; ++i) {
    use& u = t->use_at(i);
    object_state& o = *u.object;
    const std::lock_guard hold(o.lock);
    instance& x = o.instances[u.instance];
    --x.users;
    x.last_used = tick();
    if (u.writing) o.each(u.part, [](fragment& f) { --f.writing; });
    u.writing = false;
    if (t->flags & task_record::pins && wrote) x.pinned = 1;
    if (!wrote || !writes(u.how)) continue;
    o.each(u.part, [&](fragment& f) {
      o.set_valid(f, x.exists ? bit(u.instance) : 0);
      f.lost = !x.exists; // its device went meanwhile
    });
    x.cannot_save = nullptr; // perhaps what is there now can be
    o.update_on_host();
  }
}

std::int64_t runtime::bytes_missing(task_record* t, std::uint8_t d) {
  const std::uint8_t space = space_of(d);
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < t->use_count; ++i) {
    const use& u = t->use_at(i);
    if (!reads(u.how)) continue;
    object_state& o = *u.object;
    const std::lock_guard hold(o.lock);
    std::uint64_t here = space == 0 ? 1 : 0;
    for (std::size_t k = 1; k < o.instances.size(); ++k)
      if (o.instances[k].exists && o.instances[k].space == space) here |= bit(k);
    o.each(u.part, [&](fragment& f) {
      if (!(f.valid & here)) bytes += f.where.common(u.part).size() * static_cast<std::int64_t>(o.element);
    });
  }
  return bytes;
}

// The end of an object ------------------------------------------------------------------------------------------------

namespace {
constexpr work_type last_task{kinds_of(device_kind::host),
                              [](task_record& t) {
                                object_state* const gone = t.use_at(0).object;
                                gone->home.destroy(gone);
                              },
                              nullptr, nullptr,
                              [](const task_record&) noexcept -> const char* { return "end of an object"; }};
} // namespace

void runtime::abandon(object_state* o) noexcept {
  bool used = false;
  {
    const std::lock_guard hold(o->lock);
    o->each(o->all, [&](fragment& f) {
      const auto left = [](const task_list& l) {
        return std::any_of(l.begin(), l.end(), [](const task_record* t) { return !t->is_done(); });
      };
      used = used || left(f.writers) || left(f.readers);
    });
  }
  if (!used) return destroy(o);
  if (ended_.load(std::memory_order_acquire)) return; // what uses it will not run any more; it goes with the program
  task_record* const t = allocate();
  t->work = &last_task;
  t->flags = task_record::hidden | task_record::order_only;
  add_use(t) = {o, o->all, access_mode::write, 0, true, true, false, 0, nullptr};
  submit(t);
}

// If nobody is told, no closure goes either, as it may own a promise: that is left to the program's end.
void runtime::end_without_running(task_record* t, bool tells) noexcept {
  add_reference(); // the last object may go
  for (t->next = nullptr; t;) {
    task_record* rest = std::exchange(t->next, nullptr);
    if (t->work == &last_task) {
      t->work->run(*t);
    } else {
      std::uint8_t expected = task_record::waiting;
      if (t->state.compare_exchange_strong(expected, task_record::begun, std::memory_order_acq_rel))
        fail(t, std::make_exception_ptr(error(errc::invalid_state, std::string("task '") + t->text_name() +
                                                                       "' was not run, as its scheduler has ended")));
      else
        wait_until_failure_set(*t); // it has been cancelled
      if (tells) destroy_work(t);
    }
    if (t->flags & task_record::acquired) release_uses(t);
    t->state.store(task_record::done, std::memory_order_release);
    // address: of links, as `follow` has put them there
    auto* l = reinterpret_cast<const link*>(t->successors.exchange(closed_list, std::memory_order_acq_rel));
    while (l) {
      const std::uintptr_t kind = l->target & edge_bits;
      // address: of what the link was made for
      void* const target = reinterpret_cast<void*>(l->target & ~edge_bits);
      l = l->next; // the link goes with its task
      if (kind == hook_edge) {
        auto* const h = static_cast<completion_hook*>(target);
        if (tells) h->fire(*h, *t);
        continue;
      }
      auto* const to = static_cast<task_record*>(target);
      if (to->pending.fetch_sub(1, std::memory_order_acq_rel) == 1) to->next = std::exchange(rest, to);
    }
    unreference(t);
    t = rest;
  }
  release();
}

void runtime::destroy(object_state* o) noexcept {
  {
    const std::lock_guard hold(o->lock);
    for (const instance& x : o->instances) o->orphan = o->orphan || x.users > 0;
    if (o->orphan) return; // something that makes room on a device is under way, and comes back here
    for (std::size_t i = 1; i < o->instances.size(); ++i)
      if (o->instances[i].exists) forget(*o, i);
  }
  delete o;
}

} // namespace tern::hetero::detail
