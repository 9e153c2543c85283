// SPDX-License-Identifier: Apache-2.0
#include <tern/task/barrier.hpp>

#include <mutex>
#include <string>

#include <tern/base/error.hpp>

namespace tern {

latch::latch(std::ptrdiff_t count) : left_(count) {
  if (count < 0)
    throw error(errc::invalid_argument, "a latch cannot start at " + std::to_string(count), "start at 0 or more");
}

latch::~latch() {
  if (!waiters_.empty()) detail::report_destroyed("latch", "a context waits for it");
}

void latch::count_down(std::ptrdiff_t n) {
  detail::schedule_point();
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

bool latch::try_wait() const noexcept {
  detail::schedule_point();
  std::lock_guard hold(guard_);
  return left_ == 0;
}

void latch::wait() noexcept {
  detail::schedule_point();
  guard_.lock();
  if (left_ == 0) {
    guard_.unlock();
    return;
  }
  detail::waiter self({detail::wait_kind::latch, this});
  waiters_.push(self);
  self.wait(guard_);
}

bool latch::wait_till(std::int64_t deadline) noexcept {
  detail::schedule_point();
  guard_.lock();
  if (left_ == 0) {
    guard_.unlock();
    return true;
  }
  detail::waiter self({detail::wait_kind::latch, this});
  waiters_.push(self);
  return self.wait(guard_, waiters_, {deadline}) == detail::wait_result::woken;
}

namespace detail {

barrier_core::barrier_core(std::ptrdiff_t expected) : expected_(expected), pending_(expected) {
  if (expected < 0)
    throw error(errc::invalid_argument, "a barrier cannot have " + std::to_string(expected) + " participants",
                "give 0 or more");
}

barrier_core::~barrier_core() {
  if (!waiters_.empty()) report_destroyed("barrier", "a context waits at it");
}

barrier_core::arrival barrier_core::arrive(std::ptrdiff_t n, bool drop) {
  schedule_point();
  std::lock_guard hold(guard_);
  if (n < 1 || n > pending_)
    throw error(errc::invalid_state,
                std::to_string(n) + " arrived at a barrier where " + std::to_string(pending_) + " were still expected",
                "each participant arrives once a phase, and no more after it has dropped out");
  pending_ -= n;
  if (drop) --expected_;
  return {phase_, pending_ == 0};
}

void barrier_core::next_phase() noexcept {
  waiter* chain = nullptr;
  {
    std::lock_guard hold(guard_);
    ++phase_;
    pending_ = expected_;
    chain = waiters_.take();
  }
  waiter_list::wake_all(chain);
}

void barrier_core::wait(std::uint64_t phase) noexcept {
  schedule_point();
  guard_.lock();
  if (phase_ != phase) {
    guard_.unlock();
    return;
  }
  waiter self({wait_kind::barrier, this});
  waiters_.push(self);
  self.wait(guard_);
}

} // namespace detail
} // namespace tern
