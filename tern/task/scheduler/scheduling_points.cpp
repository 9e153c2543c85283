// SPDX-License-Identifier: Apache-2.0
/// \file
/// Where a running fiber may let others run although it does not wait.
#include <tern/task/scheduler/scheduler_core.hpp>
#include <tern/task/wait/wait_list.hpp>
#include <tern/task/worker/switching.hpp>

namespace tern::detail {

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
