// SPDX-License-Identifier: Apache-2.0
#include <tern/task/sync.hpp>

#include <mutex>
#include <string>

#include <tern/base/error.hpp>

namespace tern {

using detail::waiter;

shared_mutex::~shared_mutex() {
  const auto state = state_.load(std::memory_order_relaxed);
  if (state & exclusive)
    detail::report_destroyed("shared_mutex", "it is locked");
  else if (state >= reader)
    detail::report_destroyed("shared_mutex", (std::to_string(state / reader) + " share it").c_str());
  else if (!waiters_.empty())
    detail::report_destroyed("shared_mutex", "a context waits for it");
}

// May a context that does not wait yet have it?
bool shared_mutex::fits(std::uintptr_t state, std::uintptr_t share) noexcept {
  return share == exclusive ? state == 0 : !(state & (exclusive | queued));
}

void shared_mutex::lock() {
  if (!try_lock()) lock_slowly(exclusive, nullptr);
}

bool shared_mutex::try_lock() {
  detail::schedule_point();
  std::uintptr_t free = 0;
  // acquire: what the previous owners wrote is visible; pairs with the releases in `release` and
  // `admit`.
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
  // Waiters behind it may enter now.
  guard_.lock();
  waiter* chain = admit();
  guard_.unlock();
  detail::waiter_list::wake_all(chain);
  return false;
}

// Under the guard: admits waiters in their order, as long as they fit.
// \return those to be woken.
detail::waiter* shared_mutex::admit() noexcept {
  auto state = state_.load(std::memory_order_relaxed);
  if (!(state & queued)) return nullptr;
  waiter *first = nullptr, *last = nullptr;
  const auto admits = [&](const waiter& w) { return w.data == reader ? !(state & exclusive) : state == queued; };
  while (waiter* w = waiters_.pop_if(admits)) {
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

// "has no owner", "fiber 7 owns"
std::string shared_mutex::describe_owner() {
  std::lock_guard hold(guard_);
  // Once `queued` is set an owner needs the guard to unlock it, so it cannot end meanwhile.
  auto state = state_.load(std::memory_order_relaxed);
  while ((state & exclusive) && !(state & queued) &&
         !state_.compare_exchange_weak(state, state | queued, std::memory_order_relaxed)) {
  }
  if (!(state & exclusive)) return "has no owner";
  const auto owner = owner_.load(std::memory_order_relaxed);
  return (owner ? detail::describe_context(owner) : "another fiber or thread") + " owns";
}

void shared_mutex::unlock_shared() {
  detail::schedule_point();
  const auto state = state_.load(std::memory_order_relaxed);
  if (state < reader)
    throw error(errc::invalid_state,
                detail::describe_context(detail::this_context()) + " unlocked a tern::shared_mutex that is not shared" +
                    (state & exclusive ? "; it is owned" : ""),
                "unlock_shared belongs to lock_shared, unlock to lock");
  release(reader);
}

// The next owner may destroy it, so what makes it free comes last, unless a waiter is in the list,
// which is still inside.
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

} // namespace tern
