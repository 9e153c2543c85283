// SPDX-License-Identifier: Apache-2.0
/// \file
/// Records, dependencies and completion.
#include <tern/hetero/graph/runtime.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <mutex>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/hetero/device/device_worker.hpp>
#include <tern/hetero/graph/recorded_tasks.hpp>
#include <tern/trace/trace.hpp>

namespace tern::hetero::detail {

using tern::detail::tasklet;
using tern::detail::worker;
using tern::detail::worker_base;

namespace {

constexpr std::uint32_t chain_length = 64;           // records that change hands together
constexpr std::size_t chunk = 512;                   // records
constexpr std::uint64_t look_every = 256;            // submissions, between two looks at how far ahead the submitter is
constexpr std::uint64_t window = 32 * 1024;          // tasks that wait, beyond which submitting is slowed down
constexpr std::chrono::microseconds slow_down{1000}; // for so many as above, at most: who has to submit more before
                                                     // any can run must not wait for ever

link* pointer_of(std::uintptr_t list) noexcept {
  // address: the list's head, as it was put there
  return reinterpret_cast<link*>(list);
}
// address: to be taken out again; nothing is compared but for being the same
std::uintptr_t word_of(const void* p) noexcept { return reinterpret_cast<std::uintptr_t>(p); }

/// What those are told that need what `cause` was to write.
std::exception_ptr failure_after(const task_record& t, const task_record& cause) {
  errc code = errc::invalid_state;
  std::string why = "for a reason that is no std::exception", hint;
  try {
    std::rethrow_exception(cause.failure);
  } catch (const error& e) {
    code = e.code();
    why = e.message();
    hint = e.hint();
  } catch (const std::exception& e) {
    why = e.what();
  } catch (...) { // has no text
  }
  constexpr std::size_t longest = 600; // a chain of thousands tells what matters by its beginning and its root
  std::string text = std::string("task '") + t.text_name() + "' was not run, as '" + cause.text_name() + "' before it ";
  const bool itself = why.rfind("task '", 0) == 0 && why.find("was not run") != std::string::npos;
  if (why.size() > longest) why = why.substr(0, longest / 2) + " … " + why.substr(why.size() - longest / 2);
  text += itself ? "was not: " : "failed: ";
  return std::make_exception_ptr(error(code, text + why, hint));
}

} // namespace

// Records -------------------------------------------------------------------------------------------------------------

worker_part& runtime::part() noexcept {
  const worker* const w = tern::detail::this_worker();
  return parts_[is_mine(w) ? static_cast<std::size_t>(w->index) : static_cast<std::size_t>(workers())];
}

task_record* runtime::allocate() {
  const worker* const w = tern::detail::this_worker();
  const bool mine = is_mine(w);
  std::unique_lock<tern::detail::spin_lock> hold;
  if (!mine) hold = std::unique_lock(foreign_);
  worker_part& p = parts_[static_cast<std::size_t>(mine ? w->index : workers())];
  if (!p.free) [[unlikely]] {
    // acquire: pairs with the release in `free`; the last users are done with them. All are taken at once: no ABA.
    p.free = shared_free_.exchange(nullptr, std::memory_order_acquire);
    p.free_count = 0; // of these nobody knows: they are given back one chain later
    if (!p.free) {
      auto fresh = std::make_unique<task_record[]>(chunk);
      for (std::size_t i = 0; i < chunk; ++i) fresh[i].tasklet::next = i + 1 < chunk ? &fresh[i + 1] : nullptr;
      p.free = fresh.get();
      const std::lock_guard keep(chunks_lock_);
      chunks_.push_back(std::move(fresh));
    }
  }
  task_record* const t = p.free;
  p.free = static_cast<task_record*>(t->tasklet::next);
  if (p.free_count > 0) --p.free_count;
  return t;
}

void runtime::free(task_record* t) noexcept {
  for (use_block* b = std::exchange(t->more_uses, nullptr); b;) {
    use_block* const next = b->next;
    free(::new (static_cast<void*>(b)) task_record);
    b = next;
  }
  for (link_block* b = std::exchange(t->more_links, nullptr); b;) {
    link_block* const next = b->next;
    free(::new (static_cast<void*>(b)) task_record);
    b = next;
  }
  // As a new one; nobody else knows it.
  t->pending.store(task_record::not_submitted, std::memory_order_relaxed);
  t->references.store(1, std::memory_order_relaxed);
  t->successors.store(0, std::memory_order_relaxed);
  if (t->failure) t->failure = nullptr;
  t->state.store(task_record::made, std::memory_order_relaxed);
  t->marks.store(0, std::memory_order_relaxed);
  if (t->flags & task_record::extended) {
    t->next = nullptr;
    t->caused = nullptr;
    t->name.store(nullptr, std::memory_order_relaxed);
    t->device_mask = -1;
    t->running = 0;
    t->priority = 0;
  }
  t->work = nullptr;
  t->flags = 0;
  t->kinds = t->use_count = t->link_count = t->device = 0;

  const worker* const w = tern::detail::this_worker();
  const bool mine = is_mine(w);
  std::unique_lock<tern::detail::spin_lock> hold;
  if (!mine) hold = std::unique_lock(foreign_);
  worker_part& p = parts_[static_cast<std::size_t>(mine ? w->index : workers())];
  t->tasklet::next = p.free;
  p.free = t;
  if (++p.free_count < 2 * chain_length) return;
  // Whoever runs what others submit gives it back to them.
  task_record* last = t;
  for (std::uint32_t i = 1; i < chain_length; ++i) last = static_cast<task_record*>(last->tasklet::next);
  p.free = static_cast<task_record*>(last->tasklet::next);
  p.free_count -= chain_length;
  task_record* head = shared_free_.load(std::memory_order_relaxed);
  do {
    last->tasklet::next = head;
  } while (!shared_free_.compare_exchange_weak(head, t, std::memory_order_release, std::memory_order_relaxed));
}

std::size_t runtime::records_made() noexcept {
  const std::lock_guard hold(chunks_lock_);
  return chunks_.size() * chunk;
}

use& runtime::add_use(task_record* t) {
  const std::size_t i = t->use_count;
  if (i >= task_record::inline_uses && (i - task_record::inline_uses) % use_block::room == 0) {
    auto* const b = ::new (allocate_block()) use_block;
    b->next = nullptr;
    use_block** end = &t->more_uses;
    while (*end) end = &(*end)->next;
    *end = b;
  }
  if (i == 255)
    throw error(errc::invalid_argument, std::string("task '") + t->text_name() + "' uses more than 255 objects",
                "use views of fewer, larger ones");
  ++t->use_count;
  return t->use_at(i);
}

// Dependencies --------------------------------------------------------------------------------------------------------

bool runtime::follow(task_record* t, task_record* before, std::uintptr_t kind) {
  // acquire: if it is closed, what the task did is ours to see.
  std::uintptr_t head = before->successors.load(std::memory_order_acquire);
  if (head != closed_list) {
    link* l = nullptr;
    if (t->link_count < task_record::inline_uses) {
      l = &t->slots[t->link_count].edge;
    } else {
      if (!t->more_links || t->more_links->used == link_block::room) {
        auto* const b = ::new (allocate_block()) link_block;
        b->next = t->more_links;
        b->used = 0;
        t->more_links = b;
      }
      l = &t->more_links->links[t->more_links->used];
    }
    l->target = word_of(t) | kind;
    do {
      l->next = pointer_of(head);
      // release: the link. A head that comes back is no harm: links are only ever pushed, then all taken at once.
      if (before->successors.compare_exchange_weak(head, word_of(l), std::memory_order_acq_rel,
                                                   std::memory_order_acquire)) {
        if (t->link_count < task_record::inline_uses)
          ++t->link_count;
        else
          ++t->more_links->used;
        return true;
      }
    } while (head != closed_list);
  }
  if (kind == data_edge && before->has_failed()) [[unlikely]]
    inherit(*t, *before);
  return false;
}

bool runtime::hook(task_record* t, completion_hook& h) noexcept {
  h.edge.target = word_of(&h) | hook_edge;
  std::uintptr_t head = t->successors.load(std::memory_order_acquire);
  while (head != closed_list) {
    h.edge.next = pointer_of(head);
    if (t->successors.compare_exchange_weak(head, word_of(&h.edge), std::memory_order_acq_rel,
                                            std::memory_order_acquire))
      return true;
  }
  return false;
}

void runtime::order(task_record* t, access_mode how, fragment& f, task_record*& gates) {
  const auto others = [t](task_record* x) { return x != t; };
  switch (how) {
  case access_mode::read:
    for (task_record* w : f.writers)
      if (others(w)) follow(t, w, data_edge);
    f.readers.add_pruned(t);
    return;
  case access_mode::write:
  case access_mode::read_write: {
    const std::uintptr_t kind = reads(how) ? data_edge : order_edge;
    for (task_record* w : f.writers) // also if there are readers: those without an order have not followed them
      if (others(w)) follow(t, w, kind);
    for (task_record* r : f.readers)
      if (others(r)) follow(t, r, order_edge);
    f.readers.clear();
    f.writers.clear();
    f.writers.add_new(t);
    if (f.commuting) {
      f.commuting = false;
      f.before_commuting.clear();
    }
    return;
  }
  case access_mode::commute:
    if (f.commuting && f.writers.ends_with(t)) return; // by another of its uses: nobody came between
    if (!f.commuting || f.readers.size() > 0) {
      f.before_commuting.clear();
      if (f.writers.size() == 1 && f.readers.size() == 0 && others(*f.writers.begin())) {
        f.before_commuting.add(*f.writers.begin());
      } else if (f.writers.size() + f.readers.size() > 0) { // one for all, or each would follow each
        task_record* const gate = allocate();
        gate->home = this;
        gate->flags = task_record::hidden | task_record::extended;
        gate->name.store("all before", std::memory_order_relaxed); // nobody else knows it
        for (task_record* w : f.writers)
          if (others(w)) follow(gate, w, data_edge);
        for (task_record* r : f.readers)
          if (others(r)) follow(gate, r, order_edge);
        f.before_commuting.add(gate);
        gate->next = gates;
        gates = gate;
      }
      f.readers.clear();
      f.writers.clear();
      f.commuting = true;
    }
    for (task_record* b : f.before_commuting) follow(t, b, data_edge);
    f.writers.add_pruned(t);
    return;
  }
}

void runtime::depend(task_record* t, use& u, task_record*& gates) {
  object_state& o = *u.object;
  if (!u.ordered) [[unlikely]] { // it follows nobody, but is followed by those that come later, and by the object's end
    const auto know = [&](fragment& f) { (writes(u.how) ? f.writers : f.readers).add_new(t); };
    if (u.whole && o.uncut()) {
      know(o.first);
    } else {
      o.cut(u.part);
      o.each(u.part, know);
    }
    return;
  }
  if (u.whole && o.uncut()) {
    order(t, u.how, o.first, gates);
    return;
  }
  o.cut(u.part);
  o.each(u.part, [&](fragment& f) { order(t, u.how, f, gates); });
}

void runtime::submit(task_record* t) {
  for (std::size_t i = 0; i < t->use_count; ++i)
    if (&t->use_at(i).object->home != this)
      throw error(errc::invalid_argument,
                  std::string("task '") + t->text_name() + "' uses " + t->use_at(i).object->text() +
                      ", which belongs to another scheduler or rank",
                  "objects are used where they were made; send the data");
  t->home = this;
  std::unique_lock<mutex> reductions; // until this task has its place in the order
  for (std::size_t i = 0; i < t->use_count; ++i) {
    const use& u = t->use_at(i);
    if (u.how == reducing_access ||
        (u.object->reducing.load(std::memory_order_acquire) && !(t->flags & task_record::of_reduction))) [[unlikely]] {
      reductions = std::unique_lock(reductions_);
      settle_reductions(t);
      break;
    }
  }
  const worker* const w = tern::detail::this_worker(); // that may have taken time
  const bool mine = is_mine(w);
  t->state.store(task_record::waiting, std::memory_order_relaxed);
  if (mine && w->causal) [[unlikely]] {
    w->causal->retain();
    t->caused = w->causal;
    t->flags |= task_record::on_account | task_record::extended;
  }
  if (!(t->flags & task_record::hidden) &&
      ((t->kinds & kinds_beside_host_) != 0 || (t->kinds & kinds_of(device_kind::host)) == 0 ||
       (!host_runs_ && t->kinds != kinds_of(device_kind::host)) ||
       ((t->flags & task_record::extended) && (t->priority != 0 || t->device_mask != -1))))
    t->flags |= task_record::placed | task_record::extended;
  count_submitted(parts_[static_cast<std::size_t>(mine ? w->index : workers())], mine);

  task_record* gates = nullptr;
  if (t->use_count == 1) {
    use& u = t->slots[0].of;
    const std::lock_guard hold(u.object->lock);
    depend(t, u, gates);
  } else if (t->use_count > 1) {
    // All at once, so that of two tasks one comes before the other for all objects; in the order of their numbers.
    std::array<object_state*, 8> few;
    std::vector<object_state*> many;
    object_state** all = few.data();
    if (t->use_count > few.size()) {
      many.resize(t->use_count);
      all = many.data();
    }
    std::size_t n = 0;
    for (std::size_t i = 0; i < t->use_count; ++i) {
      object_state* const o = t->use_at(i).object;
      if (std::find(all, all + n, o) == all + n) all[n++] = o;
      if (t->use_at(i).how == access_mode::commute) t->flags |= task_record::commutes | task_record::extended;
    }
    std::sort(all, all + n, [](const object_state* a, const object_state* b) { return a->number < b->number; });
    for (std::size_t i = 0; i < n; ++i) all[i]->lock.lock();
    for (std::size_t i = 0; i < t->use_count; ++i) depend(t, t->use_at(i), gates);
    for (std::size_t i = n; i-- > 0;) all[i]->lock.unlock();
  }
  if (reductions.owns_lock()) reductions.unlock();
  if (t->use_count == 1 && t->slots[0].of.how == access_mode::commute)
    t->flags |= task_record::commutes | task_record::extended;
  while (gates) {
    task_record* const g = gates;
    gates = std::exchange(g->next, nullptr);
    g->state.store(task_record::waiting, std::memory_order_relaxed);
    count_submitted(part(), mine);
    submitted_after(g, g->links());
  }
  if (const std::int32_t links = t->links(); links == 0) { // nobody else knows it
    t->pending.store(0, std::memory_order_relaxed);
    make_ready(t, false);
  } else {
    submitted_after(t, links);
  }
  if (mine) {
    worker_part& p = part();
    if (p.submitted.load(std::memory_order_relaxed) % look_every == 0 && tern::detail::this_worker()->running &&
        outstanding() > window) [[unlikely]]
      wait_for_progress(window / 4 * 3, &slow_down);
  }
}

// Running and completing ----------------------------------------------------------------------------------------------

task_record* runtime::make_ready(task_record* t, bool may_run_here) noexcept {
  if (t->flags & task_record::acquired) { // the last transfer has ended
    if (driver* const d = driver_of(t->device)) {
      d->arrive(t);
      return nullptr;
    }
  } else if (t->sound() && !(t->flags & task_record::order_only)) {
    if ((t->flags & (task_record::commutes | task_record::placed)) != 0) [[unlikely]] {
      if ((t->flags & task_record::commutes) && !lock_commuting(t)) return nullptr; // whoever unlocks makes it ready
      if (t->flags & task_record::placed) {
        place(t);
        return nullptr;
      }
    }
    if (!acquire_on_host(t)) return nullptr;
  } else {
    t->flags &= static_cast<std::uint16_t>(~task_record::placed); // it is at no device
  }
  if (may_run_here) return t;
  push_to_host(t);
  return nullptr;
}

bool runtime::acquire_on_host(task_record* t) noexcept {
  bool here = true; // all that it uses
  for (std::size_t i = 0; i < t->use_count; ++i)
    // acquire: a copy that makes room elsewhere brings data here and has no order
    here = here && t->use_at(i).object->on_host.load(std::memory_order_acquire);
  if (here) [[likely]]
    return true;
  t->pending.store(1, std::memory_order_relaxed);
  t->flags |= task_record::acquired;
  acquire(t, 0);
  return t->pending.fetch_sub(1, std::memory_order_acq_rel) == 1; // or the last transfer comes back with it
}

void runtime::push_to_host(task_record* t) noexcept {
  t->run = run_task;
  t->group = &group_;
  worker* const w = tern::detail::this_worker();
  if (w && w->home == &core_ && w->running) {
    w->push(t);
    return;
  }
  const tern::detail::scheduler_core::visit here(core_);
  core_.outside.push(t);
  core_.notify();
}

void runtime::run_body(task_record* t) noexcept {
  if (t->flags & task_record::placed) begun_on_host();
  if (t->flags & task_record::handled) {
    std::uint8_t expected = task_record::waiting;
    if (!t->state.compare_exchange_strong(expected, task_record::begun, std::memory_order_acq_rel)) {
      wait_until_told(*t); // it has been cancelled
      return;
    }
  }
  if (!t->sound() || !t->work || !t->work->run) return;
  const auto* const w = static_cast<tern::detail::worker*>(tern::detail::this_worker_base());
  if (!(t->flags & (task_record::placed | task_record::hidden))) { // others are counted where they are placed
    std::atomic<std::uint64_t>& n = parts_[static_cast<std::size_t>(w->index)].on_host;
    n.store(n.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  tern::detail::fiber* const here = w->running;
  const void* const outer = std::exchange(here->task, t); // for `task_here`
  try {
    const trace::region bar(trace::on() ? t->text_name() : "");
    if (t->flags & task_record::on_account) {
      const tern::detail::causal_scope in(t->caused);
      t->work->run(*t);
    } else {
      t->work->run(*t);
    }
  } catch (...) {
    fail(t, std::current_exception());
  }
  here->task = outer;
}

const task_record* runtime::task_here() noexcept {
  const worker* const w = tern::detail::this_worker();
  return w && w->running ? static_cast<const task_record*>(w->running->task) : nullptr;
}

worker_base* runtime::run_task(tasklet* x) noexcept {
  auto* t = static_cast<task_record*>(x);
  runtime& r = *t->home;
  for (;;) {
    const bool released_by_user = t->flags & task_record::waits_release && t->sound(); // who completes it, perhaps now
    r.run_body(t);
    if (released_by_user) break;
    auto* w = tern::detail::this_worker_base();
    t = r.complete(t, !w->budget_exhausted());
    if (!t) break;
  }
  return tern::detail::this_worker_base();
}

void runtime::fail(task_record* t, std::exception_ptr why) noexcept {
  // acq_rel: only one writes, and is done before the task can run or complete, which waits for that one.
  if (t->marks.fetch_or(task_record::failed, std::memory_order_acq_rel) & task_record::failed) return;
  t->failure = std::move(why);
  t->marks.fetch_or(task_record::told, std::memory_order_release);
}

// Of what those of the runtime fail with, the user hears by those that are his own.
void runtime::inherit(task_record& t, const task_record& from) noexcept {
  if (!(from.flags & task_record::hidden) || (from.marks.load(std::memory_order_relaxed) & task_record::inherited))
    t.marks.fetch_or(task_record::inherited, std::memory_order_relaxed);
  fail(&t, failure_after(t, from));
}

// Who cancels needs a few instructions from the one to the other.
void runtime::wait_until_told(const task_record& t) noexcept {
  for (int tries = 0; !(t.marks.load(std::memory_order_acquire) & task_record::told); ++tries)
    tern::detail::spin_lock::back_off(tries);
}

void runtime::complete_slowly(task_record* t) noexcept {
  if (t->flags & task_record::acquired) release_uses(t);
  if (t->flags & task_record::commutes) unlock_commuting(t);
  if (t->flags & task_record::placed) left(t->device);
}

void runtime::destroy_work(task_record* t) noexcept {
  if (!t->work || !t->work->destroy) return;
  if (t->work->name && !t->name.load(std::memory_order_relaxed)) { // the closure knows it; others' errors may need it
    t->name.store(t->work->name(*t), std::memory_order_relaxed);   // seen by who sees that it is done
    t->flags |= task_record::extended;
  }
  t->work->destroy(*t);
}

task_record* runtime::complete(task_record* t, bool may_run_here) noexcept {
  destroy_work(t);
  if (t->flags & (task_record::acquired | task_record::commutes | task_record::placed)) [[unlikely]]
    complete_slowly(t);
  const bool bad = t->has_failed();
  tern::detail::causal_context* const caused = t->flags & task_record::on_account ? t->caused : nullptr;
  if (bad) note_failure(t);
  t->state.store(task_record::done, std::memory_order_release);
  // acq_rel: successors see what it did; we see their links.
  const std::uintptr_t list = t->successors.exchange(closed_list, std::memory_order_acq_rel);
  task_record* next = nullptr;
  for (link* l = pointer_of(list); l;) {
    link* const after = l->next; // the link goes with its task
    const std::uintptr_t kind = l->target & edge_bits;
    // address: of what the link was made for
    void* const target = reinterpret_cast<void*>(l->target & ~edge_bits);
    if (kind == hook_edge) {
      auto* const h = static_cast<completion_hook*>(target);
      h->fire(*h, *t);
    } else {
      auto* const to = static_cast<task_record*>(target);
      if (bad && kind == data_edge) [[unlikely]]
        inherit(*to, *t);
      if (to->pending.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        if (next || !may_run_here)
          make_ready(to, false);
        else
          next = make_ready(to, true);
      }
    }
    l = after;
  }
  unreference(t);
  count_completed();
  if (caused) caused->release();
  return next;
}

void runtime::give_up(task_record* t) noexcept {
  if (ended_.load(std::memory_order_acquire)) return unreference(t); // nothing will come to it any more
  const worker* const w = tern::detail::this_worker();
  const bool mine = is_mine(w);
  t->state.store(task_record::waiting, std::memory_order_relaxed);
  t->flags |= task_record::hidden;
  count_submitted(part(), mine);
  submitted_after(t, t->links()); // and when those that it was to follow are done, it completes
}

void runtime::submitted_after(task_record* t, std::int32_t links) noexcept {
  // acq_rel: what its predecessors wrote is visible to it. Some of them may have been through already.
  const std::int32_t rest = task_record::not_submitted - links;
  if (t->pending.fetch_sub(rest, std::memory_order_acq_rel) == rest) make_ready(t, false);
}

bool runtime::cancel(task_record* t) noexcept {
  std::uint8_t expected = task_record::waiting;
  if (!t->state.compare_exchange_strong(expected, task_record::begun, std::memory_order_acq_rel)) return false;
  t->marks.fetch_or(task_record::observed, std::memory_order_relaxed); // who cancels knows
  fail(t, std::make_exception_ptr(error(errc::cancelled, std::string("task '") + t->text_name() + "' was cancelled")));
  return true;
}

void runtime::note_failure(task_record* t) noexcept {
  const auto of_no_interest = [](const task_record* x) {
    return (x->marks.load(std::memory_order_relaxed) & (task_record::inherited | task_record::observed)) != 0;
  };
  if (t->flags & task_record::hidden || of_no_interest(t)) return;
  constexpr std::size_t kept = 64;
  const std::lock_guard hold(failure_lock_);
  if (failed_.size() == kept) { // those that somebody has been told of meanwhile make room
    const auto end = std::partition(failed_.begin(), failed_.end(), [&](task_record* x) { return !of_no_interest(x); });
    std::for_each(end, failed_.end(), [&](task_record* x) { unreference(x); });
    failed_.erase(end, failed_.end());
    if (failed_.size() == kept) return; // enough to tell
  }
  t->references.fetch_add(1, std::memory_order_relaxed);
  failed_.push_back(t);
}

} // namespace tern::hetero::detail
