// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Handlers that run one after another in a pooled fiber: for the events of worker 0
/// (`event_source::run_in_fiber`), and for activations. Internal to Tern's layers.

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
class handler_fiber {
public:
  handler_fiber(const handler_fiber&) = delete;
  handler_fiber& operator=(const handler_fiber&) = delete;
  /// The next one.
  /// \pre the last one's `end_piece()` was true.
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

protected:
  handler_fiber() noexcept : self_(this_worker()->running) {}
  ~handler_fiber() {
    if (begun_) end();
  }
  /// Ends the `fiber_local`s of the last one, whose destructors may wait.
  void end_locals() noexcept {
    if (self_->locals) [[unlikely]]
      destroy_locals(*self_);
  }

private:
  static void rename(fiber& f, const fiber_name& name) noexcept {
    static_assert(sizeof f.name == sizeof name);
    std::memcpy(f.name, name.data(), sizeof f.name);
    tsan::name_fiber(f.tsan_fiber, f.name);
  }
  void take_number(worker& w) noexcept {
    self_->handed_by = 0;
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

/// A handler's fiber that works for what one member of its worker says.
template <fiber* worker::*Runner> class handler_fiber_of : public handler_fiber {
public:
  /// \return `may_continue()`.
  bool end_piece() noexcept {
    end_locals();
    return may_continue();
  }
  /// Does the calling fiber still have what it was entered for? No longer after it has waited and
  /// gone on elsewhere, or after another fiber has taken its place: then it touches that no more,
  /// and returns.
  static bool may_continue() noexcept {
    const worker* const w = this_worker();
    return w && w->running && w->*Runner == w->running;
  }
};

/// For worker 0's events. \pre in `event_source::run_in_fiber`, and `may_continue()`.
class polling_fiber final : public handler_fiber_of<&worker::poll_runner> {};

/// For an activation. \pre in `activation::run`, and `may_continue()`.
class activation_fiber final : public handler_fiber_of<&worker::activation_runner> {};

} // namespace tern::detail
