// SPDX-License-Identifier: Apache-2.0
#include <tern/task/sync.hpp>

#include <mutex>
#include <string>

#include <tern/base/error.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/sim.hpp>

namespace tern {
namespace {

using detail::waiter;
using word = std::uintptr_t;

// The flags beside the owner in mutex::word_. Contexts are addresses or counters: they never reach
// these bits.
//   contended:  a waiter is in the list. Set and cleared under the guard only.
//   called_out: the first waiter has been taken out of the list and woken, and will try to take the
//               mutex.
//   reserved:   and no other context may take it now.
// If the mutex is free and a waiter is in the list, one has been woken.
constexpr word contended = word{1} << 63, called_out = word{1} << 62, reserved = word{1} << 61;
constexpr word owner_of(word w) noexcept { return w & (reserved - 1); }

// How often and how long others may take the mutex before the waiter that has been woken. Handing
// it over each time would make every critical section as long as a switch of fibers, or as the
// waking of a thread, which takes much longer.
constexpr std::uint32_t most_overtaken = 1024, looks_at_clock = 32;
constexpr std::int64_t patience = 50'000;
constexpr std::uintptr_t fresh = 0, called_before = 1; // waiter::data

// Looks at a taken mutex before giving the worker away: a critical section is often shorter than
// that.
constexpr int looks = 24;

bool others_run_now() noexcept {
  if (sim::active()) return false;
  const scheduler* s = scheduler::current();
  return !s || s->workers() > 1;
}

} // namespace

mutex::~mutex() {
  const word w = word_.load(std::memory_order_relaxed);
  if (owner_of(w)) {
    const word me = detail::this_context();
    try {
      detail::report_destroyed("mutex", owner_of(w) == me
                                            ? "it has it locked itself"
                                            : (detail::describe_context(owner_of(w)) + " has it locked").c_str());
    } catch (...) {
      detail::report_destroyed("mutex", "it is locked");
    }
  } else if (!waiters_.empty() || (w & called_out)) {
    detail::report_destroyed("mutex", "a context waits for it");
  }
}

void mutex::lock() {
  detail::schedule_point();
  const word me = detail::this_context();
  word seen = word_.load(std::memory_order_relaxed);
  if (!take(seen, me, false)) lock_slowly(me, nullptr);
}

bool mutex::lock_until(std::int64_t deadline) {
  detail::schedule_point();
  const word me = detail::this_context();
  word seen = word_.load(std::memory_order_relaxed);
  if (take(seen, me, false)) return true;
  const detail::wait_limit limit{deadline};
  return lock_slowly(me, &limit);
}

bool mutex::try_lock() {
  detail::schedule_point();
  word seen = word_.load(std::memory_order_relaxed);
  return take(seen, detail::this_context(), false);
}

// Takes the mutex if it can be taken now. \param seen what the caller has read; afterwards what
// there was.
// \param called the caller is the waiter that has been woken.
inline bool mutex::take(word& seen, word me, bool called) noexcept {
  while (!owner_of(seen) && (called || !(seen & reserved))) {
    const word next = me | (called ? seen & contended : seen);
    // acquire: what the previous owner wrote is visible; pairs with the release in `release`.
    if (!word_.compare_exchange_weak(seen, next, std::memory_order_acquire, std::memory_order_relaxed)) continue;
    if (!seen) [[likely]]
      return true;
    if (!called && (seen & called_out) && left_) {
      --left_;
      if (left_ % looks_at_clock == 0 && detail::clock_now() >= until_) left_ = 0;
    }
    if (seen & contended) owner_.store(me, std::memory_order_relaxed);
    return true;
  }
  return false;
}

bool mutex::spin(word me, bool called) noexcept {
  word seen = word_.load(std::memory_order_relaxed);
  if (take(seen, me, called)) return true;
  // A context that would stand behind others had better do something else. The woken one must run
  // for the mutex to be of use.
  if ((!called && (seen & (contended | called_out))) || !others_run_now()) return false;
  for (int i = 0; i < looks; ++i) {
    detail::relax();
    seen = word_.load(std::memory_order_relaxed);
    if (take(seen, me, called)) return true;
  }
  return false;
}

// Under the guard: takes the mutex, or else makes sure that its owner will look into the list.
bool mutex::take_or_announce(word me, bool called) noexcept {
  word seen = word_.load(std::memory_order_relaxed);
  for (;;) {
    if (take(seen, me, called)) return true;
    const word next = (called ? seen & ~called_out : seen) | contended;
    if (next == seen) return false;
    // Before `contended` is set: from then on the owner writes it.
    if (!(seen & contended)) owner_.store(owner_of(seen), std::memory_order_relaxed);
    if (word_.compare_exchange_weak(seen, next, std::memory_order_relaxed)) return false;
  }
}

bool mutex::lock_slowly(word me, const detail::wait_limit* limit) {
  if (owned_by(me))
    throw error(
        errc::deadlock, detail::describe_context(me) + " locked a tern::mutex that it owns already",
        "a tern::mutex is not recursive: lock it once, or split the function into one that locks it and one that "
        "needs it locked");
  for (bool called = false;; called = true) {
    if (spin(me, called)) return true;
    guard_.lock();
    if (take_or_announce(me, called)) {
      guard_.unlock();
      return true;
    }
    waiter self({detail::wait_kind::mutex, this, limit ? nullptr : &owner_}); // the owner alone can end it: no limit
    self.data = called ? called_before : fresh;
    called ? waiters_.push_front(self) : waiters_.push(self);
    if (!limit)
      self.wait(guard_);
    else if (self.wait(guard_, waiters_, *limit) != detail::wait_result::woken)
      return false;
  }
}

bool mutex::owned_by(word me) const noexcept { return owner_of(word_.load(std::memory_order_relaxed)) == me; }

void mutex::unlock() {
  detail::schedule_point();
  const word me = detail::this_context();
  if (!owned_by(me)) [[unlikely]]
    throw_not_owner(me, "unlocked");
  release(me);
}

// The next owner may destroy the mutex, so what makes it free comes last, unless a waiter has been
// woken, which is still inside.
void mutex::release(word me) noexcept {
  word seen = word_.load(std::memory_order_relaxed);
  for (;;) {
    if (seen == me) {
      // release: pairs with the acquire in `take`; so do those below.
      if (word_.compare_exchange_weak(seen, 0, std::memory_order_release, std::memory_order_relaxed)) return;
      continue;
    }
    if (seen & called_out) {
      if (seen & contended) owner_.store(0, std::memory_order_relaxed);
      const word next = (seen & (contended | called_out)) | (left_ ? 0 : reserved);
      if (word_.compare_exchange_weak(seen, next, std::memory_order_release, std::memory_order_relaxed)) return;
      continue;
    }
    guard_.lock();
    owner_.store(0, std::memory_order_relaxed);
    waiter* next = waiters_.pop();
    if (!next) { // those that waited have given up
      seen = word_.fetch_and(~contended, std::memory_order_relaxed) & ~contended;
      guard_.unlock();
      continue;
    }
    if (next->data == fresh) { // else a waiter that came in vain continues with the patience that it had left
      left_ = most_overtaken;
      until_ = detail::clock_now() + patience;
    }
    const word flags = called_out | (waiters_.empty() ? 0 : contended) | (left_ ? 0 : reserved);
    word_.store(flags, std::memory_order_release); // only its owner and holders of the guard change it in this state
    guard_.unlock();
    next->wake();
    return;
  }
}

void mutex::throw_not_owner(word me, const char* what) {
  std::string state = "has no owner";
  {
    // Under the guard an owner that others wait for cannot unlock it, so it cannot end
    // meanwhile.
    std::lock_guard hold(guard_);
    word seen = word_.load(std::memory_order_relaxed);
    while (owner_of(seen) && !(seen & contended)) {
      owner_.store(owner_of(seen), std::memory_order_relaxed);
      if (word_.compare_exchange_weak(seen, seen | contended, std::memory_order_relaxed)) break;
    }
    if (owner_of(seen)) state = detail::describe_context(owner_of(seen)) + " owns";
  }
  throw error(errc::invalid_state, detail::describe_context(me) + " " + what + " a tern::mutex that " + state,
              "only the fiber or thread that has locked it can do that");
}

} // namespace tern
