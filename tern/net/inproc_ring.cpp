// SPDX-License-Identifier: Apache-2.0
#include <tern/net/detail/inproc_ring.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include <tern/base/error.hpp>

namespace tern::net::detail {
namespace {

constexpr std::uint64_t ahead = 8; // cells that are fetched before they are written

// PREFETCHW, which the compiler's own means become only if told that every processor has it; those without take it for
// a NOP.
void fetch_to_write(std::byte* p) noexcept {
#if defined(__x86_64__)
  asm volatile(".byte 0x0f, 0x0d, 0x0f" : : "D"(p));
#else
  __builtin_prefetch(p, 1);
#endif
}

std::byte* make_cells(std::uint32_t cells) {
  const std::size_t bytes = cells * inproc_ring::cell_bytes;
  void* p = std::aligned_alloc(inproc_ring::cell_bytes, bytes);
  if (!p)
    throw error(errc::out_of_memory, "cannot allocate a ring of " + std::to_string(bytes) + " bytes between two ranks",
                "start fewer ranks, or give the process more memory");
  return static_cast<std::byte*>(std::memset(p, 0, bytes)); // sequence 0 is no record's
}

} // namespace

inproc_ring::inproc_ring(std::uint32_t cells)
    : memory_(make_cells(cells)), mask_(cells - 1), batch_(cells / 8), reserve_(cells >= 64 ? 8 : 4) {
  for (auto& each : lent_) each.store(0, std::memory_order_relaxed);
  for (auto& each : kept_) each.store(0, std::memory_order_relaxed);
}

inproc_ring::~inproc_ring() {
  for (; ready(); read_ += header(read_).cells) { // nobody has received these
    const record r = header(read_);
    std::byte* const at = cell(read_) + header_bytes;
    far_part part;
    if (r.is == kind::far_head || r.is == kind::far_both) {
      std::memcpy(&part, at, sizeof part);
      std::free(part.data);
    }
    if (r.is == kind::body || r.is == kind::far_both) {
      std::memcpy(&part, cell(read_) + r.cells * cell_bytes - body_bytes, sizeof part);
      std::free(part.data);
    }
  }
  std::free(memory_);
}

inproc_ring::record inproc_ring::header(std::uint64_t position) const noexcept {
  record r;
  std::memcpy(&r, cell(position) + sizeof(std::uint64_t), sizeof r);
  return r;
}

// ---- the sender

bool inproc_ring::send(std::span<const std::byte> head, byte_buffer& body, bool urgent,
                       std::uint64_t received_until_now) {
  const bool with_body = !body.empty();
  if (with_body && body.borrowed()) body = body.copy(); // its memory will be freed by another
  const std::size_t fixed = header_bytes + (with_body ? body_bytes : 0);
  auto cells = static_cast<std::uint32_t>((fixed + head.size() + cell_bytes - 1) / cell_bytes);
  bool far = cells > batch_;
  if (far) cells = 1;

  std::lock_guard hold(lock_);
  if (written_ + cells >= clear_until_ || (cells > 1 && (written_ & mask_) + cells > mask_ + 1)) [[unlikely]] {
    const std::uint32_t found = make_room(cells, urgent);
    if (found == 0) return false;
    far |= found < cells;
    cells = found;
  }
  std::byte* const at = cell(written_);
  record r{static_cast<std::uint32_t>(head.size()), with_body ? kind::body : kind::head,
           static_cast<std::uint8_t>(cells)};
  if (far) [[unlikely]] {
    byte_buffer copy = byte_buffer::copy_of(head); // throws before anything has been written
    const far_part part{copy.data(), head.size()};
    (void)copy.release();
    std::memcpy(at + header_bytes, &part, sizeof part);
    r.is = with_body ? kind::far_both : kind::far_head;
  } else if (!head.empty()) {
    std::memcpy(at + header_bytes, head.data(), head.size());
  }
  if (with_body) {
    const std::size_t size = body.size();
    const far_part part{body.release(), size};
    std::memcpy(at + cells * cell_bytes - body_bytes, &part, sizeof part);
  }
  for (std::uint64_t i = written_ + 1; i < written_ + cells; ++i) // in one word or two
    covered_[(i & mask_) / 64] |= std::uint64_t{1} << (i % 64);
  publish(r);
  // The next exchange of the lock waits for all stores: let them find their lines here.
  // Not those that the receiver has still to read.
  if (written_ + ahead < clear_until_) fetch_to_write(cell(written_ + ahead));
  if (received_until_now != answered_) {
    answered_ = received_until_now;
    demote(at, std::min<std::size_t>(fixed + head.size(), cells * cell_bytes));
  }
  return true;
}

// Makes what has been written at `written_` a record, and goes on behind it.
void inproc_ring::publish(const record& r) noexcept {
  const std::uint64_t at = written_, next = at + r.cells;
  if (in(covered_, next)) {
    sequence(next).store(0, std::memory_order_relaxed);
    covered_[(next & mask_) / 64] &= ~(std::uint64_t{1} << (next % 64));
  }
  covered_[(at & mask_) / 64] &= ~(std::uint64_t{1} << (at % 64));
  std::memcpy(cell(at) + sizeof(std::uint64_t), &r, sizeof r);
  sequence(at).store(at + 1, std::memory_order_release); // pairs with the acquire in `ready`
  written_ = next;
}

// Sees to it that the next record may be written at `written_`. Returns of how many cells it may be, `cells` or 1; 0:
// of none, and the receiver knows.
std::uint32_t inproc_ring::make_room(std::uint32_t cells, bool urgent) noexcept {
  for (std::uint64_t credit = credit_.load(std::memory_order_acquire);;) {
    if (const std::uint32_t found = find_room(credit, cells, urgent)) return found;
    // Dekker: this side stores `starved_` and reads the credit, the receiver stores the credit and reads `starved_`,
    // each with a full fence between. So either we see its credit, or it sees that somebody must be woken. It will give
    // credit: whatever it keeps, more than a batch of cells is full of what it has not received or not credited.
    starved_.store(true, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const std::uint64_t now = credit_.load(std::memory_order_acquire);
    if (now == credit) return 0;
    credit = now;
  }
}

std::uint32_t inproc_ring::find_room(std::uint64_t credit, std::uint32_t cells, bool urgent) noexcept {
  const std::uint64_t count = mask_ + 1, limit = credit / 2 + count;
  std::uint64_t free = limit - written_;
  const bool any = credit & 1;
  if (any) {
    // At least as new as the credit. What they say of cells that have been credited does not change until we have
    // written over these.
    for (std::size_t i = 0; i < words; ++i) known_kept_[i] = kept_[i].load(std::memory_order_relaxed);
    for (std::uint64_t i = written_; i < limit;)
      if (in(known_kept_, i)) {
        free -= header(i).cells;
        i += header(i).cells;
      } else {
        ++i;
      }
  }
  const auto kept = [&](std::uint64_t i) { return any && in(known_kept_, i); };
  // One cell always stays free; so there is one behind each record and skip, to be wiped.
  const std::uint64_t spare = 1 + (urgent ? 0 : reserve_);
  if (free < 1 + spare) return 0;
  for (;;) {
    if (kept(written_)) {
      publish({0, kind::skip, header(written_).cells});
      continue;
    }
    std::uint64_t end = any ? written_ : limit; // of the free cells that begin here
    while (end < limit && !kept(end)) ++end;
    clear_until_ = std::min(end, written_ + free - std::min<std::uint64_t>(free, reserve_));
    if (cells == 1) return 1;
    const std::uint64_t to_end = count - (written_ & mask_), run = end - written_;
    if (run >= cells && to_end >= cells && free >= cells + spare) return cells;
    if (to_end >= cells || run < to_end + cells || free < to_end + cells + spare) return 1;
    publish({0, kind::skip, static_cast<std::uint8_t>(to_end)}); // fewer than `cells`, so than `batch_`
    free -= to_end;
  }
}

// ---- the receiver

bool inproc_ring::receive(byte_buffer& head, byte_buffer& body) {
  for (; ready(); read_ += header(read_).cells) {
    const record r = header(read_);
    if (r.is == kind::skip) continue;
    std::byte* const at = cell(read_) + header_bytes;
    far_part part;
    if (r.is == kind::far_head || r.is == kind::far_both) {
      std::memcpy(&part, at, sizeof part);
      head = byte_buffer::adopt(part.data, part.size);
    } else if (r.size == 0) {
      ; // stays empty
    } else if (kept_cells_ > (mask_ + 1) / 4) [[unlikely]] {
      head = byte_buffer::copy_of({at, r.size});
    } else {
      lent_[read_ & mask_].store(r.cells, std::memory_order_relaxed); // only this thread reads it
      byte_buffer::borrow(at, r.size, *this).swap(head);
    }
    if (r.is == kind::body || r.is == kind::far_both) {
      std::memcpy(&part, cell(read_) + r.cells * cell_bytes - body_bytes, sizeof part);
      body = byte_buffer::adopt(part.data, part.size);
    }
    read_ += r.cells;
    return true;
  }
  return false;
}

void inproc_ring::take_back(std::byte* data) noexcept {
  const auto i = static_cast<std::size_t>(data - memory_) / cell_bytes;
  // release: who destroyed the head has read it; `credit_now` acquires, and its credit hands that on to the sender.
  lent_[i].store(0, std::memory_order_release);
}

bool inproc_ring::credit_now() noexcept {
  bool any = kept_cells_ > 0;
  for (std::uint64_t i = credited_; i != read_; ++i) any |= lent_[i & mask_].load(std::memory_order_acquire) != 0;
  if (any) [[unlikely]]
    credit_kept();
  credited_ = read_;
  credit_.store(2 * credited_ + (kept_cells_ > 0), std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst); // see `make_room`
  return starved_.load(std::memory_order_relaxed) && starved_.exchange(false, std::memory_order_relaxed);
}

// Says which records of those that now are credited are still lent.
void inproc_ring::credit_kept() noexcept {
  for (std::uint64_t p = credited_; p != read_; ++p) {
    const std::size_t i = p & mask_;
    const std::uint8_t cells = lent_[i].load(std::memory_order_acquire);
    const std::uint64_t bit = std::uint64_t{1} << (i % 64), word = kept_[i / 64].load(std::memory_order_relaxed);
    kept_[i / 64].store(cells ? word | bit : word & ~bit, std::memory_order_relaxed);
    kept_cells_ += cells;
    kept_cells_ -= counted_[i];
    counted_[i] = cells;
  }
}

} // namespace tern::net::detail
