// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The fibers that can run on a worker.

#include <atomic>
#include <cstdint>
#include <mutex>

#include <tern/task/fiber/fiber_state.hpp>
#include <tern/task/wait/wait_list.hpp>

namespace tern::detail {

/// A doubly linked list, first in first out.
class runnable_queue {
public:
  bool empty() const noexcept { return !head_; }
  runnable* front() const noexcept { return head_; }
  void push(runnable* x) noexcept {
    x->next = nullptr;
    x->prev = tail_;
    (head_ ? tail_->next : head_) = x;
    tail_ = x;
  }
  void remove(runnable* x) noexcept {
    (x->prev ? x->prev->next : head_) = x->next;
    (x->next ? x->next->prev : tail_) = x->prev;
  }
  runnable* pop() noexcept {
    runnable* x = head_;
    if (x) remove(x);
    return x;
  }

private:
  runnable *head_ = nullptr, *tail_ = nullptr;
};

/// One worker's queues of fibers. Each has a private half, which the owner alone uses and without
/// any atomic read-modify-write, and a public one under a lock, from which others take.
///
/// Contract
/// - One owner at a time calls the functions marked so; any thread calls the rest.
/// - What is pushed is taken exactly once; each half is first in, first out, and the public one is
///   older.
/// - A fiber that stays private while others would run it stays so only until they insist: see
///   `force`.
///
/// How the private half is exclusive: a lock that is biased towards its owner. The owner sets
/// `busy_`, then reads `want_`; if that is even (no thread asks) it goes ahead. Another thread
/// makes `want_` odd, has all threads pass a barrier (membarrier), and holds `lock_`; if `busy_` is
/// unset then, the owner is not inside, and will see `want_` and take the lock when it comes by
/// (Dekker; the owner's half of the fence is the barrier that the other runs on it). `want_` goes
/// back to even, the next number, only under the lock: a number that is still the same after the
/// barrier was the one that the barrier made known. Without membarrier `want_` is odd for ever and
/// the owner always takes the lock.
class run_queue {
public:
  static constexpr int high = 0, normal = 1, low = 2, yielded = 3, kind_count = 4;
  static constexpr unsigned soon = 1u << high | 1u << normal, later = 1u << low, last = 1u << yielded,
                            all = soon | later | last;

  explicit run_queue(bool biased) noexcept : want_(biased ? 0 : 1), keep_want_(!biased) {}

  // The owner ---------------------------------------------------------------------------------------------------------
  [[gnu::always_inline]] void push(int kind, runnable* x) noexcept {
    const exclusion hold(*this);
    x->queued.store(this, std::memory_order_relaxed);
    x->kind = static_cast<std::uint8_t>(kind);
    queues_[kind].push(x);
    mask_.store(mask_.load(std::memory_order_relaxed) | 1u << kind, std::memory_order_relaxed);
    count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  /// The first of the first kind in `kinds` (a bit each) that has any; null if none.
  runnable* pop(unsigned kinds) noexcept {
    return pop_if(kinds, [](const runnable&) { return true; });
  }
  /// The same, but only if it is a fiber that has a stack.
  fiber* pop_fiber(unsigned kinds) noexcept {
    return static_cast<fiber*>(pop_if(kinds, [](const runnable& x) { return x.is_fiber; }));
  }
  /// Takes out `f` if it stands in the private half and has not given way.
  bool unlink(fiber* f) noexcept {
    if (f->queued.load(std::memory_order_relaxed) != this) return false;
    const exclusion hold(*this);
    // Only we, and a thread that excludes us, change this one while it says so.
    if (f->queued.load(std::memory_order_relaxed) != this || f->kind == yielded) return false;
    remove(f);
    return true;
  }
  /// `self`, which is running, gives way: it stands last among those that did, and the first of
  /// them goes on. The private half stays excluded until `end_rotation`, when `self` has left its
  /// stack.
  /// \return null, and nothing is changed, if there are others that come before, or a thread asks.
  fiber* begin_rotation(fiber* self) noexcept {
    busy_.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst); // as in `exclusion`
    // First whether the private half is ours; acquire: as the last holder left it.
    runnable* x = nullptr;
    if ((want_.load(std::memory_order_acquire) & 1) == 0 && mask_.load(std::memory_order_relaxed) == last)
      x = queues_[yielded].front();
    if (!x || !x->is_fiber) [[unlikely]] {
      end_rotation();
      return nullptr;
    }
    queues_[yielded].remove(x);
    x->queued.store(nullptr, std::memory_order_relaxed);
    queues_[yielded].push(self);
    self->queued.store(this, std::memory_order_relaxed);
    self->kind = yielded;
    return static_cast<fiber*>(x);
  }
  void end_rotation() noexcept { busy_.store(false, std::memory_order_release); }
  /// Adds a fiber that only the owner may run.
  void push_bound(int kind, runnable* x) noexcept {
    bound_[kind].push(x);
    bound_mask_.store(bound_mask_.load(std::memory_order_relaxed) | 1u << kind, std::memory_order_relaxed);
  }
  runnable* pop_bound(unsigned kinds) noexcept;
  /// What others have sent counts as any kind. A guess for others, unless the owner sleeps.
  bool has_bound(unsigned kinds) const noexcept {
    return (bound_mask_.load(std::memory_order_relaxed) & kinds) != 0 ||
           inbox_.load(std::memory_order_acquire) != nullptr;
  }
  /// Has a thread asked for what is private?
  bool wanted() const noexcept { return (want_.load(std::memory_order_relaxed) & 1) != 0; }
  /// Has a thread asked, and is there enough to give it some?
  bool owes() const noexcept { return wanted() && !keep_want_ && count() >= 2; }
  /// Makes half of what is private public, all but one at most.
  /// \return whether there was anything to make public.
  bool publish() noexcept;
  /// How many are public. A guess.
  unsigned public_count() const noexcept { return public_count_.load(std::memory_order_relaxed); }
  /// How many are private. A guess for others.
  unsigned count() const noexcept { return count_.load(std::memory_order_relaxed); }
  /// Is any of these kinds private? A guess, for others too.
  bool has(unsigned kinds) const noexcept { return (mask_.load(std::memory_order_relaxed) & kinds) != 0; }

  // Any thread
  // -----------------------------------------------------------------------------------------------------------
  runnable* take_public(unsigned kinds) noexcept;
  /// Is any of these kinds public?
  bool has_public(unsigned kinds) const noexcept { return (public_mask_.load(std::memory_order_acquire) & kinds) != 0; }
  /// Adds a fiber that only the owner may run.
  void send_bound(int kind, runnable* x) noexcept {
    x->kind = static_cast<std::uint8_t>(kind);
    runnable* first = inbox_.load(std::memory_order_relaxed);
    do {
      x->next = first;
      // The owner takes all at once: the first cannot have gone and come back with another next (no
      // ABA). release: the owner sees the fiber as it is; seq_cst is up to a caller that must also
      // know whether the owner sleeps.
    } while (!inbox_.compare_exchange_weak(first, x, std::memory_order_release, std::memory_order_relaxed));
  }
  /// A fiber that spawned so many tasklets that it had to pause.
  void push_spawner(fiber* f) noexcept;
  fiber* take_spawner() noexcept;
  bool has_spawner() const noexcept { return spawner_count_.load(std::memory_order_acquire) > 0; }

  /// Asks the owner to publish when it comes by.
  void ask() noexcept {
    if ((want_.load(std::memory_order_relaxed) & 1) != 0) return;
    std::lock_guard hold(lock_);
    want_.store(want_.load(std::memory_order_relaxed) | 1, std::memory_order_relaxed);
  }
  /// First half of publishing in the owner's stead: asks. Then a barrier for all threads, then
  /// `force`.
  /// \return what to give to it.
  std::uint32_t prepare_force() noexcept;
  /// Second half: makes half of what is private public, one at least, unless the owner has answered
  /// meanwhile.
  /// \param kinds what to look at.
  /// \return whether anything was made public.
  bool force(std::uint32_t prepared, unsigned kinds) noexcept;

private:
  // The owner's way in and out of the private half.
  class exclusion {
  public:
    explicit exclusion(run_queue& b) noexcept : box_(b) {
      box_.busy_.store(true, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst); // store before load; see above for the processor's half
      slow_ = (box_.want_.load(std::memory_order_acquire) & 1) != 0; // acquire: see begin_rotation
      if (slow_) [[unlikely]]
        box_.enter_slowly();
    }
    ~exclusion() {
      if (slow_) [[unlikely]]
        box_.lock_.unlock();
      else // release: a thread that finds it unset sees what was done
        box_.busy_.store(false, std::memory_order_release);
    }
    exclusion(const exclusion&) = delete;
    exclusion& operator=(const exclusion&) = delete;

  private:
    run_queue& box_;
    bool slow_;
  };
  void enter_slowly() noexcept;
  template <class Fits> runnable* pop_if(unsigned kinds, Fits fits) noexcept {
    if (!has(kinds)) return nullptr;
    const exclusion hold(*this);
    const unsigned there = mask_.load(std::memory_order_relaxed) & kinds;
    if (there == 0) return nullptr;
    runnable* x = queues_[__builtin_ctz(there)].front();
    if (!fits(*x)) return nullptr;
    remove(x);
    return x;
  }
  void remove(runnable* x) noexcept {
    queues_[x->kind].remove(x);
    if (queues_[x->kind].empty())
      mask_.store(mask_.load(std::memory_order_relaxed) & ~(1u << x->kind), std::memory_order_relaxed);
    x->queued.store(nullptr, std::memory_order_relaxed);
    count_.store(count_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  }
  unsigned move_to_public(unsigned kinds, unsigned most) noexcept;

  alignas(64) std::atomic<bool> busy_{false};
  std::atomic<unsigned> mask_{0}; // kinds that are not empty; changes under exclusion
  std::atomic<unsigned> count_{0};
  std::atomic<std::uint32_t> want_;
  runnable_queue queues_[kind_count];
  runnable_queue bound_[kind_count]; // the owner's alone, as the next
  std::atomic<unsigned> bound_mask_{0};
  alignas(64) std::atomic<runnable*> inbox_{nullptr}; // last in first out
  alignas(64) spin_lock lock_;                        // of what follows, and see above
  const bool keep_want_;
  std::atomic<unsigned> public_mask_{0}, public_count_{0};
  std::atomic<int> spawner_count_{0};
  runnable_queue public_[kind_count], spawners_;
};

} // namespace tern::detail
