// SPDX-License-Identifier: Apache-2.0
/// \file
/// What the ring does rarely. Compiled into Tern and into the plug-ins.
#include <tern/net/transport/spsc_ring.hpp>

#include <algorithm>
#include <bit>

namespace tern::net::detail {

// ---- the sender

void ring_sender::cover(std::uint32_t cells) noexcept {
  const std::uint64_t end = (written_ & mask_) + cells; // not behind the last: a record does not go round
  for (std::uint64_t i = (written_ & mask_) + 1; i < end;) {
    std::uint64_t& word = covered_[i / 64];
    const std::uint64_t next = std::min(end, (i / 64 + 1) * 64), n = next - i;
    const std::uint64_t added = (n == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1) << i % 64;
    covered_cells_ += static_cast<std::uint32_t>(std::popcount(added & ~word));
    word |= added;
    i = next;
  }
}

void ring_sender::wipe(std::uint64_t at, std::uint64_t next) noexcept {
  const auto uncover = [this](std::uint64_t i) {
    std::uint64_t& word = covered_[(i & mask_) / 64];
    const std::uint64_t bit = std::uint64_t{1} << (i & mask_) % 64;
    if ((word & bit) == 0) return false;
    word &= ~bit;
    --covered_cells_;
    return true;
  };
  if (uncover(next))
    sequence(cell(next)).store(0, std::memory_order_relaxed); // the record's own sequence is released later
  uncover(at);
}

// Not before `from`, and not behind `limit_`, which means none.
std::uint64_t ring_sender::next_kept(std::uint64_t from) const noexcept {
  if ((known_credit_ & 1) == 0) return limit_;
  while (from < limit_) {
    const std::uint64_t i = from & mask_, left = known_kept_[i / 64] >> (i % 64);
    if (left != 0) return std::min(limit_, from + static_cast<std::uint64_t>(std::countr_zero(left)));
    from += std::min(64 - i % 64, mask_ + 1 - i);
  }
  return limit_;
}

void ring_sender::learn(std::uint64_t credit) noexcept {
  if (credit == known_credit_) return;
  if (credit / 2 > written_ || credit / 2 < known_credit_ / 2) {
    broken_ = true;
    return;
  }
  known_credit_ = credit;
  limit_ = credit / 2 + mask_ + 1;
  kept_ahead_ = 0;
  if ((credit & 1) == 0) return;
  // relaxed: at least as new as the credit, which was acquired. What they say of cells that have
  // been credited does not change until we have written over these.
  for (std::size_t i = 0; i <= mask_ / 64; ++i) known_kept_[i] = shared_->kept[i].load(std::memory_order_relaxed);
  for (std::uint64_t i = next_kept(written_); i < limit_;) {
    const std::uint64_t cells = std::max(1U, record(cell(i)).cells());
    kept_ahead_ += cells;
    i = next_kept(i + cells);
  }
  if (kept_ahead_ > limit_ - written_) broken_ = true;
}

// What `find` finds with the newest credit; 0: nothing, and the receiver knows.
template <class F> std::uint32_t ring_sender::or_starve(F&& find) noexcept {
  for (std::uint64_t credit = shared_->credit.load(std::memory_order_acquire);;) {
    learn(credit);
    if (broken_) return 0;
    if (const std::uint32_t found = find()) return found;
    // A sender that asks again and again disturbs no other rank. What it stored below at this
    // credit stands until the receiver takes it back.
    if (credit == starved_at_ && starved()) return 0;
    // Dekker: this side stores `starved` and reads the credit, the receiver stores the credit and
    // reads `starved`, each with a full fence between. So either we see its credit, or it sees that
    // a rank must be woken. It will give credit: whatever it keeps, more than a batch of cells is
    // full of what it has not received or not credited.
    shared_->starved.store(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const std::uint64_t now = shared_->credit.load(std::memory_order_acquire);
    if (now == credit) {
      starved_at_ = credit;
      return 0;
    }
    credit = now;
  }
}

std::uint32_t ring_sender::wait_for_space(std::uint32_t cells, bool urgent) noexcept {
  return or_starve([&] { return find_space(cells, urgent); });
}

bool ring_sender::space_for_singles(std::uint32_t n, bool urgent) noexcept {
  return or_starve([&] { return free_cells() >= n + 1 + (urgent ? 0 : reserve_) ? 1U : 0U; }) != 0;
}

// Sees to it that the next record may be written at `written_`. Returns of how many cells it may
// be, `cells` or 1; 0: of none.
std::uint32_t ring_sender::find_space(std::uint32_t cells, bool urgent) noexcept {
  // One cell always stays free; so there is one behind each record and skip, to be wiped.
  const std::uint64_t spare = 1 + (urgent ? 0 : reserve_);
  for (;;) {
    const std::uint64_t free = free_cells();
    if (free < 1 + spare) return 0;
    if (kept(written_)) {
      const std::uint32_t kept_here = std::max(1U, record(cell(written_)).cells());
      if (kept_here > kept_ahead_) { // it is not what it was when the credit was read
        broken_ = true;
        return 0;
      }
      skip(kept_here);
      kept_ahead_ -= kept_here;
      continue;
    }
    const std::uint64_t end = next_kept(written_); // of the free cells that begin here
    clear_until_ = std::min(end, written_ + free - std::min<std::uint64_t>(free, reserve_));
    if (cells == 1) return 1;
    const std::uint64_t to_end = mask_ + 1 - (written_ & mask_), run = end - written_;
    if (run >= cells && to_end >= cells && free >= cells + spare) return cells;
    if (to_end >= cells || run < to_end + cells || free < to_end + cells + spare) return 1;
    skip(static_cast<std::uint32_t>(to_end)); // fewer than `cells`, so than a batch
  }
}

// ---- the receiver

// Passes over skips, and checks what it finds: it may come from another process.
ring_receiver::found ring_receiver::look_further(ring_record& r) noexcept {
  for (; ready(); pass(r)) {
    r = record(here_);
    const std::size_t whole = header_bytes + r.size() + (r.flags() & ring_record::with_extra ? extra_bytes : 0);
    if (r.cells() == 0 || r.cells() > batch_ || (read_ & mask_) + r.cells() > mask_ + 1 ||
        r.flags() > ring_record::skip || whole > r.cells() * cell_bytes)
      return found::broken;
    if (r.flags() != ring_record::skip) return found::record;
  }
  return found::nothing;
}

bool ring_receiver::credit_now() noexcept {
  std::uint32_t any = kept_cells_;
  const std::uint64_t until = read_, mask = mask_;
  // acquire: the thread that gave a head back has read it, and stored its byte with release; our
  // credit passes that on.
  for (std::uint64_t i = credited_; i != until; ++i) any |= lent_[i & mask].load(std::memory_order_acquire);
  if (any != 0) [[unlikely]]
    credit_kept();
  credited_ = read_;
  // release: pairs with the sender's acquire; it may write where we have read.
  shared_->credit.store(2 * credited_ + (kept_cells_ > 0), std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst); // see `or_starve`
  return shared_->starved.load(std::memory_order_relaxed) != 0 &&
         shared_->starved.exchange(0, std::memory_order_relaxed) != 0;
}

// Says which records of those that now are credited are still lent.
void ring_receiver::credit_kept() noexcept {
  for (std::uint64_t p = credited_; p != read_; ++p) {
    const std::size_t i = p & mask_;
    const std::uint8_t cells = lent_[i].load(std::memory_order_acquire); // as in `credit_now`
    auto& kept = shared_->kept[i / 64];
    const std::uint64_t bit = std::uint64_t{1} << (i % 64), word = kept.load(std::memory_order_relaxed);
    kept.store(cells ? word | bit : word & ~bit, std::memory_order_relaxed); // the credit releases it
    kept_cells_ += cells;
    kept_cells_ -= counted_[i];
    counted_[i] = cells;
  }
}

} // namespace tern::net::detail
