// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What an event source does in the fiber that worker 0 keeps for it
/// (`event_source::run_in_fiber`). Internal to Tern's layers.

#include <atomic>
#include <cstring>

#include <tern/task/fiber/locals.hpp>
#include <tern/task/fiber/sanitizer.hpp>
#include <tern/task/fiber_options.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::detail {

/// Runs pieces of work (handlers) one after another in one pooled fiber. Each piece, from its
/// `begin` to the next or to the end of this object, has its own id, name and `fiber_local`
/// variables, in dumps and traces too. May be destroyed on another worker than it began on, if it
/// waited.
class polling_fiber {
public:
  /// \pre in `event_source::run_in_fiber`, and `may_continue()`.
  polling_fiber() noexcept : self_(this_worker()->running) {}
  ~polling_fiber() {
    if (begun_) end();
  }
  polling_fiber(const polling_fiber&) = delete;
  polling_fiber& operator=(const polling_fiber&) = delete;
  /// The next one.
  /// \pre `end_piece()`.
  /// \param w the calling worker.
  void begin(worker& w, const fiber_name& name) noexcept {
    fiber& f = *self_;
    if ((f.leave_flags & leave_flags::traced) != 0) [[unlikely]]
      leave_trace();
    rename(f, name);
    if (!begun_) f.runner.store(false, std::memory_order_relaxed);
    begun_ = true;
    take_number(w);
  }
  /// The next one, of the same name as the last.
  void repeat(worker& w) noexcept {
    if ((self_->leave_flags & leave_flags::traced) != 0) [[unlikely]]
      leave_trace();
    take_number(w);
  }
  /// Ends the `fiber_local`s of the last one, whose destructors may wait.
  /// \return `may_continue()`.
  bool end_piece() noexcept {
    if (self_->locals) [[unlikely]]
      destroy_locals(*self_);
    return may_continue();
  }

  /// Does the calling context still work for worker 0's events? No longer after it has waited and
  /// gone on elsewhere, or after another fiber has taken its place: then it returns from
  /// `run_in_fiber`.
  static bool may_continue() noexcept {
    const worker* const w = this_worker();
    return w && w->running && w->poll_runner == w->running;
  }

private:
  static void rename(fiber& f, const fiber_name& name) noexcept {
    static_assert(sizeof f.name == sizeof name);
    std::memcpy(f.name, name.data(), sizeof f.name);
    tsan::name_fiber(f.tsan_fiber, f.name);
  }
  void take_number(worker& w) noexcept {
    self_->id.store(self_->home->fibers.new_id(&w), std::memory_order_relaxed);
    if ((self_->leave_flags & leave_flags::traced) != 0) [[unlikely]]
      enter_trace();
  }
  void end() noexcept;
  void leave_trace() noexcept;
  void enter_trace() noexcept;
  fiber* const self_;
  bool begun_ = false;
};

} // namespace tern::detail
