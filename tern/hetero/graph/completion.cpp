// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tasks that have run, or never will, are completed.
#include <atomic>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/hetero/graph/dependencies.hpp>
#include <tern/hetero/graph/execution.hpp>
#include <tern/hetero/record/failure.hpp>

namespace tern::hetero::detail {

using tern::detail::worker;

const work_type last_task{kinds_of(device_kind::host),
                          [](task_record& t) {
                            object_state* const gone = t.use_at(0).object;
                            gone->copies.destroy(gone);
                          },
                          nullptr, nullptr,
                          [](const task_record&) noexcept -> const char* { return "end of an object"; }};

void task_execution::finish_slowly(task_record* t) noexcept {
  if ((t->flags & task_record::placed || copies_.paging()) && copies_.upcoming().on()) copies_.upcoming().ended(*t);
  if (t->flags & task_record::acquired) copies_.release_uses(t);
  if (t->flags & task_record::commutes)
    for (task_record* x = commuting_.unlock(t); x;) {
      task_record* const next = std::exchange(x->next, nullptr);
      make_ready(x, false); // it has the locks: they are taken again at once
      x = next;
    }
  if (t->flags & task_record::placed) placement_.task_left(t);
}

void task_execution::destroy_work(task_record* t) noexcept {
  if (!t->work || !t->work->destroy) return;
  if (t->work->name && !t->name.load(std::memory_order_relaxed)) { // the closure knows it; others' errors may need it
    t->name.store(t->work->name(*t), std::memory_order_relaxed);   // seen by all that see it done
    t->flags |= task_record::extended;
  }
  t->work->destroy(*t);
}

task_record* task_execution::complete(task_record* t, bool may_run_here) noexcept {
  tern::detail::causal_context* const caused = t->flags & task_record::on_account ? t->causal : nullptr;
  task_record* const next = complete_uncounted(t, may_run_here);
  outstanding_.count_completed();
  if (caused) caused->release();
  return next;
}

task_record* task_execution::complete_uncounted(task_record* t, bool may_run_here) noexcept {
  destroy_work(t);
  if ((t->flags & own_ways) == 0) {
    if (t->use_count == 1 && forget(t)) {
      records_.free(t);
      return nullptr;
    }
  } else if (t->flags & (task_record::acquired | task_record::commutes | task_record::placed)) [[unlikely]] {
    finish_slowly(t);
  }
  const bool bad = t->has_failed();
  if (bad) {
    outstanding_.note_failure(t);
    if (upcoming_uses::are_noted(*t)) copies_.upcoming().ended(*t); // it had no place any more
  }
  t->state.store(task_record::done, std::memory_order_release);
  // acq_rel: successors see what it did; we see their links.
  const std::uintptr_t list = t->successors.exchange(closed_list, std::memory_order_acq_rel);
  // Successors wait for this task until they are counted down, so they may be looked at. All at
  // once: a core has one read-modify-write under way at a time, and other cores have written most
  // of these.
  for (const link* l = first_link(list); l; l = l->next)
    // address: as below
    __builtin_prefetch(reinterpret_cast<const void*>(l->target & ~edge_bits), 1);
  task_record* next = nullptr;
  for (link* l = first_link(list); l;) {
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
        inherit_failure(*to, *t);
      if (to->pending.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        if (next || !may_run_here)
          make_ready(to, false);
        else
          next = make_ready(to, true);
      }
    }
    l = after;
  }
  records_.unreference(t);
  return next;
}

bool task_execution::forget(task_record* t) noexcept {
  // relaxed: one that comes to follow it just now is seen below, or when the list is closed.
  if (t->successors.load(std::memory_order_relaxed) != 0 || !t->sound() || !dependencies::leave(t)) return false;
  // Tasks that are to follow it were put into its list under the object's lock, by which it was
  // found. Now it cannot be found any more.
  if (t->successors.load(std::memory_order_relaxed) == 0 && t->references.load(std::memory_order_acquire) == 2)
    return true;
  t->references.fetch_sub(1, std::memory_order_relaxed); // the object's; its own is left
  return false;
}

void task_execution::give_up(task_record* t) noexcept {
  if (parts_.ended()) return records_.unreference(t); // nothing will come to it any more
  const worker* const w = tern::detail::this_worker();
  const bool mine = parts_.is_mine(w);
  t->state.store(task_record::waiting, std::memory_order_relaxed);
  t->flags |= task_record::hidden;
  t->device = 0;
  outstanding_tasks::count_submitted(parts_.here(), mine);
  submitted_after(t, t->links()); // and when those that it was to follow are done, it completes
}

bool task_execution::cancel(task_record* t) noexcept {
  std::uint8_t expected = task_record::waiting;
  if (!t->state.compare_exchange_strong(expected, task_record::begun, std::memory_order_acq_rel)) return false;
  t->marks.fetch_or(task_record::failure_seen, std::memory_order_relaxed); // the caller knows
  fail(t, std::make_exception_ptr(error(errc::cancelled, std::string("task '") + t->text_name() + "' was cancelled")));
  return true;
}

// The end of the scheduler
// --------------------------------------------------------------------------------------------

void task_execution::end(bool left_fibers) noexcept {
  left_fibers_ = left_fibers;
  parts_.end();
  while (releasing_.load(std::memory_order_seq_cst) > 0)
    std::this_thread::yield(); // it is a few instructions from its end
}

void task_execution::release_access(task_record* t) noexcept {
  if (parts_.is_mine(tern::detail::this_worker())) {
    complete(t, false);
    return;
  }
  // seq_cst: either this thread sees that the scheduler ends, or that one sees it and waits.
  releasing_.fetch_add(1, std::memory_order_seq_cst);
  if (parts_.ended(std::memory_order_seq_cst)) {
    releasing_.fetch_sub(1, std::memory_order_relaxed); // before the runtime may go
    return end_without_running(t, !left_fibers_);
  }
  {
    const tern::detail::scheduler_core::hold_open here(core_);
    if (here.too_late())
      end_without_running(t, true); // what it would make ready would not be run
    else
      complete(t, false);
  }
  releasing_.fetch_sub(1, std::memory_order_release);
}

// Without `tells` no closure goes either, as it may own a promise: that is left to the program's
// end.
void task_execution::end_without_running(task_record* t, bool tells) noexcept {
  copies_.client().add_reference(); // the last object may go
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
    if (t->flags & task_record::acquired) copies_.release_uses(t);
    t->state.store(task_record::done, std::memory_order_release);
    const link* l = first_link(t->successors.exchange(closed_list, std::memory_order_acq_rel));
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
    records_.unreference(t);
    t = rest;
  }
  copies_.client().release();
}

} // namespace tern::hetero::detail
