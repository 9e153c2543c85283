// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The ring (spsc_ring.hpp) between two ranks of one process: any thread sends, and what is no
/// small head goes by pointer. Internal.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include <tern/base/bytes.hpp>
#include <tern/net/transport/spsc_ring.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::net::detail {

/// From one rank to one rank. The sender's functions: any threads; the receiver's: one thread.
class inproc_ring final : private byte_lender {
public:
  static constexpr std::uint32_t most_cells = 256;
  /// Heads of up to so many bytes fit into the largest ring's cells.
  static constexpr std::size_t head_limit =
      ring_end::most_cells_of(most_cells) * ring_end::cell_bytes - ring_end::header_bytes;

  /// \param cells a power of two from 32 to `most_cells`. \throws error(out_of_memory).
  explicit inproc_ring(std::uint32_t cells);
  /// \pre all heads have been given back.
  ~inproc_ring();
  inproc_ring(const inproc_ring&) = delete;
  inproc_ring& operator=(const inproc_ring&) = delete;

  // The sender's ------------------------------------------------------------------------------------------------------
  /// \param received_until_now see `ring_sender::send_small`.
  /// \return whether there was space. If there was none, some `give_credit` will say so. \throws
  /// error(out_of_memory).
  bool send(std::span<const std::byte> head, byte_buffer& body, bool urgent, std::uint64_t received_until_now) {
    if (head.size() > ring_end::small_head || !body.empty()) [[unlikely]]
      return send_large(head, body, urgent, received_until_now);
    std::lock_guard hold(lock_);
    return sender_.send_small(head.data(), head.size(), urgent, received_until_now);
  }

  // The receiver's ----------------------------------------------------------------------------------------------------
  /// \return whether there may be a record.
  bool ready() const noexcept { return receiver_.ready(); }
  /// The next message. \pre both are empty. \throws error(out_of_memory): nothing has been taken
  /// then.
  bool receive(byte_buffer& head, byte_buffer& body) {
    ring_record r;
    if (receiver_.look(r) != ring_receiver::found::record) return false;
    if (!r.plain() || !receiver_.may_lend()) [[unlikely]]
      return receive_other(r, head, body);
    if (r.size() > 0) [[likely]] {
      receiver_.lend(r);
      byte_buffer::borrow(receiver_.head(), r.size(), *this).swap(head);
    }
    receiver_.pass(r);
    return true;
  }
  /// Gives credit, if there is enough for it. \return true if the sender has been refused since,
  /// and must be woken.
  bool give_credit() noexcept { return receiver_.give_credit(); }

private:
  struct far_part {
    void* data;
    std::size_t size; // 0: `data` is a byte_buffer, which holds a share
  };
  static constexpr std::uint8_t far = ring_record::special; // a pointer instead of the head

  bool send_large(std::span<const std::byte> head, byte_buffer& body, bool urgent, std::uint64_t received_until_now);
  bool receive_other(ring_record r, byte_buffer& head, byte_buffer& body);
  byte_buffer far_body(ring_record r) const noexcept;
  byte_buffer far_head() const noexcept;
  void take_back(std::byte* data) noexcept override;

  ring_shared* const memory_;
  alignas(128) tern::detail::spin_lock lock_;
  ring_sender sender_; // under the lock
  alignas(128) ring_receiver receiver_;
  std::array<std::atomic<std::uint8_t>, most_cells> lent_{};
};

} // namespace tern::net::detail
