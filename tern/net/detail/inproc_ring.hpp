// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The ring through which one rank of a process sends to another: one place in memory for each message, whose head the
/// receiver reads where the sender wrote it. Internal.
///
/// Memory is cells of 128 bytes, taken in order by *records* of one or more whole neighbouring cells:
///
///     sequence 8 | size 4 | kind 1 | cells 1 | - 2 | head, 16-byte aligned ... | body 16, if there is one
///
/// The sequence is the record's position (in cells since the beginning) + 1, and is stored last, so one cache line
/// tells the receiver that there is something and what. Positions run on; cell `position % count` holds it. What the
/// receiver has read it gives back as *credit*, an eighth of the ring at a time, since that line travels between the
/// cores.
///
/// **Kept heads.** A head is lent: it lies in its cells until its buffer is destroyed, which may happen much later, on
/// another thread, and in any order; and what destroys it may wait for a message that comes through this ring. So a
/// kept record must never stop the ring. With each credit the receiver says which records in it are still lent
/// (`kept_`); the sender, when it comes round to one, writes a *skip* over its header, which is not lent, leaves the
/// rest as it is, and goes on behind it. Once more than a quarter of the cells are kept, heads are copied and not lent:
/// at least half of the ring stays in use, whatever the receiver keeps. In the usual case, a head that is destroyed
/// before its credit is given, all this costs a byte stored twice and read once.
///
/// **Heads of many cells** cover the sequences of all their cells but the first; what is left there could look like a
/// record to the receiver a round later. The sender remembers these cells (`covered_`) and wipes each before it stores
/// the sequence of the record in front of it, so before the receiver may look there. For that it must own the next
/// cell: one cell always stays free. A head that finds no neighbouring free cells, or is too large for this ring, goes
/// by pointer like a body.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include <tern/base/bytes.hpp>
#include <tern/task/detail/wait.hpp>

namespace tern::net::detail {

/// Tells the processor that another core will want these lines soon: on those that know CLDEMOTE they move to a cache
/// that the cores share. The others take the instruction for a NOP.
inline void demote(const std::byte* from, std::size_t bytes) noexcept {
#if defined(__x86_64__)
  for (std::size_t i = 0; i < bytes; i += 64) asm volatile(".byte 0x0f, 0x1c, 0x07" : : "D"(from + i) : "memory");
#else
  (void)from, (void)bytes;
#endif
}

/// From one rank to one rank. The sender's functions: any threads; the receiver's: one thread.
class inproc_ring final : private byte_lender {
public:
  static constexpr std::size_t cell_bytes = 128, header_bytes = 16, body_bytes = 16, most_cells = 256;
  /// Heads of up to so many bytes fit into the largest ring's cells.
  static constexpr std::size_t head_limit = most_cells / 8 * cell_bytes - header_bytes;

  /// \param cells a power of two from 32 to `most_cells`. \throws error(out_of_memory).
  explicit inproc_ring(std::uint32_t cells);
  /// \pre all heads have been given back.
  ~inproc_ring();
  inproc_ring(const inproc_ring&) = delete;
  inproc_ring& operator=(const inproc_ring&) = delete;

  // The sender's ------------------------------------------------------------------------------------------------------
  /// \param received_until_now anything that changes when the sending rank receives: a message that is an answer will
  /// be waited for, and is moved towards the other core (see `demote`); 0: unknown.
  /// \return whether there was room. If there was none, some `give_credit` will say so. \throws error(out_of_memory).
  bool send(std::span<const std::byte> head, byte_buffer& body, bool urgent, std::uint64_t received_until_now);

  // The receiver's ----------------------------------------------------------------------------------------------------
  /// \return whether there may be a record.
  bool ready() const noexcept { return sequence(read_).load(std::memory_order_acquire) == read_ + 1; }
  /// The next message. \pre both are empty. \throws error(out_of_memory): nothing has been taken then.
  bool receive(byte_buffer& head, byte_buffer& body);
  /// Gives credit, if there is enough for it. \return true if the sender has been refused since, and must be woken.
  bool give_credit() noexcept { return read_ - credited_ >= batch_ && credit_now(); }

private:
  enum class kind : std::uint8_t { head, body, far_head, far_both, skip }; // `far`: a pointer instead of the head
  struct record {
    std::uint32_t size; // of the head
    kind is;
    std::uint8_t cells;
  };
  struct far_part {
    void* data;
    std::size_t size;
  };
  static constexpr std::size_t words = most_cells / 64;
  using bits = std::array<std::uint64_t, words>;

  void take_back(std::byte* data) noexcept override;
  std::byte* cell(std::uint64_t position) const noexcept { return memory_ + (position & mask_) * cell_bytes; }
  // Not an atomic object: heads of many cells lie across it.
  std::atomic_ref<std::uint64_t> sequence(std::uint64_t position) const noexcept {
    return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(cell(position)));
  }
  bool in(const bits& set, std::uint64_t position) const noexcept {
    const std::uint64_t i = position & mask_;
    return set[i / 64] >> (i % 64) & 1;
  }
  record header(std::uint64_t position) const noexcept;
  void publish(const record& r) noexcept;
  std::uint32_t make_room(std::uint32_t cells, bool urgent) noexcept;
  std::uint32_t find_room(std::uint64_t credit, std::uint32_t cells, bool urgent) noexcept;
  bool credit_now() noexcept;
  void credit_kept() noexcept;

  std::byte* const memory_;
  const std::uint64_t mask_; // cells - 1
  const std::uint32_t batch_, reserve_;

  // Of the sender, under the lock.
  alignas(cell_bytes) tern::detail::spin_lock lock_;
  std::uint64_t written_ = 0;     // position of the next record
  std::uint64_t clear_until_ = 0; // nothing is kept before, and it is not among what is kept for urgent messages
  std::uint64_t answered_ = 0;    // received_until_now of the last message
  bits covered_{}, known_kept_{};

  // Of the receiver.
  alignas(cell_bytes) std::uint64_t read_ = 0;
  std::uint64_t credited_ = 0;
  std::uint32_t kept_cells_ = 0;                           // of `kept_`
  std::array<std::uint8_t, most_cells> counted_{};         // what each cell adds to it
  std::array<std::atomic<std::uint8_t>, most_cells> lent_; // by a record's first cell: how many cells are lent

  // From the receiver to the sender: twice the position that it has read up to, + 1 if anything in `kept_` is set.
  alignas(cell_bytes) std::atomic<std::uint64_t> credit_{0};
  std::array<std::atomic<std::uint64_t>, words> kept_; // by a record's first cell: do not write there
  alignas(cell_bytes) std::atomic<bool> starved_{false};
};

} // namespace tern::net::detail
