// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tasks that are ready are run.
#include <tern/hetero/graph/execution.hpp>

#include <exception>
#include <source_location>
#include <utility>

#include <tern/hetero/graph/runtime.hpp>
#include <tern/hetero/record/failure.hpp>
#include <tern/trace/trace.hpp>

namespace tern::hetero::detail {

using tern::detail::tasklet;
using tern::detail::worker;
using tern::detail::worker_base;

task_execution::task_execution(record_pool& records, outstanding_tasks& outstanding, coherence& copies,
                               const device_table& devices, task_placement& placement)
    : core_(records.parts().core()), records_(records), parts_(records.parts()), outstanding_(outstanding),
      copies_(copies), devices_(devices), placement_(placement), group_(nullptr, std::source_location::current()) {}

task_record* task_execution::make_ready(task_record* t, bool may_run_here) noexcept {
  if (t->flags & task_record::given) { // its device has it, and knows
    if (t->marks.load(std::memory_order_relaxed) & task_record::across) devices_.queue(t->device)->look_again();
    return nullptr;
  }
  if (t->flags & task_record::acquired) { // the last transfer has ended
    if (device_queue* const d = devices_.queue(t->device)) {
      d->arrive(t);
      return nullptr;
    }
  } else if (t->sound() && !(t->flags & task_record::order_only)) {
    if ((t->flags & (task_record::commutes | task_record::placed)) != 0) [[unlikely]] {
      if ((t->flags & task_record::commutes) && !commuting_.lock(t)) return nullptr; // until it is unlocked
      if (t->flags & task_record::placed) {
        placement_.place(t);
        return nullptr;
      }
    }
    if (!acquire_on_host(t)) return nullptr;
  } else {
    if (upcoming_uses::are_noted(*t)) [[unlikely]]
      copies_.upcoming().ended(*t);
    t->flags &= static_cast<std::uint16_t>(~task_record::placed); // it is at no device
  }
  if (may_run_here) return t;
  push_to_host(t);
  return nullptr;
}

bool task_execution::acquire_on_host(task_record* t) noexcept {
  bool here = true; // all that it uses
  for (std::size_t i = 0; i < t->use_count; ++i)
    // acquire: a copy that frees memory elsewhere brings data here and has no order
    here = here && t->use_at(i).object->on_host.load(std::memory_order_acquire);
  if (here) [[likely]]
    return true;
  t->pending.store(1, std::memory_order_relaxed);
  t->flags |= task_record::acquired;
  copies_.acquire(t, 0);
  return t->pending.fetch_sub(1, std::memory_order_acq_rel) == 1; // or the last transfer comes back with it
}

void task_execution::arrive(task_record* t) noexcept {
  if (!(t->flags & task_record::placed) || acquire_on_host(t)) push_to_host(t);
}

void task_execution::push_to_host(tasklet* t, tasklet::run_function run) noexcept {
  t->run = run;
  t->group = &group_;
  worker* const w = tern::detail::this_worker();
  if (w && w->home == &core_ && w->running) {
    w->push(t);
    return;
  }
  if (core_.executor) { // by another rank of a simulation, in which only a fiber wakes a worker
    core_.fibers.spawn([this, t, run] { push_to_host(t, run); }, {}, std::source_location::current());
    return;
  }
  const tern::detail::scheduler_core::visit here(core_);
  core_.outside.push(t);
  core_.notify();
}

void task_execution::run_body(task_record* t) noexcept {
  if (t->flags & task_record::placed) placement_.begun_on_host();
  if (t->flags & task_record::handled) {
    std::uint8_t expected = task_record::waiting;
    if (!t->state.compare_exchange_strong(expected, task_record::begun, std::memory_order_acq_rel)) {
      wait_until_failure_set(*t); // it has been cancelled
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
      const tern::detail::causal_scope in(t->causal->runs_in());
      t->work->run(*t);
    } else {
      t->work->run(*t);
    }
  } catch (...) {
    fail(t, std::current_exception());
  }
  here->task = outer;
}

const task_record* task_execution::task_here() noexcept {
  const worker* const w = tern::detail::this_worker();
  return w && w->running ? static_cast<const task_record*>(w->running->task) : nullptr;
}

worker_base* task_execution::run_task(tasklet* x) noexcept {
  auto* t = static_cast<task_record*>(x);
  task_execution& r = t->home->execution();
  for (;;) {
    const bool released_by_user =
        t->flags & task_record::waits_release && t->sound(); // which completes it, perhaps now
    r.run_body(t);
    if (released_by_user) break;
    auto* w = tern::detail::this_worker_base();
    t = r.complete(t, !w->budget_exhausted());
    if (!t) break;
    r.core_.stealing.share(*tern::detail::this_worker()); // a chain neither pushes nor pops
  }
  return tern::detail::this_worker_base();
}

void task_execution::begin_here(task_record* t) noexcept {
  const worker* const w = tern::detail::this_worker();
  const bool fiber = w && w->home == &core_ && w->running;
  t = make_ready(t, fiber);
  if (!t) return;
  const bool released_by_user = t->sound(); // as in `run_task`
  run_body(t);
  if (!released_by_user) complete(t, false);
}

void task_execution::submitted_after(task_record* t, std::int32_t links) noexcept {
  // acq_rel: what its predecessors wrote is visible to it. Some of them may have been through
  // already.
  const std::int32_t rest = task_record::not_submitted - links;
  if (t->pending.fetch_sub(rest, std::memory_order_acq_rel) == rest) make_ready(t, false);
}

} // namespace tern::hetero::detail
