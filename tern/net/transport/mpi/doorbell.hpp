// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How a rank sleeps until a message may have arrived. MPI has no blocking wait that leaves the
/// core idle, so each rank has a futex word in memory shared by the ranks of its host (host.hpp): a
/// rank that sends to a sleeping one rings it.
///
/// The word is `awake`, `sleeping` or `rung` (a wake-up that has not been consumed yet).
///   sleeper: awake -> sleeping; look at rings and MPI once more; futex wait while sleeping; whatever it is -> awake
///   ringer:  make the work visible (store a record, start the send, fill a queue); then see `sleeping` and end it
/// Either the ringer sees `sleeping`, or the sleeper's last look sees the work: the store and the
/// load on each side must not change places (Dekker's pattern). A send is frequent and a sleep is
/// not, so where the kernel has it the sleeper pays for both: membarrier(GLOBAL_EXPEDITED) makes
/// every thread of the processes registered for it, if it runs, pass a full barrier between the
/// sleeper's store and its last look. A ringer whose load came before that barrier had made its
/// work visible before it, as the compiler kept their order; one whose load comes after it sees
/// `sleeping`. Where any rank of the host lacks it, all ringers pay for a fence.
#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <vector>

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host.hpp"

namespace tern_mpi {

class doorbell {
public:
  /// Without shared memory (or alone) only `wake` rings, and `reaches_all` says so.
  void open(const host& here, int size);
  /// After the last ring of any rank of the host; `wake` stays allowed.
  void close();

  /// Whether every other rank rings when it sends.
  bool reaches_all() const { return reaches_all_; }

  /// Is this rank on this host, and rings and is rung?
  bool on_host(int rank) const { return words_[static_cast<std::size_t>(rank)] != nullptr; }

  /// Owner only. Ends the sleep of `rank` if it is on this host and sleeps; call after the send was
  /// started.
  void ring(int rank) {
    auto* word = words_[static_cast<std::size_t>(rank)];
    if (!word) return;
    // The send's stores into shared memory come before the load below, see the file comment. A load
    // and not an exchange, because nearly always the peer is awake and its line may then stay
    // shared. No `rung` is left behind for a rank that is awake: before it sleeps it looks once
    // more.
    if (sleeper_pays_)
      std::atomic_signal_fence(std::memory_order_seq_cst); // the compiler's part of the order
    else
      std::atomic_thread_fence(std::memory_order_seq_cst);
    if (word->load(std::memory_order_relaxed) == sleeping) strike(*word);
  }

  /// Any thread, async-signal-safe: ends a present or the next `sleep` of this rank.
  void wake() { strike(*own_.load(std::memory_order_acquire)); }

  /// Owner only. Sleeps until rung, or `at_most` microseconds, or not at all if `last_look` finds
  /// something to do.
  template <class F> void sleep(std::int64_t at_most, F&& last_look) {
    auto& word = *own_.load(std::memory_order_relaxed); // the owner itself stored it
    std::uint32_t expected = awake;
    // seq_cst: this store comes before the last look's loads. Failing means that it was rung
    // already; the exchange at the end consumes that, acquiring what the ringer did.
    if (word.compare_exchange_strong(expected, sleeping, std::memory_order_seq_cst)) {
      std::atomic_thread_fence(std::memory_order_seq_cst); // pairs with the fence in `ring`
      // Failing is not expected after registering; without the barrier a ring may be missed, so
      // there is no sleep then.
      const bool ordered = !sleeper_pays_ || host::membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
      if (at_most > 0 && !last_look() && ordered) {
        const timespec time{static_cast<time_t>(at_most / 1'000'000), static_cast<long>(at_most % 1'000'000 * 1000)};
        // Returns at once if the word is no longer `sleeping`. A spurious return is harmless: the
        // owner polls and comes again. Not FUTEX_PRIVATE: the word is in memory of several
        // processes.
        syscall(SYS_futex, address(word), FUTEX_WAIT, sleeping, &time, nullptr, 0);
      }
    }
    // acquire: what the ringer wrote before it rang is visible to the poll that follows.
    word.exchange(awake, std::memory_order_acquire);
  }

private:
  static constexpr std::uint32_t awake = 0, sleeping = 1, rung = 2;
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

  static std::uint32_t* address(std::atomic<std::uint32_t>& word) { return reinterpret_cast<std::uint32_t*>(&word); }

  static void strike(std::atomic<std::uint32_t>& word) {
    // seq_cst: release for the work that was made visible before, and ordered against the sleeper's
    // store (file comment).
    if (word.exchange(rung, std::memory_order_seq_cst) == sleeping)
      syscall(SYS_futex, address(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }

  std::atomic<std::uint32_t> alone_{awake}; // the own word when there is no shared one
  std::atomic<std::atomic<std::uint32_t>*> own_{&alone_};
  std::vector<std::atomic<std::uint32_t>*> words_; // by rank; null for one that is not rung: our own, on another host
  bool sleeper_pays_ = false;                      // the ringer needs no fence
  bool reaches_all_ = true;
};

inline void doorbell::open(const host& here, int size) {
  words_.assign(static_cast<std::size_t>(size), nullptr);
  reaches_all_ = size == 1;
  if (!here.shared()) return;
  reaches_all_ = here.size() == size;
  sleeper_pays_ = here.barriers();
  for (int i = 0; i < size; ++i)
    if (const int place = here.place_of(i); place >= 0 && place != here.rank())
      words_[static_cast<std::size_t>(i)] = &here.word(place);
  // Zero-filled by the kernel: all ranks are awake. release: pairs with wake() in another thread.
  own_.store(&here.word(here.rank()), std::memory_order_release);
}

inline void doorbell::close() {
  // Our word stays mapped: a thread may be inside wake(), and no rank is left to ring. Later wakes
  // stay private.
  own_.store(&alone_, std::memory_order_release);
  words_.clear();
  sleeper_pays_ = false;
}

} // namespace tern_mpi
