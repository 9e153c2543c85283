// SPDX-License-Identifier: Apache-2.0
#include <tern/task/future.hpp>

#include <mutex>

namespace tern::detail {

bool future_state_base::ready() const {
  std::lock_guard hold(guard_);
  return ready_;
}

void future_state_base::wait() {
  guard_.lock();
  if (ready_) {
    guard_.unlock();
    return;
  }
  waiter self;
  waiters_.push(self);
  self.wait(guard_);
}

void future_state_base::claim() {
  std::lock_guard hold(guard_);
  if (std::exchange(claimed_, true))
    throw error(errc::already_exists, "a promise was given a second value or exception",
                "set each promise exactly once");
}

void future_state_base::unclaim() noexcept {
  std::lock_guard hold(guard_);
  claimed_ = false;
}

bool future_state_base::claimed() const {
  std::lock_guard hold(guard_);
  return claimed_;
}

void future_state_base::publish() {
  waiter* chain = nullptr;
  {
    std::lock_guard hold(guard_);
    ready_ = true;
    chain = waiters_.take();
  }
  waiter_list::wake_all(chain);
}

void future_state_base::fail(std::exception_ptr e) {
  claim();
  exception_ = std::move(e);
  publish();
}

void throw_no_state(const char* what) {
  throw error(errc::invalid_state, std::string(what) + " was used without a shared state",
              "it was moved from, its value was already taken, or it was never made by a promise");
}

std::exception_ptr broken_promise_error(const std::string& place) {
  return std::make_exception_ptr(error(errc::broken_promise, "a promise was destroyed before its value was set",
                                       "the promise was made at the place named here", place));
}

} // namespace tern::detail
