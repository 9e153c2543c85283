// SPDX-License-Identifier: Apache-2.0
#include <tern/task/detail/errand.hpp>

#include <cstring>

#include <tern/task/detail/core.hpp>
#include <tern/task/detail/locals.hpp>
#include <tern/task/detail/sanitizer.hpp>
#include <tern/task/detail/tracing.hpp>

namespace tern::detail {
namespace {

constexpr fiber_name at_rest = [] {
  fiber_name name{};
  for (std::size_t i = 0; scheduler_core::runner_name[i] != 0; ++i) name[i] = scheduler_core::runner_name[i];
  return name;
}();

void rename(fiber& f, const fiber_name& name) noexcept {
  static_assert(sizeof f.name == sizeof name);
  std::memcpy(f.name, name.data(), sizeof f.name);
  tsan::name_fiber(f.tsan_fiber, f.name);
}

// To the trace `f` ends here and another fiber begins.
void turn_into_another(fiber& f) noexcept {
  const bool inside = (f.attention & attention::inside) != 0;
  if (inside)
    trace_leaves(f, true);
  else
    trace_forgets(f);
}

} // namespace

errand::errand(const fiber_name& name) noexcept : self_(this_worker()->running) {
  fiber& f = *self_;
  if ((f.attention & attention::traced) != 0) [[unlikely]]
    turn_into_another(f);
  rename(f, name);
  f.id.store(f.home->new_id(this_worker()), std::memory_order_relaxed);
  f.runner.store(false, std::memory_order_relaxed);
  if ((f.attention & attention::traced) != 0) [[unlikely]]
    trace_enters(f);
}

errand::~errand() {
  fiber& f = *self_;
  if (f.locals) destroy_locals(f);
  if ((f.attention & attention::traced) != 0) [[unlikely]]
    turn_into_another(f);
  rename(f, at_rest);
  f.runner.store(true, std::memory_order_relaxed);
}

bool errand::stays() noexcept {
  const worker* const w = this_worker();
  return w && w->running && w->errands == w->running;
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
