// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What an event source does in the fiber that worker 0 keeps for it (`event_source::in_fiber`). Internal to Tern's
/// layers.

#include <atomic>
#include <cstring>

#include <tern/task/fiber/fiber_name.hpp>
#include <tern/task/fiber/locals.hpp>
#include <tern/task/fiber/sanitizer.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::detail {

/// Pieces of work, one after the other: from its `begin` to the next, or to the end of this object, the calling fiber
/// is, to everybody who looks, a fiber of its own: it has a number that no other has had, a name, its own
/// `fiber_local`s, and an end. May be destroyed on another worker than it began on, if it waited.
class errands {
public:
  /// \pre in `event_source::in_fiber`, and `stays()`.
  errands() noexcept : self_(this_worker()->running) {}
  ~errands() {
    if (begun_) end();
  }
  errands(const errands&) = delete;
  errands& operator=(const errands&) = delete;
  /// The next one. \pre `go_on()`. \param w the calling worker.
  void begin(worker& w, const fiber_name& name) noexcept {
    fiber& f = *self_;
    if ((f.attention & attention::traced) != 0) [[unlikely]]
      leave_trace();
    rename(f, name);
    if (!begun_) f.runner.store(false, std::memory_order_relaxed);
    begun_ = true;
    take_number(w);
  }
  /// The next one, of the same name as the last.
  void repeat(worker& w) noexcept {
    if ((self_->attention & attention::traced) != 0) [[unlikely]]
      leave_trace();
    take_number(w);
  }
  /// Ends the `fiber_local`s of the last one, whose destructors may wait. \return `stays()`.
  bool go_on() noexcept {
    if (self_->locals) [[unlikely]]
      destroy_locals(*self_);
    return stays();
  }

  /// Does the calling context still work for worker 0's events? No longer after it has waited and gone on elsewhere, or
  /// after another fiber has taken its place: then it returns from `in_fiber`.
  static bool stays() noexcept {
    const worker* const w = this_worker();
    return w && w->running && w->errands == w->running;
  }

private:
  static void rename(fiber& f, const fiber_name& name) noexcept {
    static_assert(sizeof f.name == sizeof name);
    std::memcpy(f.name, name.data(), sizeof f.name);
    tsan::name_fiber(f.tsan_fiber, f.name);
  }
  void take_number(worker& w) noexcept {
    self_->id.store(self_->home->new_id(&w), std::memory_order_relaxed);
    if ((self_->attention & attention::traced) != 0) [[unlikely]]
      enter_trace();
  }
  void end() noexcept;
  void leave_trace() noexcept;
  void enter_trace() noexcept;
  fiber* const self_;
  bool begun_ = false;
};

} // namespace tern::detail
