// SPDX-License-Identifier: Apache-2.0
#include <tern/task/scheduler/polling_fiber.hpp>

#include <tern/task/report/tracing.hpp>

namespace tern::detail {
namespace {

constexpr fiber_name at_rest = [] {
  fiber_name name{};
  for (std::size_t i = 0; scheduler_core::runner_name[i] != 0; ++i) name[i] = scheduler_core::runner_name[i];
  return name;
}();

} // namespace

// To the trace one fiber ends here and another begins.
void errands::leave_trace() noexcept {
  if ((self_->attention & attention::inside) != 0)
    trace_leaves(*self_, true);
  else
    trace_forgets(*self_);
}

void errands::enter_trace() noexcept { trace_enters(*self_); }

void errands::end() noexcept {
  fiber& f = *self_;
  if (f.locals) destroy_locals(f);
  if ((f.attention & attention::traced) != 0) [[unlikely]]
    leave_trace();
  rename(f, at_rest);
  f.runner.store(true, std::memory_order_relaxed);
}

bool scheduler_core::run_errands(worker& w) {
  fiber* const runner = any_runner(w);
  if (!runner) return false;
  w.errands = runner;
  w.entered.store(w.entered.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  observe(w, worker_event::fiber_begin);
  enter(w, *runner);
  observe(w, worker_event::fiber_end);
  w.errands = nullptr;
  if (!runner->runner.load(std::memory_order_relaxed) || w.has_ready()) found_work(w); // it waits, or has brought work
  return true;
}

} // namespace tern::detail
