// SPDX-License-Identifier: Apache-2.0
#include <tern/task/polling/polling_fiber.hpp>

#include <tern/task/fiber/fiber_trace.hpp>

namespace tern::detail {
namespace {

constexpr fiber_name at_rest = [] {
  fiber_name name{};
  for (std::size_t i = 0; runner_pool::runner_name[i] != 0; ++i) name[i] = runner_pool::runner_name[i];
  return name;
}();

} // namespace

// To the trace one fiber ends here and another begins.
void handler_fiber::leave_trace() noexcept {
  if ((self_->leave_flags & leave_flags::inside) != 0)
    trace_leaves(*self_, true);
  else
    trace_forgets(*self_);
}

void handler_fiber::enter_trace() noexcept { trace_enters(*self_); }

void handler_fiber::end() noexcept {
  fiber& f = *self_;
  if (f.locals) destroy_locals(f);
  if ((f.leave_flags & leave_flags::traced) != 0) [[unlikely]]
    leave_trace();
  rename(f, at_rest);
  f.runner.store(true, std::memory_order_relaxed);
}

} // namespace tern::detail
