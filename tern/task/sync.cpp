// SPDX-License-Identifier: Apache-2.0
#include <tern/task/sync.hpp>

#include <mutex>
#include <string>

#include <tern/base/error.hpp>
#include <tern/base/log.hpp>

namespace tern {

mutex::~mutex() {
  if (held_) log_error("a tern::mutex was destroyed while locked");
}

void mutex::lock() {
  guard_.lock();
  if (!held_) {
    held_ = true;
    guard_.unlock();
    return;
  }
  detail::waiter self;
  waiters_.push(self);
  self.wait(guard_); // comes back owning the mutex: unlock hands it over
}

bool mutex::try_lock() {
  std::lock_guard hold(guard_);
  if (held_) return false;
  return held_ = true;
}

void mutex::unlock() {
  detail::waiter* next = nullptr;
  {
    std::lock_guard hold(guard_);
    if (!held_) throw error(errc::invalid_state, "a tern::mutex was unlocked that is not locked");
    next = waiters_.pop();
    if (!next) held_ = false;
  }
  if (next) next->wake();
}

void condition_variable::wait(std::unique_lock<mutex>& lock) {
  if (!lock.owns_lock()) throw error(errc::invalid_state, "condition_variable::wait needs a lock that owns its mutex");
  guard_.lock();
  detail::waiter self;
  waiters_.push(self);
  // Unlocking the mutex before this context is suspended is right: a notifier finds the waiter in the list already, and
  // cannot wake it before `guard_` is free.
  lock.unlock();
  self.wait(guard_);
  lock.lock();
}

void condition_variable::notify_one() {
  detail::waiter* w = nullptr;
  {
    std::lock_guard hold(guard_);
    w = waiters_.pop();
  }
  if (w) w->wake();
}

void condition_variable::notify_all() {
  detail::waiter* chain = nullptr;
  {
    std::lock_guard hold(guard_);
    chain = waiters_.take();
  }
  detail::waiter_list::wake_all(chain);
}

latch::latch(std::ptrdiff_t count) : left_(count) {
  if (count < 0)
    throw error(errc::invalid_argument, "a latch cannot start at " + std::to_string(count), "start at 0 or more");
}

void latch::count_down(std::ptrdiff_t n) {
  detail::waiter* chain = nullptr;
  {
    std::lock_guard hold(guard_);
    if (n < 0 || n > left_)
      throw error(errc::invalid_state,
                  "a latch with " + std::to_string(left_) + " left was counted down by " + std::to_string(n));
    left_ -= n;
    if (left_ == 0) chain = waiters_.take();
  }
  detail::waiter_list::wake_all(chain);
}

bool latch::try_wait() const {
  std::lock_guard hold(guard_);
  return left_ == 0;
}

void latch::wait() {
  guard_.lock();
  if (left_ == 0) {
    guard_.unlock();
    return;
  }
  detail::waiter self;
  waiters_.push(self);
  self.wait(guard_);
}

} // namespace tern
