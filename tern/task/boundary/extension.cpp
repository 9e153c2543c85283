// SPDX-License-Identifier: Apache-2.0
#include <tern/task/boundary/extension.hpp>

#include <mutex>
#include <utility>

namespace tern::detail {

scheduler_extension& extension_slot::get_or_make(scheduler_extension* (*make)(scheduler_core&), scheduler_core& home) {
  schedule_point();
  for (;;) {
    guard_.lock();
    if (scheduler_extension* const x = get()) {
      guard_.unlock();
      return *x;
    }
    if (!std::exchange(making_, true)) break;
    waiter self({wait_kind::once, this});
    waiting_.push(self);
    self.wait(guard_);
  }
  guard_.unlock();
  const auto end = [this](scheduler_extension* x) noexcept {
    waiter* all = nullptr;
    {
      const std::lock_guard hold(guard_);
      made_.store(x, std::memory_order_release);
      making_ = false;
      all = waiting_.take();
    }
    waiter_list::wake_all(all);
  };
  try {
    scheduler_extension* const x = make(home);
    end(x);
    return *x;
  } catch (...) {
    end(nullptr); // the next caller tries again
    throw;
  }
}

} // namespace tern::detail
