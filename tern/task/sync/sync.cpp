// SPDX-License-Identifier: Apache-2.0
#include <tern/task/sync.hpp>

#include <string>
#include <thread>

#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/sim.hpp>

namespace tern {
namespace {

using detail::waiter;
using word = std::uintptr_t;

// The flags beside the owner in mutex::word_. Contexts are addresses or counters: they never reach these bits.
//   contended:  somebody stands in the list. Set and cleared under the guard only.
//   called_out: the first has been taken out of the list and woken; he comes and tries to take the mutex.
//   reserved:   and nobody else may take it now.
// If the mutex is free and somebody stands in the list, somebody has been called.
constexpr word contended = word{1} << 63, called_out = word{1} << 62, reserved = word{1} << 61;
constexpr word owner_of(word w) noexcept { return w & (reserved - 1); }

// How often and how long others may take the mutex before the one who has been called: handing it over each time would
// make every critical section as long as a switch of fibers, or as the waking of a thread, which takes so much longer.
constexpr std::uint32_t most_overtaken = 1024, looks_at_clock = 32;
constexpr std::int64_t patience = 50'000;
constexpr std::uintptr_t fresh = 0, called_before = 1; // waiter::data

// Looks at a taken mutex before giving the worker away: a critical section is often shorter than that.
constexpr int looks = 24;

bool others_run_now() noexcept {
  if (sim::active()) return false;
  const scheduler* s = scheduler::current();
  return !s || s->workers() > 1;
}

} // namespace

void detail::report_destroyed(const char* what, const char* state) noexcept {
  try {
    log_error(describe_context(this_context()) + " destroys a tern::" + what + " while " + state);
  } catch (...) {
    log_error("a tern primitive is destroyed while it is in use"); // no memory for more
  }
}

// mutex ---------------------------------------------------------------------------------------------------------------

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
    detail::report_destroyed("mutex", "somebody waits for it");
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

// Takes the mutex if it can be taken now. \param seen what the caller has read; afterwards what there was.
// \param called the caller is the one who has been called.
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
  // Who would stand behind others had better do something else. The called one must run for the mutex to be of use.
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

// The next owner may destroy the mutex, so whatever makes it free comes last, unless somebody has been called: he is
// inside still.
inline void mutex::release(word me) noexcept {
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
    if (!next) { // those who waited have given up
      seen = word_.fetch_and(~contended, std::memory_order_relaxed) & ~contended;
      guard_.unlock();
      continue;
    }
    if (next->data == fresh) { // else the one who has come in vain goes on losing patience where he was
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
  std::string state = "nobody owns";
  {
    // Under the guard an owner for whom somebody waits cannot unlock it, so it cannot end meanwhile.
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

// shared_mutex --------------------------------------------------------------------------------------------------------

shared_mutex::~shared_mutex() {
  const auto state = state_.load(std::memory_order_relaxed);
  if (state & exclusive)
    detail::report_destroyed("shared_mutex", "it is locked");
  else if (state >= reader)
    detail::report_destroyed("shared_mutex", (std::to_string(state / reader) + " share it").c_str());
  else if (!waiters_.empty())
    detail::report_destroyed("shared_mutex", "somebody waits for it");
}

// May somebody who does not wait yet have it?
bool shared_mutex::fits(std::uintptr_t state, std::uintptr_t share) noexcept {
  return share == exclusive ? state == 0 : !(state & (exclusive | queued));
}

void shared_mutex::lock() {
  if (!try_lock()) lock_slowly(exclusive, nullptr);
}

bool shared_mutex::try_lock() {
  detail::schedule_point();
  std::uintptr_t free = 0;
  // acquire: what the previous owners wrote is visible; pairs with the releases in `release` and `admit`.
  if (!state_.compare_exchange_strong(free, exclusive, std::memory_order_acquire, std::memory_order_relaxed))
    return false;
  owner_.store(detail::this_context(), std::memory_order_relaxed);
  return true;
}

void shared_mutex::lock_shared() {
  if (!try_lock_shared()) lock_slowly(reader, nullptr);
}

bool shared_mutex::try_lock_shared() {
  detail::schedule_point();
  auto state = state_.load(std::memory_order_relaxed);
  while (fits(state, reader))
    if (state_.compare_exchange_weak(state, state + reader, std::memory_order_acquire, std::memory_order_relaxed))
      return true;
  return false;
}

bool shared_mutex::lock_until(std::uintptr_t share, std::int64_t deadline) {
  if (share == exclusive ? try_lock() : try_lock_shared()) return true;
  const detail::wait_limit limit{deadline};
  return lock_slowly(share, &limit);
}

bool shared_mutex::lock_slowly(std::uintptr_t share, const detail::wait_limit* limit) {
  const auto me = detail::this_context();
  const auto got_it = [&] {
    if (share == exclusive) owner_.store(me, std::memory_order_relaxed);
    return true;
  };
  if (owner_.load(std::memory_order_relaxed) == me)
    throw error(errc::deadlock, detail::describe_context(me) + " locked a tern::shared_mutex that it owns already",
                "a tern::shared_mutex is not recursive, and an owner cannot share it besides");
  guard_.lock();
  auto state = state_.load(std::memory_order_relaxed);
  for (;;) {
    if (fits(state, share)) {
      if (!state_.compare_exchange_weak(state, state + share, std::memory_order_acquire, std::memory_order_relaxed))
        continue;
      guard_.unlock();
      return got_it();
    }
    if ((state & queued) || state_.compare_exchange_weak(state, state | queued, std::memory_order_relaxed)) break;
  }
  waiter self({detail::wait_kind::shared_mutex, this, limit ? nullptr : &owner_});
  self.data = share;
  waiters_.push(self);
  if (!limit) {
    self.wait(guard_);
    return got_it();
  }
  if (self.wait(guard_, waiters_, *limit) == detail::wait_result::woken) return got_it();
  // Who stood behind may enter now.
  guard_.lock();
  waiter* chain = admit();
  guard_.unlock();
  detail::waiter_list::wake_all(chain);
  return false;
}

// Under the guard: lets in whoever stands first, as long as there is room. \return those to be woken.
detail::waiter* shared_mutex::admit() noexcept {
  auto state = state_.load(std::memory_order_relaxed);
  if (!(state & queued)) return nullptr;
  waiter *first = nullptr, *last = nullptr;
  const auto has_room = [&](const waiter& w) { return w.data == reader ? !(state & exclusive) : state == queued; };
  while (waiter* w = waiters_.pop_if(has_room)) {
    state += w->data;
    w->next = nullptr;
    (last ? last->next : first) = w;
    last = w;
  }
  if (waiters_.empty()) state &= ~queued;
  state_.store(state, std::memory_order_release);
  return first;
}

void shared_mutex::unlock() {
  detail::schedule_point();
  const auto me = detail::this_context();
  if (owner_.load(std::memory_order_relaxed) != me)
    throw error(errc::invalid_state,
                detail::describe_context(me) + " unlocked a tern::shared_mutex that " + describe_owner(),
                "only the fiber or thread that has locked it can do that");
  owner_.store(0, std::memory_order_relaxed);
  release(exclusive);
}

// "nobody owns", "fiber 7 owns"
std::string shared_mutex::describe_owner() {
  std::lock_guard hold(guard_);
  // Once `queued` is set an owner needs the guard to unlock it, so it cannot end meanwhile.
  auto state = state_.load(std::memory_order_relaxed);
  while ((state & exclusive) && !(state & queued) &&
         !state_.compare_exchange_weak(state, state | queued, std::memory_order_relaxed)) {
  }
  if (!(state & exclusive)) return "nobody owns";
  const auto owner = owner_.load(std::memory_order_relaxed);
  return (owner ? detail::describe_context(owner) : "somebody") + " owns";
}

void shared_mutex::unlock_shared() {
  detail::schedule_point();
  const auto state = state_.load(std::memory_order_relaxed);
  if (state < reader)
    throw error(errc::invalid_state,
                detail::describe_context(detail::this_context()) + " unlocked a tern::shared_mutex that nobody shares" +
                    (state & exclusive ? "; it is owned" : ""),
                "unlock_shared belongs to lock_shared, unlock to lock");
  release(reader);
}

// Whoever comes next may destroy it, so what makes it free comes last, unless somebody stands in the list: he is inside
// still.
void shared_mutex::release(std::uintptr_t share) noexcept {
  auto state = state_.load(std::memory_order_relaxed);
  for (;;) {
    if (!(state & queued)) {
      if (state_.compare_exchange_weak(state, state - share, std::memory_order_release, std::memory_order_relaxed))
        return;
      continue;
    }
    guard_.lock();
    state = state_.load(std::memory_order_relaxed);
    if (!(state & queued) || waiters_.empty()) {
      if (state & queued) state_.store(state &= ~queued, std::memory_order_relaxed);
      guard_.unlock();
      continue;
    }
    state_.store(state - share, std::memory_order_release);
    waiter* chain = admit();
    guard_.unlock();
    detail::waiter_list::wake_all(chain);
    return;
  }
}

// condition_variable --------------------------------------------------------------------------------------------------

condition_variable::~condition_variable() {
  if (!waiters_.empty()) detail::report_destroyed("condition_variable", "somebody waits for it");
}

detail::wait_result condition_variable::suspend(std::unique_lock<mutex>& lock, const detail::wait_limit* limit) {
  detail::schedule_point();
  const auto me = detail::this_context();
  if (!lock.owns_lock()) throw error(errc::invalid_state, "condition_variable::wait needs a lock that owns its mutex");
  if (!lock.mutex()->owned_by(me)) lock.mutex()->throw_not_owner(me, "waits with");
  waiter self({detail::wait_kind::condition, this});
  guard_.lock();
  waiters_.push(self);
  // Unlocking the mutex before this context is suspended is right: a notifier finds the waiter in the list already, and
  // cannot wake it before `guard_` is free.
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
