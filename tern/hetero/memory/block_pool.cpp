// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/memory/block_pool.hpp>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace tern::hetero::detail {
namespace {

// A mistake of the runtime's own, after which memory would be handed out twice.
[[noreturn]] void wrong(const char* what, std::uintptr_t at) noexcept {
  std::fprintf(stderr, "tern: block_pool: 0x%" PRIxPTR " %s\n", at, what);
  std::abort();
}

/// \return 0 if there is no such number.
std::size_t round_up(std::size_t bytes, std::size_t unit) noexcept {
  const std::size_t over = bytes % unit;
  if (over == 0) return bytes;
  return bytes > SIZE_MAX - (unit - over) ? 0 : bytes + (unit - over);
}

} // namespace

block_pool::block_pool(slab_source& source, const block_pool_settings& how) : source_(source), how_(how) {
  how_.granule = std::max(round_up(how_.granule, how_.alignment), how_.alignment);
  how_.first_slab = std::max(round_up(how_.first_slab, how_.granule), how_.granule);
  how_.largest_slab = std::max(round_up(how_.largest_slab, how_.granule), how_.first_slab);
  next_slab_ = how_.first_slab;
}

block_pool::~block_pool() {
  for (const slab& s : slabs_) source_.give_back(s.at, s.bytes);
}

block_pool::used_blocks::const_iterator block_pool::find(std::uintptr_t at) const noexcept {
  const auto found = used_.find(at);
  if (found == used_.end()) wrong("is not the beginning of a block in use: freed twice, or not of this pool", at);
  return found;
}

// So that nothing that comes after need allocate.
void block_pool::prepare(std::size_t nodes) {
  while (spare_.size() < nodes) {
    if (spare_.capacity() <= nodes_) spare_.reserve(std::max<std::size_t>(64, nodes_ * 2));
    free_blocks one;
    one.emplace();
    spare_.push_back(one.extract(one.begin()));
    ++nodes_;
  }
}

block_pool::node block_pool::take_spare() noexcept {
  node n = std::move(spare_.back());
  spare_.pop_back();
  n.value() = block();
  return n;
}

std::uintptr_t block_pool::get(std::size_t bytes) {
  if (bytes > how_.limit || reserved_ > how_.limit - bytes) return 0;
  const std::uintptr_t at = source_.get(bytes);
  if (at % how_.alignment != 0) wrong("is a slab that is not aligned as its blocks must be", at);
  return at;
}

block_pool::free_blocks::const_iterator block_pool::add_slab(std::size_t need) {
  const std::size_t enough = round_up(need, how_.granule);
  if (enough == 0) return free_.end();
  prepare(2); // for the slab, and for what is left of it
  if (slabs_.size() == slabs_.capacity()) slabs_.reserve(std::max<std::size_t>(16, slabs_.size() * 2));

  std::size_t bytes = 0;
  std::uintptr_t at = 0;
  for (;;) {
    const bool shared = need <= next_slab_ / 2;
    bytes = shared ? next_slab_ : enough;
    if ((at = get(bytes)) != 0) {
      // As the pool has grown. A slab for one request counts as well: else many of a size between
      // the first slab's half and its whole would each go to the source.
      next_slab_ = next_slab_ > how_.largest_slab / 2 ? how_.largest_slab : next_slab_ * 2;
      break;
    }
    if (shared && enough < bytes) {
      // Less at first the next time: that the source is asked in vain may be dear, too.
      next_slab_ = std::max(how_.first_slab, round_up(next_slab_ / 2, how_.granule));
      bytes = enough;
      if ((at = get(bytes)) != 0) break;
    }
    // Nothing is given back if that is certain to be in vain.
    if (idle_ == 0 || enough > how_.limit || reserved_ - idle_ > how_.limit - enough) return free_.end();
    trim();
  }

  node n = take_spare();
  n.value().at = at;
  n.value().bytes = bytes;
  const auto added = free_.insert(std::move(n)).position;
  slabs_.push_back({at, bytes, &*added});
  reserved_ += bytes;
  idle_ += bytes;
  return added;
}

std::uintptr_t block_pool::allocate(std::size_t bytes) {
  const std::size_t need = round_up(std::max<std::size_t>(bytes, 1), how_.alignment);
  if (need == 0) return 0;
  prepare(1); // for what is left of the block
  block smallest;
  smallest.bytes = need;
  free_blocks::const_iterator found = free_.lower_bound(smallest);
  if (found == free_.end() && (found = add_slab(need)) == free_.end()) return 0;

  const bool idle = found->whole_slab();
  node taken = free_.extract(found);
  block& b = taken.value();
  if (idle) idle_ -= b.bytes;
  const std::size_t left = b.bytes - need;
  b.bytes = need;
  b.used = true;
  const block* const now = &*used_.insert(std::move(taken)).position;
  used_bytes_ += need;
  if (left != 0) {
    node n = take_spare();
    block& rest = n.value();
    rest.at = now->at + need;
    rest.bytes = left;
    rest.before = now;
    rest.after = now->after;
    const block* const behind = &*free_.insert(std::move(n)).position;
    if (behind->after) behind->after->before = behind;
    now->after = behind;
  }
  return now->at;
}

// `behind`, which is the next in the slab, becomes the end of `into`.
void block_pool::absorb(node& into, node behind) noexcept {
  block& b = into.value();
  b.bytes += behind.value().bytes;
  b.after = behind.value().after;
  if (b.after) b.after->before = &b;
  spare_.push_back(std::move(behind)); // there is room
}

void block_pool::free(std::uintptr_t at) noexcept {
  node n = used_.extract(find(at));
  n.value().used = false;
  used_bytes_ -= n.value().bytes;
  if (const block* const next = n.value().after; next && !next->used) absorb(n, free_.extract(free_.find(*next)));
  if (const block* const last = n.value().before; last && !last->used) {
    node earlier = free_.extract(free_.find(*last));
    absorb(earlier, std::move(n));
    n = std::move(earlier);
  }
  if (n.value().whole_slab()) idle_ += n.value().bytes;
  free_.insert(std::move(n));
}

void block_pool::trim() noexcept {
  if (idle_ == 0) return;
  std::erase_if(slabs_, [this](const slab& s) {
    if (s.first->used || !s.first->whole_slab()) return false;
    spare_.push_back(free_.extract(free_.find(*s.first)));
    source_.give_back(s.at, s.bytes);
    reserved_ -= s.bytes;
    return true;
  });
  idle_ = 0;
  if (slabs_.empty()) next_slab_ = how_.first_slab;
}

} // namespace tern::hetero::detail
