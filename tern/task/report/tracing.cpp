// SPDX-License-Identifier: Apache-2.0
/// \file
/// Fibers and workers in the trace.
#include <tern/task/report/tracing.hpp>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

#include <tern/task/scheduler/registry.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>
#include <tern/task/sim/simulated_executor.hpp>
#include <tern/trace/record/events.hpp>

namespace tern::detail {
namespace {

static_assert(worker::no_track == trace::detail::no_track);

std::uint64_t number(const fiber& f) noexcept { return f.id.load(std::memory_order_relaxed); }

// Its name, or where it was made.
std::uint32_t name_number(const fiber& f) noexcept {
  if (f.name[0]) return trace::detail::name_number(f.name);
  std::string_view file = f.made.file_name();
  file.remove_prefix(std::min(file.size(), file.rfind('/') + 1)); // npos + 1 is 0
  char text[96];
  const std::size_t n = std::min(file.size(), sizeof text - 16);
  std::memcpy(text, file.data(), n);
  text[n] = ':';
  const char* const end = std::to_chars(text + n + 1, text + sizeof text, f.made.line()).ptr;
  return trace::detail::name_number({text, static_cast<std::size_t>(end - text)});
}

} // namespace

void trace_enters(fiber& f) noexcept {
  if (!trace::on()) return;
  const bool first = (f.attention & attention::begun) == 0;
  if (first || f.trace_name == 0) f.trace_name = name_number(f);
  f.attention |= attention::begun | attention::inside;
  trace::detail::fiber_enters(number(f), f.trace_name, first);
}

void trace_leaves(fiber& f, bool for_ever) noexcept {
  if (trace::on() && (f.attention & attention::inside) != 0) {
    const wait_kind kind = f.waits.load(std::memory_order_relaxed);
    if (for_ever)
      trace::detail::fiber_ends(number(f));
    else if (kind != wait_kind::none)
      trace::detail::fiber_waits(number(f), trace::detail::name_number(name_of(kind)),
                                 f.waits_for.load(std::memory_order_relaxed));
    else
      trace::detail::fiber_yields(number(f));
  }
  f.attention &= static_cast<std::uint8_t>(~attention::inside);
  if (for_ever) trace_forgets(f);
}

void trace_forgets(fiber& f) noexcept {
  f.attention &= attention::canary | attention::traced;
  f.trace_name = 0;
}

std::uint32_t new_track(const worker& w) noexcept {
  return trace::on() ? trace::detail::new_track(w.home->cfg.trace_rank, w.index) : worker::no_track;
}

void trace_as(const worker* w) noexcept {
  if (trace::on()) trace::detail::on_track(w ? w->track : worker::no_track);
}

void trace_begins(worker& w, worker* outer) noexcept {
  if (!trace::on()) return;
  if (outer && outer->running && (outer->running->attention & attention::traced) != 0)
    trace_leaves(*outer->running, false);
  w.track = new_track(w);
  trace_as(&w);
}

void trace_ends(worker* outer) noexcept {
  if (!trace::on()) return;
  trace_as(outer);
  if (outer && outer->running && (outer->running->attention & attention::traced) != 0) trace_enters(*outer->running);
}

std::int64_t virtual_ticks() noexcept {
  static thread_local std::int64_t latest = 0; // what happens between two simulations happens when the first has ended
  const worker* const w = this_worker();
  if (w && w->home->engine) latest = w->home->engine->now();
  return latest;
}

void scheduler_core::tell(const worker& w, worker_event e, std::uint64_t n) const noexcept {
  if (cfg.observer) cfg.observer->event(w.index, e, n);
  if (!trace::on()) return;
  fiber* const f = w.running;
  switch (e) {
  case worker_event::tasklets_begin: // in a runner, which may have been entered just now
    if (!f || (f->attention & attention::traced) == 0) break;
    if ((f->attention & attention::inside) == 0) trace_enters(*f);
    if (trace::detail::tasklets_begin()) f->attention |= attention::batch;
    break;
  case worker_event::tasklets_end:
    if (!f || (f->attention & attention::batch) == 0) break;
    f->attention &= static_cast<std::uint8_t>(~attention::batch);
    trace::detail::tasklets_end(n);
    break;
  case worker_event::steal:
    trace::detail::steals(n);
    break;
  case worker_event::park:
    trace::detail::parks();
    break;
  case worker_event::wake:
    trace::detail::wakes();
    break;
  case worker_event::fiber_begin: // see trace_enters and trace_leaves
  case worker_event::fiber_end:
    break;
  }
}

} // namespace tern::detail
