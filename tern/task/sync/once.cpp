// SPDX-License-Identifier: Apache-2.0
#include <tern/task/once.hpp>

#include <mutex>

#include <tern/base/error.hpp>
#include <tern/task/wait/deadline.hpp>

namespace tern {

once_flag::~once_flag() {
  if (running_) detail::report_destroyed("once_flag", "a context is inside its call");
}

// True: the caller shall call. False: it has been done.
bool once_flag::begin() {
  detail::schedule_point();
  const std::uintptr_t me = detail::this_context();
  guard_.lock();
  if (!done_.load(std::memory_order_relaxed) && running_) {
    if (runner_.load(std::memory_order_relaxed) == me) {
      guard_.unlock();
      throw error(errc::deadlock, detail::describe_context(me) + " called call_once from inside the call itself",
                  "what is called once must not need its own result");
    }
    detail::waiter self({detail::wait_kind::once, this, &runner_});
    waiters_.push(self);
    self.wait(guard_);
    if (done_.load(std::memory_order_acquire)) return false;
    // The one before has failed, and has left `running_` to the caller.
    runner_.store(me, std::memory_order_relaxed);
    return true;
  }
  const bool mine = !done_.load(std::memory_order_relaxed);
  if (mine) {
    running_ = true;
    runner_.store(me, std::memory_order_relaxed);
  }
  guard_.unlock();
  return mine;
}

void once_flag::end(bool done) noexcept {
  detail::schedule_point();
  detail::waiter* chain = nullptr;
  {
    std::lock_guard hold(guard_);
    runner_.store(0, std::memory_order_relaxed);
    if (done) {
      // release: pairs with the acquire of those that look without the lock.
      done_.store(true, std::memory_order_release);
      chain = waiters_.take();
    } else if ((chain = waiters_.pop())) {
      chain->next = nullptr;
    }
    running_ = !done && chain;
  }
  detail::waiter_list::wake_all(chain);
}

} // namespace tern
