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

work_frame::work_frame(const frame_kind& kind) noexcept
    : of_(running_fiber()), outer_(of_ ? static_cast<work_frame*>(of_->frame) : nullptr), kind_(kind),
      task_(of_ ? of_->task : nullptr) {
  if (of_) of_->frame = this;
}

work_frame::~work_frame() {
  if (of_) of_->frame = outer_; // the same stack, perhaps on another worker
}

work_frame* work_frame::here(const frame_kind& kind) noexcept {
  fiber* const of = running_fiber();
  auto* f = of ? static_cast<work_frame*>(of->frame) : nullptr;
  while (f && &f->kind_ != &kind) f = f->outer_;
  return f;
}

std::optional<std::uint64_t> work_frame::key_here() noexcept {
  fiber* const of = running_fiber();
  if (!of) return std::nullopt;
  for (const auto* f = static_cast<const work_frame*>(of->frame); f && f->task_ == of->task; f = f->outer_)
    if (const frame_kind::key_of key = f->kind_.key.load(std::memory_order_relaxed)) return key(*f);
  return std::nullopt;
}

std::optional<int> work_frame::origin_here() noexcept {
  fiber* const of = running_fiber();
  if (!of) return std::nullopt;
  for (const auto* f = static_cast<const work_frame*>(of->frame); f && f->task_ == of->task; f = f->outer_)
    if (f->kind_.origin) return f->kind_.origin(*f);
  return std::nullopt;
}

causal_context* work_frame::count_here(causal_context* outer) {
  fiber* const of = running_fiber();
  if (!of) return nullptr;
  for (auto* f = static_cast<work_frame*>(of->frame); f && f->task_ == of->task; f = f->outer_)
    if (f->kind_.account) return f->kind_.account(*f, outer);
  return nullptr;
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
