// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include <tern/task/detail/core.hpp>
#include <tern/task/detail/wait.hpp>

namespace tern::detail {

void spin_lock::back_off(int tries) noexcept {
  if (tries < 64)
    relax();
  else
    std::this_thread::yield(); // the holder's thread may have been preempted
}

waiter::waiter() noexcept {
  worker* w = this_worker();
  fiber_ = w ? w->running : nullptr;
}

void waiter::wait(spin_lock& guard) noexcept {
  if (fiber_) {
    leave([](fiber*, void* g) { static_cast<spin_lock*>(g)->unlock(); }, &guard);
    return;
  }
  guard.unlock();
  sleep();
}

void waiter::sleep() noexcept {
  // acquire: pairs with the release in wake, so that what the waker did before is visible.
  while (!woken_.load(std::memory_order_acquire)) woken_.wait(0, std::memory_order_acquire);
}

void waiter::wake() noexcept {
  if (fiber_) {
    fiber_->home->ready(fiber_);
    return;
  }
  woken_.store(1, std::memory_order_release);
  // The waiter may be gone by now; the standard library's notify only uses the address, never the value behind it.
  woken_.notify_one();
}

} // namespace tern::detail
