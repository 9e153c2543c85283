// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a layer above keeps for a scheduler. Internal to Tern's layers.

#include <atomic>
#include <chrono>
#include <string>

#include <tern/task/wait/wait_list.hpp>

namespace tern::detail {

struct scheduler_core;

/// Made when it is first needed.
class scheduler_extension {
public:
  virtual ~scheduler_extension() = default;
  /// The scheduler is about to be destroyed; the extension destroys itself, now or later.
  virtual void ends() noexcept = 0;
  /// Its part of dumps and reports: which fiber waits there for what, in lines that begin with two
  /// blanks, each with its end; empty if none waits. Any thread, while the scheduler works or is
  /// stuck: it waits no longer than `limit` for a lock, and says so where it could not have one.
  virtual std::string describe(std::chrono::milliseconds limit) = 0;
  /// How many operations are under way that no worker works on, such as kernels and copies at
  /// devices: while there are some, a scheduler whose fibers all wait is not stuck. Any thread; it
  /// takes no lock.
  virtual int at_work() const noexcept = 0;
};

/// Where a scheduler keeps its extension.
class extension_slot {
public:
  /// Null: there is none yet. acquire: a worker may have made it.
  scheduler_extension* get() const noexcept { return made_.load(std::memory_order_acquire); }
  /// The extension; the first caller makes it by `make(home)`, which may throw and may take long:
  /// others wait, as fibers.
  scheduler_extension& get_or_make(scheduler_extension* (*make)(scheduler_core&), scheduler_core& home);
  /// There is none from now on.
  /// \return the extension; null: there was none.
  scheduler_extension* take() noexcept { return made_.exchange(nullptr, std::memory_order_acq_rel); }

private:
  std::atomic<scheduler_extension*> made_{nullptr};
  spin_lock guard_;     // protects what follows
  bool making_ = false; // a caller is in `make`
  waiter_list waiting_; // for it
};

} // namespace tern::detail
