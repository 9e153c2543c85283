// SPDX-License-Identifier: Apache-2.0
#include <tern/task/worker/worker_trace.hpp>

#include <tern/task/fiber/fiber_trace.hpp>
#include <tern/task/worker/worker.hpp>
#include <tern/trace/record/events.hpp>

namespace tern::detail {

static_assert(worker::no_track == trace::detail::no_track);

std::uint32_t new_track(const worker& w) noexcept {
  return trace::on() ? trace::detail::new_track(w.trace_rank, w.index) : worker::no_track;
}

void trace_as(const worker* w) noexcept {
  if (trace::on()) trace::detail::on_track(w ? w->track : worker::no_track);
}

void trace_begins(worker& w, worker* outer) noexcept {
  if (!trace::on()) return;
  if (outer && outer->running && (outer->running->leave_flags & leave_flags::traced) != 0)
    trace_leaves(*outer->running, false);
  w.track = new_track(w);
  trace_as(&w);
}

void trace_ends(worker* outer) noexcept {
  if (!trace::on()) return;
  trace_as(outer);
  if (outer && outer->running && (outer->running->leave_flags & leave_flags::traced) != 0)
    trace_enters(*outer->running);
}

} // namespace tern::detail
