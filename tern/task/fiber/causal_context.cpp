// SPDX-License-Identifier: Apache-2.0
#include <tern/task/fiber/causal_context.hpp>

#include <utility>

#include <tern/task/fiber/fiber_state.hpp>
#include <tern/task/fiber/ticks.hpp>
#include <tern/task/fiber/worker_head.hpp>

namespace tern::detail {

causal_context* this_causal_context() noexcept { return this_worker_head()->causal; }

causal_context* set_causal_context(causal_context* c) noexcept {
  worker_head* const w = this_worker_head();
  if (w == &no_worker) return nullptr;
  if (fiber* const f = w->running) f->causal = c;
  return std::exchange(w->causal, c);
}

work_frame::work_frame() noexcept : of_(running_fiber()), outer_(of_ ? static_cast<work_frame*>(of_->frame) : nullptr) {
  if (of_) of_->frame = this;
}

work_frame::~work_frame() {
  if (of_) of_->frame = outer_; // the same stack, perhaps on another worker
}

work_frame* work_frame::here() noexcept {
  fiber* const f = running_fiber();
  return f ? static_cast<work_frame*>(f->frame) : nullptr;
}

run_timer::run_timer() noexcept : of_(running_fiber()), began_(ticks()) {
  if (!of_) return;
  outer_ = (of_->leave_flags & leave_flags::timed) != 0;
  if (!outer_) {
    of_->leave_flags |= leave_flags::timed;
    of_->ran = 0;
    of_->runs_since = began_;
  }
  before_ = of_->ran + (began_ - of_->runs_since);
}

run_timer::~run_timer() {
  if (of_ && !outer_) of_->leave_flags &= static_cast<std::uint8_t>(~leave_flags::timed);
}

double run_timer::seconds() const noexcept {
  const std::int64_t now = ticks();
  return seconds_in(of_ ? of_->ran + (now - of_->runs_since) - before_ : now - began_);
}

} // namespace tern::detail
