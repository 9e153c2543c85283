// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/submission/task_key.hpp>

#include <tern/hetero/affinity.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern {

constinit const detail::frame_kind affinity_scope::frames{
    +[](const detail::work_frame& f) noexcept { return static_cast<const affinity_scope&>(f).key_; }};

namespace hetero::detail {

void set_key_of_scope(task_record& t) noexcept {
  if (const auto key = tern::detail::work_frame::key_here()) t.set_key(*key);
}

void count_in_context(task_record& t, tern::detail::causal_context* here) {
  tern::detail::causal_context* by = nullptr;
  if (!(t.flags & task_record::hidden)) {
    by = tern::detail::work_frame::count_here(here);
    const tern::detail::fiber* const f = tern::detail::this_worker()->running;
    const auto* const outer = f ? static_cast<const task_record*>(f->task) : nullptr;
    if (!by && outer && outer->flags & task_record::on_account && outer->causal->runs_in() == here) {
      by = outer->causal;
      by->retain();
    }
  }
  if (!by && here) {
    by = here;
    by->retain();
  }
  if (!by) return;
  t.causal = by;
  t.flags |= task_record::on_account | task_record::extended;
}

} // namespace hetero::detail
} // namespace tern
