// SPDX-License-Identifier: Apache-2.0
/// \file
/// What waits for the host's memory, and when it gets it.
#include <tern/hetero/paging/host_pager.hpp>

#include <algorithm>
#include <mutex>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/hetero/record/failure.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/fiber/causal_context.hpp>
#include <tern/task/scheduler.hpp>

namespace tern::hetero::detail {

namespace {

constexpr std::size_t most_coming = 8; // requests for which blocks are being read: the disk is busy with fewer
constexpr int most_passed = 64;        // that hold what an older request may need to go

std::string bytes_text(std::size_t n) { return std::to_string(n) + (n == 1 ? " byte" : " bytes"); }

} // namespace

host_pager::host_pager(coherence& copies, tern::detail::scheduler_core& core, const settings& s)
    : copies_(copies), core_(core), limit_(s.limit), simulated_(s.disk.inline_io), store_(s.disk, s.owner) {
  if (!simulated_) store_.open(); // what cannot be is said at once
}

host_pager::~host_pager() { drop_spare_memory(); }

// Any thread ----------------------------------------------------------------------------------------------------------

void host_pager::changes(object_state& o) noexcept {
  if (std::exchange(o.paged->has_copy, false)) store_.drop(o.paged->copy);
}

bool host_pager::may_pass() noexcept {
  if (waiting_.load(std::memory_order_relaxed) == 0) return true;
  return passed_.fetch_add(1, std::memory_order_relaxed) < most_passed;
}

void host_pager::push(requests&& one) noexcept {
  {
    const std::lock_guard hold(guard_);
    requests& to = one.front().copy ? copies_waiting_ : queue_;
    one.front().number = arrived_++;
    to.splice(to.end(), one);
    waiting_.store(queue_.size() + copies_waiting_.size(), std::memory_order_relaxed);
  }
  wake();
}

template <class T> void host_pager::enter(T* request::*as, T* what) noexcept {
  try {
    requests one(1);
    one.front().*as = what;
    push(std::move(one));
  } catch (const std::bad_alloc&) {
    request r;
    r.*as = what;
    refuse(r);
  }
}

void host_pager::arrive(task_record* t) noexcept { enter(&request::task, t); }
void host_pager::arrive(transfer* x) noexcept { enter(&request::copy, x); }

std::exception_ptr host_pager::no_memory(const request& r) const noexcept {
  try {
    const std::string what = r.task   ? std::string("task '") + r.task->text_name() + "'"
                             : r.copy ? "a copy of " + r.copy->object->text()
                                      : "an access to " + r.held->text();
    return std::make_exception_ptr(error(errc::out_of_memory,
                                         what + " cannot wait for the host's memory: the heap has none for that",
                                         "lower --tern-hetero-host-memory, or submit fewer tasks at a time"));
  } catch (const std::bad_alloc&) {
    return std::current_exception();
  }
}

void host_pager::refuse(request& r) noexcept {
  r.failed = no_memory(r);
  reserve(r); // which brings nothing
  finish(r);
}

bool host_pager::must_not_wait() const noexcept { return !scheduler::in_fiber() || copies_.client().must_not_wait(); }

std::byte* host_pager::hold(object_state& o) {
  host_block& b = *o.paged;
  const bool at_once = must_not_wait();
  {
    const std::lock_guard hold(o.lock);
    ++o.instances[0].users;
    const bool has_place = has_room(o.instances[0].bytes) && waiting_.load(std::memory_order_relaxed) == 0;
    if ((at_once || has_place) && b.at == host_block::absent && !b.has_copy) {
      try {
        std::vector<loading> none;
        bring(o, request(), none);
      } catch (...) {
        --o.instances[0].users;
        throw;
      }
    }
    if (b.at == host_block::here && (at_once || may_pass())) return o.host.load(std::memory_order_relaxed);
    ++b.parked;
  }
  future<void> done;
  try {
    requests one(1);
    one.front().held = &o;
    done = one.front().done.emplace().get_future();
    push(std::move(one));
  } catch (const std::bad_alloc&) {
    request r;
    r.held = &o;
    r.failed = no_memory(r);
    reserve(r);
    let_go(o);
    std::rethrow_exception(r.failed);
  }
  try {
    done.get();
  } catch (...) {
    let_go(o);
    throw;
  }
  return o.host.load(std::memory_order_relaxed);
}

void host_pager::let_go(object_state& o) noexcept {
  {
    const std::lock_guard hold(o.lock);
    --o.instances[0].users;
    o.instances[0].last_used = copies_.tick();
  }
  look_again();
}

void host_pager::forget(object_state& o) noexcept {
  changes(o);
  if (o.paged->at != host_block::here) return;
  give_memory(o.host.exchange(nullptr, std::memory_order_relaxed), o.instances[0].bytes);
  resident_.remove(o, 0);
  o.paged->at = host_block::absent;
  if (waiting_.load(std::memory_order_relaxed) > 0) wake();
}

void host_pager::wake() noexcept {
  bool start = false, wake = false;
  {
    const std::lock_guard hold(guard_);
    news_ = true;
    start = !std::exchange(active_, true);
    wake = std::exchange(sleeps_, false);
  }
  if (wake) wakeup_.release();
  if (!start) return;
  const tern::detail::causal_scope no_cause(nullptr); // it works for all
  core_.owner->spawn([this] { work(); }, {.name = "host memory"});
}

void host_pager::add_to(statistics& s) const noexcept {
  s.host_limit = static_cast<std::int64_t>(limit_);
  s.host_bytes = held_.load(std::memory_order_relaxed);
  s.disk_bytes = static_cast<std::int64_t>(store_.bytes());
  s.copies_to_disk = saved_.times.load(std::memory_order_relaxed);
  s.bytes_to_disk = saved_.bytes.load(std::memory_order_relaxed);
  s.copies_from_disk = loaded_.times.load(std::memory_order_relaxed);
  s.bytes_from_disk = loaded_.bytes.load(std::memory_order_relaxed);
}

std::string host_pager::describe() const {
  const std::size_t waiting = waiting_.load(std::memory_order_relaxed);
  if (waiting == 0) return {};
  return std::to_string(waiting) + (waiting == 1 ? " waits" : " wait") + " for the host's memory, where objects take " +
         bytes_text(static_cast<std::size_t>(held_.load(std::memory_order_relaxed))) + " of " + bytes_text(limit_) +
         "\n";
}

// Its fiber -----------------------------------------------------------------------------------------------------------

void host_pager::work() noexcept {
  bool impatient = false;
  for (;;) {
    {
      const std::lock_guard hold(guard_);
      news_ = false;
    }
    look_soon_ = false;
    serve(impatient);
    impatient = false;
    if (look_soon_) { // nothing says when an object's lock is free: that is a moment
      this_fiber::yield();
      continue;
    }
    {
      const std::lock_guard hold(guard_);
      if (news_) continue;
      if (queue_.empty() && copies_waiting_.empty() && coming_.empty()) {
        active_ = false;
        return;
      }
      sleeps_ = true;
    }
    if (wakeup_.try_acquire_for(patience)) continue;
    bool woken = false;
    {
      const std::lock_guard hold(guard_);
      woken = !std::exchange(sleeps_, false);
    }
    if (woken)
      wakeup_.acquire();
    else
      impatient = true;
  }
}

template <class F> void host_pager::each_object(const request& r, F&& f) {
  if (r.copy) {
    if (r.copy->object->paged) f(*r.copy->object);
  } else if (r.held) {
    f(*r.held);
  } else if (task_record* const t = r.task) {
    for (std::size_t i = 0; i < t->use_count; ++i) {
      object_state& o = *t->use_at(i).object;
      bool before = !o.paged;
      for (std::size_t k = 0; k < i && !before; ++k) before = t->use_at(k).object == &o;
      if (!before) f(o);
    }
  }
}

host_pager::amounts host_pager::amounts_of(const request& r) noexcept {
  amounts a;
  each_object(r, [&](object_state& o) {
    const std::lock_guard hold(o.lock);
    a.all += o.instances[0].bytes;
    if (o.paged->at == host_block::absent) a.lacking += o.instances[0].bytes;
  });
  return a;
}

std::exception_ptr host_pager::too_large(const request& r, std::size_t bytes) const {
  std::size_t objects = 0;
  std::string name;
  each_object(r, [&](object_state& o) {
    ++objects;
    name = o.text();
  });
  const std::string what = r.task ? std::string("task '") + r.task->text_name() + "' uses " : std::string();
  return std::make_exception_ptr(error(errc::out_of_memory,
                                       what + (objects == 1 ? name : std::to_string(objects) + " objects") +
                                           (r.task ? " with " : " has ") + bytes_text(bytes) +
                                           ", but objects may take " + bytes_text(limit_) + " of the host's memory",
                                       "raise --tern-hetero-host-memory, or use smaller objects: each goes to disk and "
                                       "comes back as a whole"));
}

void host_pager::serve(bool impatient) noexcept {
  finish_those_here();
  bool waits = false;
  while (!waits && coming_.size() < most_coming) {
    const auto at = first();
    if (!at) break;
    request* const r = &**at;
    const amounts a = amounts_of(*r);
    if (a.all > limit_) {
      r->failed = too_large(*r, a.all);
    } else if (a.lacking > 0 && !has_room(a.lacking)) {
      const bool asleep = awaits_disk_ == io_ended_.load(std::memory_order_acquire);
      const bool later = asleep || make_room(a.lacking) || !coming_.empty();
      waits = !has_room(a.lacking) && later && !impatient;
      if (waits) break;
      impatient = false; // one
    }
    take(*at);
    passed_.store(0, std::memory_order_relaxed);
    awaits_disk_ = 0; // that was for this one
    reserve(coming_.back());
    finish_those_here();
  }
  pass_copies();
  if (!waits && over_limit()) make_room(0);
}

std::optional<host_pager::requests::iterator> host_pager::first() noexcept {
  const std::lock_guard hold(guard_);
  if (queue_.empty() && copies_waiting_.empty()) return std::nullopt;
  if (copies_waiting_.empty() || (!queue_.empty() && queue_.front().number < copies_waiting_.front().number))
    return queue_.begin();
  return copies_waiting_.begin();
}

// It is among those that come then.
host_pager::request& host_pager::take(requests::iterator r) noexcept {
  const std::lock_guard hold(guard_);
  coming_.splice(coming_.end(), r->copy ? copies_waiting_ : queue_, r);
  waiting_.store(queue_.size() + copies_waiting_.size(), std::memory_order_relaxed);
  return *r;
}

// A task that writes waits for transfers of what it writes, and holds it: so these go as soon as
// their block is there, whatever waits before them. (Only this fiber takes any out.)
void host_pager::pass_copies() noexcept {
  requests::iterator at, end;
  const auto next = [&](bool from_begin) {
    const std::lock_guard hold(guard_);
    if (from_begin) {
      at = copies_waiting_.begin();
      end = copies_waiting_.end(); // which stays the end
    } else {
      ++at;
    }
    return at != end;
  };
  for (bool any = next(true); any;) {
    const requests::iterator one = at;
    any = next(false);
    {
      const std::lock_guard hold(one->copy->object->lock);
      if (one->copy->object->paged->at != host_block::here) continue;
    }
    reserve(take(one)); // only this fiber lets blocks go: it is still there
  }
  finish_those_here();
}

namespace {

/// Is what the fragment holds needed, though the request's user may write it?
bool is_overwritten(const fragment& f, task_record* t, const transfer* x, const object_state& o) noexcept {
  if (x) return x->to == 0 && x->part.contains(f.where);
  if (!t) return false;
  bool written = false, read = false;
  for (std::size_t i = 0; i < t->use_count; ++i) {
    const use& u = t->use_at(i);
    if (u.object != &o) continue;
    written = written || (!reads(u.how) && u.part.contains(f.where));
    read = read || (reads(u.how) && u.part.meets(f.where));
  }
  return written && !read;
}

} // namespace

// Under the object's lock: memory for a block that has none, which is read if anything of it is
// still needed. \throws error(out_of_memory).
void host_pager::bring(object_state& o, const request& r, std::vector<loading>& loads) {
  host_block& b = *o.paged;
  b.failed = nullptr;
  bool needed = false;
  if (b.has_copy)
    o.each(o.all, [&](const fragment& f) {
      needed = needed || ((f.valid & 1) != 0 && !is_overwritten(f, r.task, r.copy, o));
    });
  loads.reserve(loads.size() + 1);
  std::byte* p = nullptr;
  try {
    p = take_memory(o.instances[0].bytes);
  } catch (const std::bad_alloc&) {
    throw error(errc::out_of_memory,
                o.text() + " needs " + bytes_text(o.instances[0].bytes) +
                    " of the host's memory, which has not so many",
                "lower --tern-hetero-host-memory, so that others go to disk in time");
  }
  if (needed) {
    b.at = host_block::loading;
    ++o.instances[0].users;
    loads.push_back({&o, p});
    return;
  }
  try {
    resident_.add(o, 0);
  } catch (...) {
    give_memory(p, o.instances[0].bytes);
    throw;
  }
  changes(o);
  o.host.store(p, std::memory_order_release);
  b.at = host_block::here;
}

// It holds what it needs, of which what is not in memory begins to come.
void host_pager::reserve(request& r) noexcept {
  std::vector<loading> loads;
  const auto hold_one = [&](object_state& o, bool open) {
    const std::lock_guard hold(o.lock);
    --o.paged->parked;
    o.instances[0].unwanted = o.instances[0].leaving = false;
    if (open) ++o.paged->open;
    if (r.failed || o.paged->at != host_block::absent) return;
    try {
      bring(o, r, loads);
    } catch (...) {
      r.failed = std::current_exception();
    }
  };
  if (r.task) {
    for (std::size_t i = 0; i < r.task->use_count; ++i)
      if (object_state& o = *r.task->use_at(i).object; o.paged)
        hold_one(o, (r.task->flags & task_record::waits_release) != 0);
  } else {
    hold_one(r.copy ? *r.copy->object : *r.held, false);
  }
  for (const loading& l : loads) start_load(l);
}

bool host_pager::is_here(request& r) const noexcept {
  bool all = true;
  each_object(r, [&](object_state& o) {
    const std::lock_guard hold(o.lock);
    const host_block& b = *o.paged;
    all = all && (b.at == host_block::here || b.at == host_block::absent);
    if (b.at == host_block::absent && !r.failed) r.failed = b.failed;
  });
  return all;
}

void host_pager::finish_those_here() noexcept {
  for (auto at = coming_.begin(); at != coming_.end();) {
    const auto one = at++;
    if (!is_here(*one)) continue;
    requests over;
    over.splice(over.end(), coming_, one);
    finish(over.front());
  }
}

void host_pager::finish(request& r) noexcept {
  if (r.held) {
    if (r.failed)
      r.done->set_exception(r.failed);
    else
      r.done->set_value();
    return;
  }
  if (r.copy) {
    if (r.failed) return copies_.transfer_done(r.copy, r.failed);
    if (r.copy->to == 0) {
      const std::lock_guard hold(r.copy->object->lock);
      changes(*r.copy->object);
    }
    copies_.devices().queue(r.copy->device)->arrive(r.copy);
    return;
  }
  for (std::size_t i = 0; i < r.task->use_count && !r.failed; ++i)
    if (const use& u = r.task->use_at(i); u.object->paged && writes(u.how)) {
      const std::lock_guard hold(u.object->lock);
      changes(*u.object);
    }
  if (r.failed) fail(r.task, r.failed);
  copies_.admitted(r.task);
}

} // namespace tern::hetero::detail
