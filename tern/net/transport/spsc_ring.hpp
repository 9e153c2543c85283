// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The ring through which one rank sends to another of its host: one place in memory for each
/// message, whose head the receiver reads where the sender wrote it. Between threads of one process
/// (inproc_ring.hpp) and, in memory that they share, between processes (mpi/rings.cpp); so it
/// depends on nothing else of Tern. Internal.
///
/// Memory is cells of 128 bytes, taken in order by *records* of one or more whole neighbouring
/// cells:
///
///     sequence 8 | size 4 | flags 1 | cells 1 | - 2 | head, 16-byte aligned ... | extra 16, if there is one
///
/// The sequence is the record's position (in cells since the beginning) + 1, and is stored last. So
/// one cache line tells the receiver that there is something and what. Positions run on; cell
/// `position % count` holds it. The receiver returns what it has read as *credit*, an eighth of the
/// ring at a time, since that line travels between the cores.
///
/// **Kept heads.** A head is lent: it lies in its cells until it is given back. That may happen
/// much later, on another thread, and in any order. The thread that gives it back may wait for a
/// message that comes through this ring, so a kept record must never stop the ring. With each
/// credit the receiver says which records in it are still lent (`kept`). When the sender reaches
/// one in the next round, it writes a *skip* over its header, which is not lent. It leaves the rest
/// as it is, and goes on behind it. Once more than a quarter of the cells are kept, heads are to be
/// copied and not lent: at least half of the ring stays in use, whatever the receiver keeps. In the
/// usual case, a head that is given back before its credit, all this costs a byte stored twice and
/// read once.
///
/// **Heads of many cells** cover the sequences of all their cells but the first; what is left there
/// could look like a record to the receiver a round later. The sender remembers these cells
/// (`covered_`). It wipes each before it stores the sequence of the record in front of it, so
/// before the receiver may look there. For that it must own the next cell: one cell always stays
/// free. A head that finds no neighbouring free cells must go another way.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tern::net::detail {

/// What a record is, and how much of it there is. One word, stored and read at once.
struct ring_record {
  static constexpr std::uint8_t with_extra = 1; ///< 16 bytes more, at the end of its cells
  static constexpr std::uint8_t special = 2;    ///< means what sender and receiver have agreed on
  static constexpr std::uint8_t skip = 4;       ///< nothing

  constexpr ring_record() = default;
  constexpr ring_record(std::uint32_t size, std::uint8_t flags, std::uint32_t cells)
      : word(size | std::uint64_t{flags} << 32 | std::uint64_t{cells} << 40) {}
  constexpr std::uint32_t size() const { return static_cast<std::uint32_t>(word); }
  constexpr std::uint8_t flags() const { return static_cast<std::uint8_t>(word >> 32); }
  constexpr std::uint32_t cells() const { return static_cast<std::uint32_t>(word >> 40); }
  /// A head in one cell and nothing else, as nearly all are; if its size is what fits.
  constexpr bool plain() const { return word >> 32 == 1U << 8; }

  std::uint64_t word = 0;
};

/// What sender and receiver tell each other beside the cells, which follow it. Fresh when all its
/// bytes are 0.
struct ring_shared {
  static constexpr std::uint32_t most_cells = 1024;
  static constexpr std::size_t words = most_cells / 64;

  // From the receiver to the sender: twice the position that it has read up to, + 1 if anything in
  // `kept` is set.
  alignas(128) std::atomic<std::uint64_t> credit;
  std::array<std::atomic<std::uint64_t>, words> kept; // by a record's first cell: do not write there
  // From the sender: it was refused since the last credit.
  alignas(128) std::atomic<std::uint32_t> starved;
  // What the ends count beside the ring: one the receiver, one the sender.
  std::atomic<std::uint64_t> receivers_count, senders_count;
  std::atomic<std::uint64_t> shared_taken; // by the receiver: bodies that lay in the sender's segment
  // From the receiver: what copies have cost it, see carrier_choice.hpp. Hardly ever written.
  alignas(64) std::atomic<std::uint64_t> takes_cost;
  std::atomic<std::uint64_t> reads_cost;
  // From the sender: the number of its segment's file, + 1 (memory/shared_memory.hpp); and from the
  // receiver, whether it has mapped it.
  std::atomic<std::uint32_t> segment, segment_mapped;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free &&
              sizeof(ring_shared) % 128 == 0);

/// What both ends have.
class ring_end {
public:
  static constexpr std::size_t cell_bytes = 128, header_bytes = 16, extra_bytes = 16;
  static constexpr std::size_t small_head = cell_bytes - header_bytes; ///< the most bytes of a head in one cell

  /// Memory of a ring of `cells`, aligned to 128 bytes and filled with 0. \param cells a power of
  /// two from 32 to `ring_shared::most_cells`.
  static constexpr std::size_t bytes_of(std::uint32_t cells) { return sizeof(ring_shared) + cells * cell_bytes; }
  /// The cells of a record.
  static constexpr std::uint32_t cells_of(std::size_t head, bool extra) {
    return static_cast<std::uint32_t>((header_bytes + head + (extra ? extra_bytes : 0) + cell_bytes - 1) / cell_bytes);
  }
  /// The most cells of a record in a ring of `cells`.
  static constexpr std::uint32_t most_cells_of(std::uint32_t cells) { return cells / 8; }

  std::uint32_t largest() const noexcept { return batch_; } ///< cells of a record

protected:
  void attach(ring_shared* memory, std::uint32_t cells) noexcept {
    shared_ = memory;
    cells_ = reinterpret_cast<std::byte*>(memory + 1);
    mask_ = cells - 1;
    batch_ = most_cells_of(cells);
  }
  std::byte* cell(std::uint64_t position) const noexcept { return cells_ + (position & mask_) * cell_bytes; }
  // Not an atomic object: heads of many cells lie across it.
  static std::atomic_ref<std::uint64_t> sequence(std::byte* cell) noexcept {
    return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(cell));
  }
  static ring_record record(const std::byte* cell) noexcept {
    ring_record r;
    std::memcpy(&r.word, cell + sizeof(std::uint64_t), sizeof r.word);
    return r;
  }

  std::byte* cells_ = nullptr;
  std::uint64_t mask_ = 0; // cells - 1
  ring_shared* shared_ = nullptr;
  std::uint32_t batch_ = 0; // so many cells are credited at a time, and one record may have
};

/// One thread at a time.
class ring_sender : public ring_end {
public:
  /// \param reserve cells that are kept for urgent messages, up to three sixteenths: half of the
  /// ring may be kept, and beside that, the reserve and the largest message more than a batch must
  /// remain. \pre the memory is fresh.
  void open(ring_shared* memory, std::uint32_t cells, std::uint32_t reserve) noexcept {
    attach(memory, cells);
    reserve_ = reserve;
    limit_ = cells;
  }

  /// Sends a head of up to `small_head` bytes. \return whether there was space. If there was none,
  /// some credit will say so. \param received_until_now anything that changes when the sending rank
  /// receives: a message that is an answer will be waited for, and is moved towards the other core;
  /// 0: unknown.
  bool send_small(const std::byte* head, std::size_t size, bool urgent, std::uint64_t received_until_now) noexcept {
    if (written_ + 1 >= clear_until_ && wait_for_space(1, urgent) == 0) [[unlikely]]
      return false;
    std::byte* const here = cell(written_);
    copy_small(here + header_bytes, head, size);
    publish_at(here, {static_cast<std::uint32_t>(size), 0, 1}, received_until_now);
    return true;
  }

  // In steps: find space, fill `place` and `extra_place`, publish.

  /// Of how many cells the next record may be: `cells` (\pre not more than `largest`), or 1 if so
  /// many are not free side by side. 0: there is no space, and some credit will say when there is.
  std::uint32_t space(std::uint32_t cells, bool urgent) noexcept {
    if (written_ + cells < clear_until_ && (written_ & mask_) + cells <= mask_ + 1) [[likely]]
      return cells;
    return wait_for_space(cells, urgent);
  }
  /// Whether there is space for `n` records of one cell; if not, as `space`. \pre n is not much
  /// above `largest`.
  bool space_for_singles(std::uint32_t n, bool urgent) noexcept;
  /// Whether there is space for `n` records of one cell, and so for as much in larger ones, one
  /// after the other; these lose at the ring's end, once, up to `lost` cells. If there is none, the
  /// receiver is not told.
  bool space_now(std::uint32_t n, std::uint32_t lost, bool urgent) noexcept {
    learn(shared_->credit.load(std::memory_order_acquire));
    return !broken_ && free_cells() >= std::uint64_t{n} + lost + 1 + (urgent ? 0 : reserve_);
  }
  std::byte* place() const noexcept { return cell(written_) + header_bytes; }
  std::byte* extra_place(std::uint32_t cells) const noexcept {
    return cell(written_) + cells * cell_bytes - extra_bytes;
  }
  void publish(ring_record r, std::uint64_t received_until_now) noexcept {
    if (r.cells() > 1) cover(r.cells());
    publish_at(cell(written_), r, received_until_now);
  }

  /// Whether no credit has come since there was no space.
  bool starved() const noexcept { return shared_->starved.load(std::memory_order_relaxed) != 0; }
  /// Whether the receiver has given credit for what was never sent.
  bool broken() const noexcept { return broken_; }

private:
  using bits = std::array<std::uint64_t, ring_shared::words>;
  static constexpr std::uint64_t ahead = 8; // cells that are fetched before they are written

  // PREFETCHW, which the compiler's own means become only if told that every processor has it;
  // those without take it for a NOP.
  static void fetch_to_write(std::byte* p) noexcept {
#if defined(__x86_64__)
    asm volatile(".byte 0x0f, 0x0d, 0x0f" : : "D"(p));
#else
    __builtin_prefetch(p, 1);
#endif
  }
  // Tells the processor that another core will want these lines soon: on those that know CLDEMOTE
  // they move to a cache that the cores share. The others take the instruction for a NOP.
  static void demote(const std::byte* from, std::size_t bytes) noexcept {
#if defined(__x86_64__)
    for (std::size_t i = 0; i < bytes; i += 64) asm volatile(".byte 0x0f, 0x1c, 0x07" : : "D"(from + i) : "memory");
#else
    (void)from, (void)bytes;
#endif
  }
  // A few moves of fixed sizes, which may overlap: a call of memcpy is longer than they are.
  static void copy_small(std::byte* to, const std::byte* from, std::size_t size) noexcept {
    if (size > 32) {
      std::memcpy(to, from, 32);
      if (size > 64) {
        std::memcpy(to + 32, from + 32, 32);
        if (size > 96) std::memcpy(to + 64, from + 64, 16);
      }
      std::memcpy(to + size - 32, from + size - 32, 32);
    } else if (size >= 16) {
      std::memcpy(to, from, 16);
      std::memcpy(to + size - 16, from + size - 16, 16);
    } else if (size >= 8) {
      std::memcpy(to, from, 8);
      std::memcpy(to + size - 8, from + size - 8, 8);
    } else if (size >= 4) {
      std::memcpy(to, from, 4);
      std::memcpy(to + size - 4, from + size - 4, 4);
    } else if (size > 0) {
      to[0] = from[0];
      to[size / 2] = from[size / 2];
      to[size - 1] = from[size - 1];
    }
  }

  // Makes what has been written at `written_`, which is `here`, a record, and goes on behind it.
  void put(std::byte* here, ring_record r) noexcept {
    const std::uint64_t at = written_, next = at + r.cells();
    if (covered_cells_ != 0) [[unlikely]]
      wipe(at, next);
    written_ = next;
    std::memcpy(here + sizeof(std::uint64_t), &r.word, sizeof r.word);
    // release: pairs with the acquire in `ring_receiver::ready`.
    sequence(here).store(at + 1, std::memory_order_release);
  }
  void publish_at(std::byte* here, ring_record r, std::uint64_t received_until_now) noexcept {
    put(here, r);
    // The next stores wait for this one's: let them find their lines here.
    // Not those that the receiver has still to read.
    if (const std::uint64_t soon = written_ + ahead; soon < clear_until_) fetch_to_write(cell(soon));
    if (received_until_now != answered_) {
      answered_ = received_until_now;
      demote(here, header_bytes + r.size());
    }
  }
  bool kept(std::uint64_t position) const noexcept {
    const std::uint64_t i = position & mask_;
    return (known_credit_ & 1) && (known_kept_[i / 64] >> (i % 64) & 1);
  }
  std::uint64_t next_kept(std::uint64_t from) const noexcept;
  void cover(std::uint32_t cells) noexcept;
  void wipe(std::uint64_t at, std::uint64_t next) noexcept;
  void skip(std::uint32_t cells) noexcept { put(cell(written_), {0, ring_record::skip, cells}); }
  template <class F> std::uint32_t or_starve(F&& find) noexcept;
  std::uint32_t wait_for_space(std::uint32_t cells, bool urgent) noexcept;
  std::uint32_t find_space(std::uint32_t cells, bool urgent) noexcept;
  void learn(std::uint64_t credit) noexcept;
  std::uint64_t free_cells() const noexcept { return limit_ - written_ - kept_ahead_; }

  std::uint64_t written_ = 0;       // position of the next record
  std::uint64_t clear_until_ = 0;   // nothing is kept before, and it is not among what is kept for urgent messages
  std::uint64_t answered_ = 0;      // received_until_now of the last message
  std::uint32_t covered_cells_ = 0; // of `covered_`
  std::uint32_t reserve_ = 0;
  std::uint64_t known_credit_ = 0; // `credit` when it was last read
  std::uint64_t limit_ = 0;        // may not be written: the receiver has not read it
  std::uint64_t kept_ahead_ = 0;   // cells kept between `written_` and there
  bool broken_ = false;
  std::uint64_t starved_at_ = ~std::uint64_t{0}; // the credit at which `starved` was last stored
  bits covered_{}, known_kept_{};
};

/// One thread; but any thread may give heads back.
class ring_receiver : public ring_end {
public:
  enum class found { nothing, record, broken };

  /// \param lent a byte for each cell, 0 at first: by a record's first cell, how many cells are
  /// lent. The thread that gives a head back stores 0 there, with release.
  void open(ring_shared* memory, std::uint32_t cells, std::atomic<std::uint8_t>* lent) noexcept {
    attach(memory, cells);
    here_ = cells_;
    most_kept_ = cells / 4;
    lent_ = lent;
  }

  /// Whether there may be a record.
  bool ready() const noexcept { return sequence(here_).load(std::memory_order_acquire) == read_ + 1; }
  /// Looks at the next record; it stays the next one until `pass`. Broken: what stands there fits
  /// no ring; no more can be received.
  found look(ring_record& r) noexcept {
    if (!ready()) return found::nothing;
    r = record(here_);
    if (r.plain() && r.size() <= small_head) [[likely]]
      return found::record;
    return look_further(r);
  }
  std::byte* head() const noexcept { return here_ + header_bytes; }
  const std::byte* extra(ring_record r) const noexcept { return here_ + r.cells() * cell_bytes - extra_bytes; }
  /// Whether the next head may be lent; or else it is to be copied.
  bool may_lend() const noexcept { return kept_cells_ <= most_kept_; }
  // relaxed: only this thread reads it, until the head is given back.
  void lend(ring_record r) noexcept {
    lent_[read_ & mask_].store(static_cast<std::uint8_t>(r.cells()), std::memory_order_relaxed);
  }
  void pass(ring_record r) noexcept {
    read_ += r.cells();
    here_ = cell(read_);
  }
  /// Gives credit, if there is enough for it: to be called before each `look`, or more than half of
  /// the ring may be kept, and the sender wait for ever. \return true if the sender has been
  /// refused since, and must be woken.
  bool give_credit() noexcept { return read_ - credited_ >= batch_ && credit_now(); }

private:
  found look_further(ring_record& r) noexcept;
  bool credit_now() noexcept;
  void credit_kept() noexcept;

  std::uint64_t read_ = 0;
  std::byte* here_ = nullptr; // its cell
  std::uint64_t credited_ = 0;
  std::atomic<std::uint8_t>* lent_ = nullptr;
  std::uint32_t most_kept_ = 0;
  std::uint32_t kept_cells_ = 0;                                // of `kept`
  std::array<std::uint8_t, ring_shared::most_cells> counted_{}; // what each cell adds to it
};

} // namespace tern::net::detail
