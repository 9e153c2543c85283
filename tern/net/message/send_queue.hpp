// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Messages on their way from a rank's fibers to its transport. Internal.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <tern/base/bytes.hpp>
#include <tern/net/memory/fifo.hpp>
#include <tern/net/message/batch.hpp>
#include <tern/net/transport.hpp>
#include <tern/net/transport/thread_id.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::net {

/// Whether small messages for one destination travel together.
enum class aggregation {
  off,
  automatic, ///< those that wait for space do, and those to oneself: so none waits for others
  on,        ///< all wait for others: until there is a batch, until the owner polls, or until they are too old
};

/// Sends at once what the transport takes at once, and keeps the rest: what comes from a thread
/// that may not send, and what found no space. What is kept goes out when the owner calls `flush`,
/// in order for each destination, and urgent messages before the others. A sender that is much
/// faster than the receiver waits (`wait_for_space`), so neither side's memory grows without limit.
class send_queue {
public:
  /// The calling thread is the transport's owner.
  /// \param batches the number of the handler that takes them.
  /// \param patience with what is gathered, in ticks.
  send_queue(transport& wire, aggregation mode, std::uint32_t batches, std::int64_t patience);
  ~send_queue();
  send_queue(const send_queue&) = delete;
  send_queue& operator=(const send_queue&) = delete;
  /// From now on only the owner calls anything.
  void nobody_else_sends() noexcept { alone_ = true; }
  /// From now on messages to the calling rank, which is `self`, wait until the owner calls
  /// `flush_own` or `flush`: it cannot take them in before. \pre `nobody_else_sends`, `automatic`.
  void gather_own(int self) noexcept { own_ = self; }
  /// Is it worth it? Where handlers take long, those of other ranks had better have their turn
  /// between any two.
  void own_are_quick(bool quick) noexcept { gathers_own_ = quick; }

  /// Any thread; never waits. As transport::send, which it calls. \throws what that throws, if it
  /// was called at once.
  /// \param awaited a call: its caller sends no more until the answer is there, so there is nothing
  /// to gather with it for the calling rank.
  void send(int destination, std::span<const std::byte> head, byte_buffer& body, bool urgent, bool awaited = false) {
    if (mode_ == aggregation::on || destination == own_) [[unlikely]] {
      if (!urgent && body.empty() && head.size() <= most_gathered &&
          (mode_ == aggregation::on || (gathers_own_ && !awaited))) {
        gather(destination, head);
        return;
      }
      send_gathered(destination); // what came before goes before
    }
    if (kept_.load(std::memory_order_acquire) == 0 && may_send()) [[likely]]
      if (wire_.send(destination, head, body, urgent)) [[likely]]
        return;
    keep(destination, head, std::move(body), urgent);
  }
  /// The simple case of `send`, if no other thread sends: one more of those that are gathered
  /// already. \return where its `bytes` are to be written; null: it must be sent. \pre not more
  /// than `most_gathered`.
  std::byte* place(int destination, std::size_t bytes) noexcept {
    if (destination == own_) return place_own(bytes);
    // With no slots there is no such rank.
    if (static_cast<std::size_t>(destination) >= batch_slots_.size() || !alone_) return nullptr;
    batch_slot& p = batch_slots_[static_cast<std::size_t>(destination)];
    if (!p.batch || p.batch->empty() || !p.batch->has_space(bytes) || (p.messages + 1) % looked_at == 0) return nullptr;
    ++p.messages;
    return p.batch->place(bytes);
  }
  /// Owner. Sends what has been gathered for the calling rank. \return whether that was anything.
  bool flush_own() {
    if (!own_slot_.batch || own_slot_.batch->empty()) return false;
    send_slot(own_, own_slot_);
    return true;
  }
  /// Owner. Tries again what is kept, and sends what has been gathered. \return whether anything
  /// went.
  /// \param more there may be more to gather at once: what has not waited for long waits on.
  bool flush(bool more) {
    // Also when nothing is kept: it may have gone out before its sender set the flag. Acquire, of
    // all threads that have set it since: this look sees what they keep.
    if (owner_notified_.load(std::memory_order_relaxed)) [[unlikely]]
      owner_notified_.exchange(false, std::memory_order_acq_rel);
    return empty() ? false : flush_all(more);
  }
  bool empty() const noexcept {
    return kept_.load(std::memory_order_relaxed) == 0 && gathered_.load(std::memory_order_relaxed) == 0;
  }
  std::size_t kept() const noexcept { return kept_.load(std::memory_order_relaxed); } ///< messages

  /// Is so much kept that senders had better wait?
  bool over_limit() const noexcept { return over_limit_.load(std::memory_order_relaxed) > 0; }
  /// In a fiber: waits until not too much is kept for `destination`. Else it returns at once.
  void wait_for_space(int destination);

  /// Drops what is kept or gathered for `destination`, or if that is negative for any, if
  /// `gone(first part)`, batches as a whole; fibers that wait for space there go on. Any thread.
  void drop(int destination, bool (*gone)(std::span<const std::byte> head));

  /// Kept for one destination before senders wait. Less than a core's cache, as what goes out must
  /// come in again.
  static constexpr std::size_t most_bytes = 256 * 1024;
  static constexpr std::size_t most_messages = 4096;
  static constexpr std::size_t most_batch = 4096; ///< bytes
  static constexpr std::size_t most_spare = 64;   ///< batches whose memory is kept for others

private:
  struct queued_message {
    byte_buffer head, body;
    std::optional<batch_writer> batch; // in the head's memory, while others may join it
    std::uint8_t near_size = 0;        // 0: the head is not here
    std::array<std::byte, 64> near{};  // most heads; needs no allocation
    std::span<const std::byte> first_part() const noexcept {
      return near_size > 0 ? std::span(near).first(near_size) : head.bytes();
    }
    std::size_t bytes() const noexcept { return first_part().size() + body.size(); }
  };
  static constexpr unsigned looked_at = 16; // messages of a slot from one look at its age to the next
  struct batch_slot {                       // of what is gathered for one destination
    byte_buffer memory;
    std::optional<batch_writer> batch;
    std::int64_t since = 0;
    unsigned messages = 0;
  };
  struct destination_queue {
    fifo<queued_message> urgent, usual;
    std::size_t bytes = 0;
    bool over_limit = false;
    tern::detail::waiter_list waiting;
    bool full() const noexcept { return bytes > most_bytes || usual.size() > most_messages; }
    bool has_space() const noexcept { return bytes <= most_bytes / 2 && usual.size() <= most_messages / 2; }
  };
  std::size_t batch_bytes() const noexcept { return std::min(wire_.head_limit(), most_batch); }
  batch_slot& slot_of(int destination) noexcept {
    return destination == own_ ? own_slot_ : batch_slots_[static_cast<std::size_t>(destination)];
  }
  bool may_send() const noexcept { return any_sends_ || this_thread_id() == owner_; }
  std::unique_lock<tern::detail::spin_lock> lock_slots() noexcept {
    return alone_ ? std::unique_lock<tern::detail::spin_lock>() : std::unique_lock(slot_lock_);
  }
  std::byte* place_own(std::size_t bytes) noexcept {
    batch_slot& p = own_slot_;
    if (!p.batch || !p.batch->has_space(bytes)) [[unlikely]]
      return nullptr;
    if (p.batch->empty() && !begin_own()) return nullptr;
    return p.batch->place(bytes);
  }
  bool begin_own() noexcept;
  bool flush_all(bool more);
  void gather(int destination, std::span<const std::byte> head);
  void fill(int destination);
  void send_gathered(int destination);
  void send_slot(int destination, batch_slot& p);
  void join(destination_queue& q, std::span<const std::byte> head);
  void keep(int destination, std::span<const std::byte> head, byte_buffer body, bool urgent, bool is_batch = false);
  bool send_some(int destination, destination_queue& q, bool urgent);

  transport& wire_;
  const void* const owner_; // its mark
  const bool any_sends_;
  bool alone_ = false, gathers_own_ = true;
  int own_ = -1; // this rank, if what it sends to itself is gathered
  const aggregation mode_;
  const std::uint32_t batches_;
  const std::int64_t patience_;
  // Changes under the lock. acquire and release: a thread that finds nothing kept has seen that
  // what was kept before has gone.
  std::atomic<std::size_t> kept_{0};
  std::atomic<int> over_limit_{0};          // queues
  std::atomic<bool> owner_notified_{false}; // the owner, since it last looked
  tern::detail::spin_lock lock_;
  std::map<int, destination_queue> queues_; // of those that ever had something kept
  std::vector<byte_buffer> spare_;          // of batches that have gone
  std::atomic<std::size_t> gathered_{0};    // slots with something that is not sent; changes under their lock
  tern::detail::spin_lock slot_lock_;       // taken before `lock_`
  std::vector<batch_slot> batch_slots_;     // by destination, if `on`
  batch_slot own_slot_;
  std::vector<int> filled_;
};

} // namespace tern::net
