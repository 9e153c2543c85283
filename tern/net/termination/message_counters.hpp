// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a rank counts of its messages: by each worker for itself, so that counting costs a plain
/// addition. Internal.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace tern::net {

/// Memory order. A worker's own counters are stored with release and read by others with acquire: a
/// worker that has seen that a handler is done has therefore seen all that the handler had sent, on
/// whichever workers it ran, since it came from one to the other through a scheduler's queue. So
/// sums that are taken as "first done, then sent" never show a message as done whose consequences
/// are missing from "sent". A sum may be late; that is as if it had been taken earlier.
class message_counters {
public:
  /// Of messages that `node::quiesce` counts.
  enum counter : std::size_t {
    sent,
    received,
    done,        ///< handled to the end; after all that the handler sent was counted
    parts,       ///< sent, of collectives that do not look for quiescence; and the fibers that wait for lent memory
    parts_taken, ///< and have taken up; after the fiber that waits for it can go on
    uncounted,   ///< others, sent
    marked,      ///< of those that were sent, the ones that belong to an epoch
    marked_received,
    settled, ///< of those, the ones whose account has been settled: after all that this sent was counted
    handlers,
    handed_over, ///< of those that were received, the ones that no transport has carried
    forwarded,   ///< of those that are done, the ones that were sent on, as new messages
    again,       ///< of those that were sent and are done, what is no message: one that is taken up once more, for one
    waits,       ///< of the parts, what is no message but a fiber that waits for lent memory
    sent_bytes,
    received_bytes,
    counters,
  };

  /// \param one_thread is all workers and the polling context, as in a simulation: then these have
  /// one row together.
  message_counters(int workers, bool one_thread)
      : workers_(workers), mask_(one_thread ? 0 : ~0u), others_(one_thread ? 1 : static_cast<unsigned>(workers)),
        count_(others_ + (one_thread ? 1 : 2)), rows_(std::make_unique<row[]>(count_)),
        polling_(&rows_[one_thread ? 0 : others_ + 1]) {}

  /// \param worker that calls this; anything else for every other thread.
  void add(int worker, counter what, std::uint64_t n = 1) noexcept {
    if (static_cast<unsigned>(worker) < static_cast<unsigned>(workers_)) [[likely]]
      bump(rows_[static_cast<unsigned>(worker) & mask_], what, n);
    else
      rows_[others_].value[what].fetch_add(n, std::memory_order_release);
  }
  /// A message that goes: `what`, and its bytes.
  void add_sent(int worker, counter what, std::uint64_t bytes, std::uint64_t n = 1) noexcept {
    if (static_cast<unsigned>(worker) < static_cast<unsigned>(workers_)) [[likely]] {
      row& mine = rows_[static_cast<unsigned>(worker) & mask_];
      bump(mine, what, n);
      bump(mine, sent_bytes, bytes);
    } else {
      add(worker, what, n);
      add(worker, sent_bytes, bytes);
    }
  }
  /// For the polling context only.
  void add_polling(counter what, std::uint64_t n = 1) noexcept { bump(*polling_, what, n); }
  std::uint64_t sum(counter what) const noexcept {
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < count_; ++i) all += rows_[i].value[what].load(std::memory_order_acquire);
    return all;
  }
  /// The same of two, in one go.
  std::uint64_t sum(counter one, counter other) const noexcept {
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      const row& r = rows_[i];
      all += r.value[one].load(std::memory_order_acquire) + r.value[other].load(std::memory_order_acquire);
    }
    return all;
  }
  /// What `node::quiesce` compares, since `begin_again`: a message of an epoch is two things, to be
  /// done and to be settled.
  std::uint64_t begun() const noexcept { return sum(sent, marked) - begun_before_.load(std::memory_order_relaxed); }
  std::uint64_t ended() const noexcept { return sum(done, settled) - ended_before_.load(std::memory_order_relaxed); }
  /// The same with all that rouses fibers.
  std::uint64_t begun_of_all() const noexcept {
    return begun() + sum(parts) - parts_before_.load(std::memory_order_relaxed);
  }
  std::uint64_t ended_of_all() const noexcept {
    return ended() + sum(parts_taken) - parts_taken_before_.load(std::memory_order_relaxed);
  }
  /// Arrived and not yet done. \return 0 only if that was so at some moment of this call.
  std::uint64_t active() const noexcept {
    const std::uint64_t before = sum(done, settled); // never more than have been received by the next line
    return sum(received, marked_received) - before;
  }
  /// What is under way to other ranks, or from them, is given up: what is here and not done counts
  /// as begun, and nothing else. Statistics go on as before. \pre no rank compares meanwhile.
  void begin_again() noexcept {
    const std::uint64_t done_before = sum(done, settled), here = sum(received, marked_received) - done_before;
    ended_before_.store(done_before, std::memory_order_relaxed);
    begun_before_.store(sum(sent, marked) - here, std::memory_order_relaxed);
    parts_before_.store(sum(parts), std::memory_order_relaxed);
    parts_taken_before_.store(sum(parts_taken), std::memory_order_relaxed);
  }

private:
  struct alignas(64) row {
    std::atomic<std::uint64_t> value[counters] = {};
  };
  static void bump(row& r, counter what, std::uint64_t n) noexcept {
    r.value[what].store(r.value[what].load(std::memory_order_relaxed) + n, std::memory_order_release);
  }
  const int workers_;
  const unsigned mask_, others_; // of the number of a worker's row; the row of other threads
  const std::size_t count_;
  const std::unique_ptr<row[]> rows_;
  row* const polling_; // the polling context's
  std::atomic<std::uint64_t> begun_before_{0}, ended_before_{0}, parts_before_{0}, parts_taken_before_{0};
};

} // namespace tern::net
