// SPDX-License-Identifier: Apache-2.0
/// \file
/// Waiting: for a waker, for a time, for a cancellation.
#include <tern/task/wait/wait_list.hpp>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <new>
#include <string>
#include <thread>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <tern/task/fiber/fiber_state.hpp>
#include <tern/task/fiber/worker_head.hpp>
#include <tern/task/wait/suspension.hpp>
#include <tern/task/wait/timer_wheel.hpp>

namespace tern::detail {

void spin_lock::back_off(int tries) noexcept {
  if (tries < 64)
    relax();
  else
    std::this_thread::yield(); // the holder's thread may have been preempted
}

std::uintptr_t this_context() noexcept {
  // address: says which context it is; contexts are compared for being the same only
  if (fiber* const f = running_fiber()) return reinterpret_cast<std::uintptr_t>(f);
  static thread_local char here; // not inside a fiber, so nothing switches below
  // address: as above
  return reinterpret_cast<std::uintptr_t>(&here) | 1;
}

std::int64_t deadline_after(std::chrono::nanoseconds d) noexcept {
  const std::int64_t now = clock_now();
  return d.count() >= wait_limit::never - now ? wait_limit::never : now + std::max<std::int64_t>(0, d.count());
}

struct waiter::limits : timer {
  struct stop_now {
    waiter* self;
    void operator()() const noexcept { self->give_up(stopped); }
  };
  limits(waiter& w, spin_lock& g, const wait_limit& l) noexcept : self(w), guard(g), stop(l.stop) {
    deadline = l.deadline;
  }
  ~limits() {} // `disarm` has done it

  // Once the waiting context can be resumed. The guard is held: giving up the wait takes it first.
  void arm() noexcept {
    if (deadline != wait_limit::never) {
      where = this_worker_head();
      set_timer(*where, *this);
    }
    watch_stop();
  }
  void watch_stop() noexcept {
    if (!stop || !stop->stop_possible()) return;
    watched = true; // before: it may be called at once
    ::new (static_cast<void*>(&callback)) std::stop_callback<stop_now>(*stop, stop_now{&self});
  }
  void disarm() noexcept {
    if (watched) callback.~stop_callback(); // waits for one that is being called
    if (!where) return;
    remove_timer(*where, *this); // waits for the firing
  }

  waiter& self;
  spin_lock& guard;
  const std::stop_token* stop;
  worker_head* where = nullptr; // the worker whose clock it uses
  bool watched = false;
  union {
    std::stop_callback<stop_now> callback; // if watched
  };
};

void waiter::expire(timer& t) noexcept { static_cast<limits&>(t).self.give_up(expired); }

// Waiters ------------------------------------------------------------------------------------------------------------

waiter::waiter(const wait_reason& why) noexcept : fiber_(running_fiber()) {
  if (fiber_) announce_wait(*fiber_, why, ticks());
}

waiter::~waiter() {
  if (fiber_) fiber_->waits.store(wait_kind::none, std::memory_order_relaxed);
}

void waiter::wait(spin_lock& guard) noexcept {
  if (!fiber_) {
    guard.unlock();
    sleep();
    return;
  }
  leave([](fiber*, void* g) { static_cast<spin_lock*>(g)->unlock(); }, &guard);
}

void waiter::wait(void (*unlock)(void*), void* guard) noexcept {
  if (!fiber_) {
    unlock(guard);
    sleep();
    return;
  }
  struct pair {
    void (*unlock)(void*);
    void* guard;
  } by{unlock, guard};
  // Read while the stack that it is on cannot be resumed: before the lock is released.
  leave(
      [](fiber*, void* b) {
        const pair p = *static_cast<pair*>(b);
        p.unlock(p.guard);
      },
      &by);
}

wait_result waiter::wait(spin_lock& guard, waiter_list& list, const wait_limit& limit) noexcept {
  const bool stoppable = limit.stop && limit.stop->stop_possible();
  if (limit.deadline == wait_limit::never && !stoppable) {
    wait(guard);
    return wait_result::woken;
  }
  const bool stop = stoppable && limit.stop->stop_requested();
  if (stop || limit.deadline <= clock_now()) {
    list.remove(*this);
    guard.unlock();
    return stop ? wait_result::cancelled : wait_result::timed_out;
  }
  limits l(*this, guard, limit);
  limits_ = &l;
  if (fiber_) {
    leave(
        [](fiber*, void* p) {
          auto* mine = static_cast<limits*>(p);
          mine->arm();
          mine->guard.unlock();
        },
        &l);
  } else {
    l.watch_stop();
    guard.unlock();
    sleep_until(limit.deadline);
  }
  const std::uint32_t how = state_.load(std::memory_order_acquire);
  if (how == expired || how == stopped) {
    // Also waits until the worker that ran `arm` is done with `l`.
    std::lock_guard hold(guard);
    if (linked_) list.remove(*this);
  }
  l.disarm();
  return how == expired ? wait_result::timed_out : how == stopped ? wait_result::cancelled : wait_result::woken;
}

// By a timer or a stop_callback. Once the state is changed, the waiter may be gone; but not before
// both are: see disarm.
void waiter::give_up(std::uint32_t how) noexcept {
  fiber* const f = fiber_;
  std::uint32_t expected = waiting;
  if (!state_.compare_exchange_strong(expected, how, std::memory_order_acq_rel)) return;
  if (f)
    resume(*f);
  else
    syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void waiter::sleep() noexcept {
  // acquire: pairs with the release in wake, so that what the waker did before is visible.
  for (std::uint32_t s; (s = state_.load(std::memory_order_acquire)) != awake;)
    syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, s, nullptr, nullptr, 0);
}

void waiter::sleep_until(std::int64_t deadline) noexcept {
  for (;;) {
    std::uint32_t s = state_.load(std::memory_order_acquire);
    if (s == awake || s == stopped) return;
    timespec left{};
    const bool limited = s == waiting && deadline != wait_limit::never;
    if (limited) {
      const std::int64_t ns = deadline - clock_now();
      if (ns <= 0) {
        if (state_.compare_exchange_strong(s, expired, std::memory_order_acq_rel)) return;
        continue; // a waker is about to wake us
      }
      left = {ns / 1'000'000'000, ns % 1'000'000'000};
    }
    syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, s, limited ? &left : nullptr, nullptr, 0);
  }
}

void waiter::wake_next() noexcept {
  if (fiber_)
    resume_next(*fiber_);
  else
    wake();
}

void waiter::wake() noexcept {
  if (fiber_) {
    __builtin_prefetch(fiber_, 1); // it will be written to: fetched for reading, its line would travel twice
    resume(*fiber_);
    return;
  }
  state_.store(awake, std::memory_order_release);
  // The waiter may be gone by now; the kernel only uses the address, never the value behind it.
  syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

} // namespace tern::detail
