// SPDX-License-Identifier: Apache-2.0
#include <tern/task/sync.hpp>

#include <mutex>
#include <string>

#include <tern/base/error.hpp>

namespace tern {

using detail::waiter;

condition_variable::~condition_variable() {
  if (!waiters_.empty()) detail::report_destroyed("condition_variable", "a context waits for it");
}

detail::wait_result condition_variable::suspend(std::unique_lock<mutex>& lock, const detail::wait_limit* limit) {
  detail::schedule_point();
  const auto me = detail::this_context();
  if (!lock.owns_lock()) throw error(errc::invalid_state, "condition_variable::wait needs a lock that owns its mutex");
  if (!lock.mutex()->owned_by(me)) lock.mutex()->throw_not_owner(me, "waits with");
  waiter self({detail::wait_kind::condition, this});
  guard_.lock();
  waiters_.push(self);
  // Unlocking the mutex before this context is suspended is right: a notifier finds the waiter in
  // the list already, and cannot wake it before `guard_` is free.
  lock.mutex()->release(me);
  auto result = detail::wait_result::woken;
  if (limit)
    result = self.wait(guard_, waiters_, *limit);
  else
    self.wait(guard_);
  lock.mutex()->lock();
  return result;
}

void condition_variable::notify_one() noexcept {
  detail::schedule_point();
  waiter* w = nullptr;
  {
    std::lock_guard hold(guard_);
    w = waiters_.pop();
  }
  if (w) w->wake();
}

void condition_variable::notify_all() noexcept {
  detail::schedule_point();
  waiter* chain = nullptr;
  {
    std::lock_guard hold(guard_);
    chain = waiters_.take();
  }
  detail::waiter_list::wake_all(chain);
}

} // namespace tern
