// SPDX-License-Identifier: Apache-2.0
/// \file
/// What waiting and switching ask of the scheduler.
#include <tern/task/wait/suspension.hpp>

#include <tern/task/scheduler/scheduler_core.hpp>
#include <tern/task/wait/wait_list.hpp>
#include <tern/task/worker/switching.hpp>

namespace tern::detail {

void resume(fiber& f) noexcept { f.home->ready(&f); }

void resume_next(fiber& f) noexcept {
  worker* const w = this_worker();
  const bool here = w && w->home == f.home; // once it is awake, its scheduler may come to its end
  __builtin_prefetch(&f, 1);
  f.home->ready(&f);
  if (here) w->next_hint = &f;
}

void fiber_ended(fiber* f, void*) { f->home->fibers.finished(f); }
void fiber_yielded(fiber* f, void*) { f->home->yielded(f); }

void schedule_point() noexcept {
  const worker* const w = this_worker();
  if (w && w->home->executor && w->running && w->home->executor->preempt()) leave_to(nullptr, fiber_yielded, nullptr);
}

void poll_briefly(bool (*over)(const void*) noexcept, const void* what) noexcept {
  const worker* const w = this_worker();
  if (w && w->polls && w->running && !w->poll_runner && !w->home->executor)
    w->home->cfg.events->poll_briefly(over, what);
}

} // namespace tern::detail
