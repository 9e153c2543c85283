// SPDX-License-Identifier: Apache-2.0
#include <tern/task/semaphore.hpp>

#include <mutex>
#include <string>

#include <tern/base/error.hpp>

namespace tern {

semaphore::semaphore(std::ptrdiff_t count) : count_(count) {
  if (count < 0)
    throw error(errc::invalid_argument, "a semaphore cannot start at " + std::to_string(count), "start at 0 or more");
}

semaphore::~semaphore() {
  if (!waiters_.empty()) detail::report_destroyed("semaphore", "a context waits for it");
}

bool semaphore::try_acquire() noexcept {
  detail::schedule_point();
  std::lock_guard hold(guard_);
  if (count_ == 0) return false;
  --count_;
  return true;
}

bool semaphore::acquire(const detail::wait_limit* limit) noexcept {
  detail::schedule_point();
  guard_.lock();
  if (count_ > 0) {
    --count_;
    guard_.unlock();
    return true;
  }
  detail::waiter self({detail::wait_kind::semaphore, this});
  waiters_.push(self);
  if (limit) return self.wait(guard_, waiters_, *limit) == detail::wait_result::woken;
  self.wait(guard_);
  return true;
}

void semaphore::release(std::ptrdiff_t n) {
  detail::schedule_point();
  if (n < 0)
    throw error(errc::invalid_argument, "a semaphore was released " + std::to_string(n) + " times",
                "release 0 or more; acquire takes");
  detail::waiter *first = nullptr, *last = nullptr;
  {
    std::lock_guard hold(guard_);
    if (n > max() - count_)
      throw error(errc::invalid_state, "a semaphore that stands at " + std::to_string(count_) + " was released " +
                                           std::to_string(n) + " times, which is more than it can count");
    count_ += n;
    while (count_ > 0) {
      detail::waiter* w = waiters_.pop();
      if (!w) break;
      --count_;
      w->next = nullptr;
      (last ? last->next : first) = w;
      last = w;
    }
  }
  detail::waiter_list::wake_all(first);
}

} // namespace tern
