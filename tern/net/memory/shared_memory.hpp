// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Memory that other processes of the host can map, for bodies that reach them without a copy.
/// Internal.
///
/// A process has at most one *segment*, a file without a name (memfd_create(2)) that it maps whole
/// when the first block is wanted. Its pages are taken from the system as they are first used; the
/// last process that maps it ends it, however the others ended.
///
///     page: what it is | a line for each place: its holders | places of 16 KiB
///
/// A block is a power of two of neighbouring places. Which are free only the owning process knows
/// (`shared_pool`). What the processes share is one number for each block, at its first place:
/// `holders`, how many messages other processes have been sent with it and have not given back.
///
///  - The sender adds 1 before it publishes the message (`lend`). relaxed: the message's own release
///    and acquire put it, and the block's content, before all that the receiver does.
///  - The receiver, on any thread, subtracts 1 when it needs the block no more. release: what it has
///    read there, and written if the block is its own, comes before.
///  - The sender's process lets a block go when its last buffer or share there has gone. Then no
///    message can be sent with it any more, so the number only falls. If it is 0 the block is free;
///    if not, the block is *lent*, and looked at again when a block of its size is wanted. acquire:
///    with the receivers' release; whoever gets the block next comes after all of them. (The
///    additions are read-modify-writes, so they break no release sequence.)
///
/// So nothing waits: not the sender for the receiver, nor the end of a job for what is kept. What
/// a receiver keeps for long is missing in the sender's segment, which has an end (`places`). Then
/// `take` gives nothing, the caller takes other memory, and the body is copied. A receiver that
/// dies gives nothing back: the same, until the sender ends.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <tern/base/bytes.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::net::detail {

/// How a segment is laid out; the same in all processes.
struct segment_layout {
  static constexpr std::size_t place_bytes = std::size_t{16} << 10, line = 64;
  static constexpr std::uint32_t places = 16384;
  static constexpr std::size_t holders_at = 4096, blocks_at = holders_at + places * line;
  static constexpr std::size_t bytes = blocks_at + places * place_bytes;
  static constexpr std::uint64_t sign = 0x7465726e'73656731; // of this layout

  /// Where a block is, in a message, with what its receiver may do. Never 0.
  static constexpr std::uint64_t where(std::uint32_t place, bool exclusive) noexcept {
    return std::uint64_t{place} << 2 | (exclusive ? 2U : 0U) | 1U;
  }
  static constexpr std::uint64_t place_of(std::uint64_t where) noexcept { return where >> 2; }
  static constexpr bool exclusive(std::uint64_t where) noexcept { return (where & 2) != 0; }
};

/// A mapped segment: the process's own or another's.
class segment_view {
public:
  explicit segment_view(std::byte* memory = nullptr) noexcept : memory_(memory) {}
  explicit operator bool() const noexcept { return memory_ != nullptr; }
  std::byte* memory() const noexcept { return memory_; }
  std::byte* block(std::uint32_t place) const noexcept {
    return memory_ + segment_layout::blocks_at + place * segment_layout::place_bytes;
  }
  std::atomic<std::uint32_t>& holders(std::uint32_t place) const noexcept {
    return *reinterpret_cast<std::atomic<std::uint32_t>*>(memory_ + segment_layout::holders_at +
                                                          place * segment_layout::line);
  }
  /// Whether it is in a place, as a block's begin is.
  bool begins_place(const std::byte* data) const noexcept {
    // address: of any memory of the process; a body goes the same way in content, whatever it is
    const auto at = reinterpret_cast<std::uintptr_t>(data) - reinterpret_cast<std::uintptr_t>(memory_);
    return memory_ && at >= segment_layout::blocks_at && at < segment_layout::bytes &&
           (at - segment_layout::blocks_at) % segment_layout::place_bytes == 0;
  }
  std::uint32_t place(const std::byte* data) const noexcept {
    return static_cast<std::uint32_t>(static_cast<std::size_t>(data - memory_ - segment_layout::blocks_at) /
                                      segment_layout::place_bytes);
  }

private:
  std::byte* memory_;
};

/// The blocks of a segment, for the process that owns it. Any thread.
class shared_pool final : public byte_lender {
public:
  /// Sizes of which it has blocks. Below, a copy costs less than the message's way there and back;
  /// above, the system's large pages serve more.
  static constexpr std::size_t least = segment_layout::place_bytes, most = std::size_t{32} << 20;

  /// Takes nothing from the system yet. \param places fewer than a segment has, for tests.
  explicit shared_pool(std::uint32_t places = segment_layout::places) noexcept : places_(places) {}
  /// \pre all blocks are back.
  ~shared_pool();
  shared_pool(const shared_pool&) = delete;
  shared_pool& operator=(const shared_pool&) = delete;

  /// `size` uninitialised bytes at a page's begin. Empty if there are none: the size is not one of
  /// its, the system gives no such memory, or all of it is in use.
  byte_buffer take(std::size_t size) noexcept;
  void take_back(std::byte* data) noexcept override;

  /// The segment's file; -1: there is none yet, or never.
  int file() const noexcept { return file_.load(std::memory_order_acquire); }
  /// A message is about to be sent with this body. \return where its block is, which has one more
  /// holder; 0 if it cannot go so: it begins no block, or others may still write to it.
  std::uint64_t lend(const byte_buffer& body) noexcept;
  /// The message has not been sent so.
  void unlend(std::uint64_t where) noexcept;

  /// Blocks that have gone here and still have holders, or have not been looked at since.
  std::uint32_t lent() const noexcept;
  /// Bytes up to the end of the last block that was ever used.
  std::size_t used() const noexcept;

  /// The process's. Never destroyed.
  static shared_pool& of_process();
  /// Between these, `take_here` gives memory of it. They nest.
  static void begin_use() noexcept;
  static void end_use() noexcept;
  /// Of the process's pool, if it is in use; else empty.
  static byte_buffer take_here(std::size_t size) noexcept {
    return size >= least && size <= most && users.load(std::memory_order_acquire) > 0 ? of_process().take(size)
                                                                                      : byte_buffer();
  }

private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  static constexpr std::uint8_t no_block = 0xff, is_free = 0x80;
  static constexpr unsigned orders = 12; // up to `most`
  static_assert(segment_layout::place_bytes << (orders - 1) == most);
  static constexpr int looks = 8;                 // at lent blocks, for one that is wanted
  static constexpr std::uint32_t tidy_every = 64; // blocks that are not there
  struct list {
    std::uint32_t first = none, last = none;
  };

  static unsigned order_of(std::size_t size) noexcept;
  bool open() noexcept;
  std::uint32_t find(unsigned order, bool& fresh) noexcept;
  std::uint32_t pop(list& from) noexcept;
  void push_front(list& to, std::uint32_t place) noexcept;
  void push_back(list& to, std::uint32_t place) noexcept;
  void put_free(std::uint32_t place, unsigned order) noexcept;
  bool is_back(std::uint32_t place) const noexcept {
    return segment_.holders(place).load(std::memory_order_acquire) == 0;
  }
  std::uint32_t find_back(unsigned order) noexcept;
  std::uint32_t carve(unsigned order) noexcept;
  std::uint32_t split(unsigned order) noexcept;
  void tidy() noexcept;

  static inline std::atomic<int> users{0};

  const std::uint32_t places_;
  std::atomic<int> file_{-1};
  mutable tern::detail::spin_lock lock_; // all below
  segment_view segment_;
  bool failed_ = false; // to open it
  std::uint32_t top_ = 0, lent_ = 0, misses_ = 0;
  std::array<list, orders> free_{}, back_later_{};
  std::unique_ptr<std::uint32_t[]> next_;  // in a list, by place
  std::unique_ptr<std::uint8_t[]> blocks_; // order of the block that begins there
};

/// The segment of another process, as its receiver. One thread; but any thread may destroy what
/// `take` gave.
class foreign_segment final : public byte_lender {
public:
  /// \param process of it, or a thread. \return null if it cannot be mapped here.
  static foreign_segment* open(int process, int file) noexcept;
  /// It stays mapped as long as there are buffers of it.
  void close() noexcept { forget(); }

  /// The body of a message that says where it is. \return empty if no body can be there. \throws
  /// error(out_of_memory).
  byte_buffer take(std::uint64_t where, std::size_t size);
  void take_back(std::byte* data) noexcept override;

private:
  explicit foreign_segment(std::byte* memory) noexcept : segment_(memory) {}
  ~foreign_segment();
  void forget() noexcept;
  void touch(std::uint32_t place, std::size_t size) noexcept;

  const segment_view segment_;
  std::atomic<std::size_t> users_{1};
  std::array<std::uint64_t, segment_layout::places / 64> touched_{}; // places whose pages are mapped
};

} // namespace tern::net::detail
