// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What an invocation has submitted keeps its object here. Internal.

#include <atomic>
#include <cstdint>
#include <vector>

#include <tern/mobile/load/device_time.hpp>
#include <tern/mobile/object_id.hpp>
#include <tern/task/fiber/charged_context.hpp>

namespace tern::mobile {

struct entry;

namespace detail {

class admission;
class running_invocation;

/// Counts tasks that an invocation has submitted, and those that these submit, until they have
/// completed: so long its objects neither leave nor end, though invocations of them go on
/// (admission::keep). The invocation makes it with its first task, and leaves it at its end. The
/// last one that is counted deletes it, and what tasks took of devices is charged to the main
/// object then.
///
/// Threads: `count` and `leave` by the fiber of the invocation; the rest by any. Source: as
/// group_state: what that fiber counts needs no atomic operation.
class object_keep final : public tern::detail::charged_context {
public:
  /// \param of the main one first. \param outer in what the tasks run; counted once. \pre the
  /// invocation has the objects.
  object_keep(admission& a, std::vector<entry*> of, tern::detail::causal_context* outer);
  object_keep(const object_keep&) = delete;
  object_keep& operator=(const object_keep&) = delete;
  tern::detail::causal_context* outer() const noexcept { return outer_.get(); }

  /// One more, by the invocation.
  void count() noexcept { ++own_; }
  /// The invocation ends, or goes on in another context.
  void leave() noexcept { take(invocation - own_); }

  void retain() noexcept override { left_.fetch_add(1, std::memory_order_relaxed); } // the caller is counted
  void release() noexcept override { take(1); }
  tern::detail::causal_context* runs_in() noexcept override { return outer_.get(); }
  // relaxed: the task is released afterwards, by the same thread
  void charge(double seconds, double amount) noexcept override {
    seconds_.fetch_add(seconds, std::memory_order_relaxed);
    amount_.fetch_add(amount, std::memory_order_relaxed);
  }

private:
  ~object_keep() = default;
  /// Of `left_`, while the invocation has it: more than it ever submits.
  static constexpr std::int64_t invocation = std::int64_t{1} << 62;
  // acq_rel: what the tasks did with the object is visible to what has it next.
  void take(std::int64_t n) noexcept {
    if (left_.fetch_sub(n, std::memory_order_acq_rel) == n) end();
  }
  void end() noexcept;

  admission& admission_;
  struct kept {
    entry* of;
    object_id id;
  };
  std::vector<kept> of_;
  const std::uint32_t round_; // rank_objects::round
  const tern::detail::held_context outer_;
  std::int64_t own_ = 0;
  std::atomic<std::int64_t> left_{invocation};
  std::atomic<double> seconds_{0}, amount_{0}; // of devices
};

} // namespace detail
} // namespace tern::mobile
