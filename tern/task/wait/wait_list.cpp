// SPDX-License-Identifier: Apache-2.0
/// \file
/// Waiting: for somebody, for a time, for a cancellation.
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

#include <tern/task/fiber.hpp>
#include <tern/task/scheduler/registry.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>
#include <tern/task/sim/simulated_executor.hpp>
#include <tern/task/wait/timed_function.hpp>

namespace tern::detail {

void spin_lock::back_off(int tries) noexcept {
  if (tries < 64)
    relax();
  else
    std::this_thread::yield(); // the holder's thread may have been preempted
}

std::uintptr_t this_context() noexcept {
  const worker* w = this_worker();
  // address: says who it is; contexts are compared for being the same only
  if (w && w->running) return reinterpret_cast<std::uintptr_t>(static_cast<fiber*>(w->running));
  static thread_local char here; // not inside a fiber, so nothing switches below
  // address: as above
  return reinterpret_cast<std::uintptr_t>(&here) | 1;
}

std::string fiber::called() const {
  return std::to_string(id.load(std::memory_order_relaxed)) + (name[0] ? " '" + std::string(name) + "'" : "");
}

std::string describe_context(std::uintptr_t context) {
  if (context == 0) return "nobody";
  if ((context & 1) == 0) return describe_fiber_at(context);
  return context == this_context() ? "thread " + std::to_string(syscall(SYS_gettid)) : "a thread";
}

std::int64_t clock_now() noexcept {
  const worker* w = this_worker();
  return w ? w->home->now() : std::chrono::steady_clock::now().time_since_epoch().count();
}

std::int64_t deadline_after(std::chrono::nanoseconds d) noexcept {
  const std::int64_t now = clock_now();
  return d.count() >= wait_limit::never - now ? wait_limit::never : now + std::max<std::int64_t>(0, d.count());
}

void schedule_point() noexcept {
  const worker* w = this_worker();
  if (w && w->home->engine && w->running && w->home->engine->preempt()) this_fiber::yield();
}

// Timers -------------------------------------------------------------------------------------------------------------

namespace {

void set_timer(worker& where, timer& t) noexcept {
  scheduler_core* const home = where.home;
  const std::int64_t deadline = t.deadline;
  home->timers.fetch_add(1, std::memory_order_relaxed);
  {
    std::lock_guard hold(where.alarms.guard);
    if (!where.alarms.wheel) where.alarms.wheel = std::make_unique<timer_wheel>();
    where.alarms.wheel->add(t);
    where.alarms.next.store(where.alarms.wheel->next(), std::memory_order_relaxed);
  }
  home->alarm_set(deadline);
}

// Waits while others are taken out to be fired. \return false if it has been, too.
bool remove_timer(worker& where, timer& t) noexcept {
  std::lock_guard hold(where.alarms.guard);
  if (!t.armed) return false;
  where.alarms.wheel->remove(t);
  where.alarms.next.store(where.alarms.wheel->next(), std::memory_order_relaxed);
  where.home->timers.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

} // namespace

void timed_function::set(std::int64_t moment) noexcept {
  deadline = moment;
  where_ = this_worker();
  set_timer(*where_, *this);
}

bool timed_function::cancel() noexcept { return where_ && remove_timer(*where_, *this); }

struct waiter::limits : timer {
  struct stop_now {
    waiter* self;
    void operator()() const noexcept { self->give_up(stopped); }
  };
  limits(waiter& w, spin_lock& g, const wait_limit& l) noexcept : self(w), guard(g), stop(l.stop) {
    deadline = l.deadline;
  }
  ~limits() {} // `disarm` has done it

  // Once the waiting context can be resumed. The guard is held: whoever gives up waiting takes it first.
  void arm() noexcept {
    if (deadline != wait_limit::never) {
      where = this_worker();
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
  worker* where = nullptr; // on whose clock
  bool watched = false;
  union {
    std::stop_callback<stop_now> callback; // if watched
  };
};

std::int64_t scheduler_core::now() const noexcept {
  return engine ? engine->now() : std::chrono::steady_clock::now().time_since_epoch().count();
}

bool scheduler_core::ring(worker& whose, std::int64_t time) noexcept {
  alarm_clock& a = whose.alarms;
  if (a.next.load(std::memory_order_relaxed) > time) return false;
  timer* functions = nullptr;
  int fired = 0;
  {
    std::lock_guard hold(a.guard);
    timer** last = &functions;
    for (timer* t = a.wheel->advance(time); t; ++fired) {
      timer* const next = t->next;
      if (t->calls) {
        *last = t;
        last = &t->next;
      } else {
        static_cast<waiter::limits*>(t)->self.give_up(waiter::expired); // under the guard: see disarm
      }
      t = next;
    }
    *last = nullptr;
    a.next.store(a.wheel->next(), std::memory_order_relaxed);
  }
  while (functions) { // without the guard: they may set others
    timer* const next = functions->next;
    auto* const f = static_cast<timed_function*>(functions);
    f->call_(*f);
    functions = next;
  }
  timers.fetch_sub(fired, std::memory_order_relaxed);
  return fired > 0;
}

bool scheduler_core::ring_all() noexcept {
  const std::int64_t time = now();
  bool any = false;
  for (auto& w : workers) any = ring(*w, time) || any;
  return any;
}

std::int64_t scheduler_core::next_alarm() const noexcept {
  std::int64_t first = wait_limit::never;
  for (const auto& w : workers) first = std::min(first, w->alarms.next.load(std::memory_order_relaxed));
  return first;
}

void scheduler_core::alarm_set(std::int64_t deadline) noexcept {
  if (engine) return;
  // With the same in `park`: either that sees the timer, or this sees who sleeps and until when.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (asleep.load(std::memory_order_seq_cst) > 0 && searching.load(std::memory_order_seq_cst) <= 0 &&
      deadline < sleeps_until.load(std::memory_order_seq_cst))
    wake_one();
}

// Waiters ------------------------------------------------------------------------------------------------------------

void announce_wait(fiber& f, const wait_reason& why, std::int64_t since) noexcept {
  f.waits_for.store(why.object, std::memory_order_relaxed);
  f.waits_on.store(why.owner, std::memory_order_relaxed);
  f.waits_since.store(since, std::memory_order_relaxed);
  // release: whoever reads the kind (dump_fibers) reads what belongs to it.
  f.waits.store(why.kind, std::memory_order_release);
}

waiter::waiter(const wait_reason& why) noexcept
    : fiber_(this_worker() ? static_cast<fiber*>(this_worker()->running) : nullptr) {
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
    // Also waits until whoever put us to sleep is done with `l`.
    std::lock_guard hold(guard);
    if (linked_) list.remove(*this);
  }
  l.disarm();
  return how == expired ? wait_result::timed_out : how == stopped ? wait_result::cancelled : wait_result::woken;
}

// By a timer or a stop_callback. Once the state is changed, the waiter may be gone; but not before both are: see
// disarm.
void waiter::give_up(std::uint32_t how) noexcept {
  fiber* const f = fiber_;
  std::uint32_t expected = waiting;
  if (!state_.compare_exchange_strong(expected, how, std::memory_order_acq_rel)) return;
  if (f)
    f->home->ready(f);
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
        continue; // somebody is about to wake us
      }
      left = {ns / 1'000'000'000, ns % 1'000'000'000};
    }
    syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, s, limited ? &left : nullptr, nullptr, 0);
  }
}

void waiter::wake_next() noexcept {
  fiber* const f = fiber_;
  worker* w = this_worker();
  const bool here = f && w && w->home == f->home; // once it is awake, its scheduler may come to its end
  wake();
  if (here) w->hint = f;
}

void waiter::wake() noexcept {
  if (fiber_) {
    __builtin_prefetch(fiber_, 1); // it will be written to: fetched for reading, its line would travel twice
    fiber_->home->ready(fiber_);
    return;
  }
  state_.store(awake, std::memory_order_release);
  // The waiter may be gone by now; the kernel only uses the address, never the value behind it.
  syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

} // namespace tern::detail
