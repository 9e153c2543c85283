// SPDX-License-Identifier: Apache-2.0
#include <tern/net/memory/shared_memory.hpp>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tern/net/buffer.hpp>
#include <tern/net/memory/lent_buffer.hpp>
#include <tern/task/fiber/sanitizer.hpp>

namespace tern::net::detail {

using layout = segment_layout;

namespace {

#ifndef MADV_POPULATE_WRITE
constexpr int MADV_POPULATE_WRITE = 23; // Linux 5.14; the C library's headers may be older
#endif

// Page faults one by one cost as much as to copy the page. Where the system cannot do it at once,
// they come one by one.
void populate(std::byte* data, std::size_t size) noexcept { madvise(data, size, MADV_POPULATE_WRITE); }

// What this process may touch: an error of its own, not one of the others.
void poison([[maybe_unused]] std::byte* data, [[maybe_unused]] std::size_t size) noexcept {
#ifdef TERN_ASAN
  ASAN_POISON_MEMORY_REGION(data, size);
#endif
}
void unpoison([[maybe_unused]] std::byte* data, [[maybe_unused]] std::size_t size) noexcept {
#ifdef TERN_ASAN
  ASAN_UNPOISON_MEMORY_REGION(data, size);
#endif
}

// The owner takes a block that came back by the number of its first place, and may give out a part
// of it with a number of its own. The thread sanitizer cannot see that the two are ordered: it
// knows numbers by their address, which is another one in the owner's mapping.
void tell_given_back([[maybe_unused]] void* segment) noexcept {
#ifdef TERN_TSAN
  __tsan_release(segment);
#endif
}
void tell_taken([[maybe_unused]] void* segment) noexcept {
#ifdef TERN_TSAN
  __tsan_acquire(segment);
#endif
}

std::byte* map(int file) noexcept {
  void* const at = mmap(nullptr, layout::bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

} // namespace

// ---- the owner

shared_pool::~shared_pool() {
  if (segment_) {
    unpoison(segment_.block(0), places_ * layout::place_bytes);
    munmap(segment_.memory(), layout::bytes);
  }
  if (const int file = file_.load(std::memory_order_relaxed); file >= 0) ::close(file);
}

shared_pool& shared_pool::of_process() {
  static auto* const pool = new shared_pool;
  return *pool;
}

void shared_pool::begin_use() noexcept { users.fetch_add(1, std::memory_order_acq_rel); }
void shared_pool::end_use() noexcept { users.fetch_sub(1, std::memory_order_acq_rel); }

unsigned shared_pool::order_of(std::size_t size) noexcept {
  return static_cast<unsigned>(std::bit_width((size - 1) / layout::place_bytes));
}

bool shared_pool::open() noexcept {
  if (segment_ || failed_) return !failed_;
  failed_ = true;
  // A limit on files' sizes would be a signal.
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < layout::bytes) return false;
  next_.reset(new (std::nothrow) std::uint32_t[places_]);
  blocks_.reset(new (std::nothrow) std::uint8_t[places_]);
  if (!next_ || !blocks_) return false;
  const int file = memfd_create("tern-bodies", MFD_CLOEXEC);
  if (file < 0) return false;
  std::byte* const memory = ftruncate(file, static_cast<off_t>(layout::bytes)) == 0 ? map(file) : nullptr;
  if (!memory) {
    ::close(file);
    return false;
  }
  std::fill_n(blocks_.get(), places_, no_block);
  std::memcpy(memory, &layout::sign, sizeof layout::sign);
  segment_ = segment_view(memory);
  file_.store(file, std::memory_order_release);
  failed_ = false;
  return true;
}

std::uint32_t shared_pool::pop(list& from) noexcept {
  const std::uint32_t place = from.first;
  if (place == none) return none;
  from.first = next_[place];
  if (from.first == none) from.last = none;
  return place;
}

void shared_pool::push_front(list& to, std::uint32_t place) noexcept {
  next_[place] = to.first;
  to.first = place;
  if (to.last == none) to.last = place;
}

void shared_pool::push_back(list& to, std::uint32_t place) noexcept {
  next_[place] = none;
  (to.last == none ? to.first : next_[to.last]) = place;
  to.last = place;
}

// The one that was used last is the first that is used again: it is in the caches.
void shared_pool::put_free(std::uint32_t place, unsigned order) noexcept {
  blocks_[place] = static_cast<std::uint8_t>(order | is_free);
  push_front(free_[order], place);
}

// The oldest first; those that are kept for long go to the end.
std::uint32_t shared_pool::find_back(unsigned order) noexcept {
  list& lent = back_later_[order];
  for (int i = 0; i < looks; ++i) {
    const std::uint32_t place = pop(lent);
    if (place == none) return none;
    if (is_back(place)) {
      --lent_;
      return place;
    }
    push_back(lent, place);
  }
  return none;
}

std::uint32_t shared_pool::carve(unsigned order) noexcept {
  const std::uint32_t n = std::uint32_t{1} << order, begin = (top_ + n - 1) & ~(n - 1);
  if (begin + n > places_) return none;
  while (top_ != begin) {
    const auto o = static_cast<unsigned>(std::countr_zero(top_));
    put_free(top_, o);
    top_ += std::uint32_t{1} << o;
  }
  top_ = begin + n;
  return begin;
}

std::uint32_t shared_pool::split(unsigned order) noexcept {
  unsigned from = order;
  while (from < orders && free_[from].first == none) ++from;
  if (from == orders) return none;
  const std::uint32_t place = pop(free_[from]);
  while (from-- > order) put_free(place + (std::uint32_t{1} << from), from);
  return place;
}

// Fetches what has come back, and puts neighbours together.
void shared_pool::tidy() noexcept {
  for (unsigned order = 0; order < orders; ++order) {
    list& lent = back_later_[order];
    for (list before = std::exchange(lent, {}); before.first != none;) {
      const std::uint32_t place = pop(before);
      if (is_back(place)) {
        --lent_;
        put_free(place, order);
      } else {
        push_back(lent, place);
      }
    }
  }
  free_ = {};
  for (unsigned order = 0; order + 1 < orders; ++order) {
    const auto mine = static_cast<std::uint8_t>(order | is_free);
    const std::uint32_t n = std::uint32_t{1} << order;
    for (std::uint32_t place = 0; place + 2 * n <= top_; place += 2 * n)
      if (blocks_[place] == mine && blocks_[place + n] == mine) {
        blocks_[place] = static_cast<std::uint8_t>(mine + 1);
        blocks_[place + n] = no_block;
      }
  }
  for (std::uint32_t place = top_; place-- > 0;)
    if (blocks_[place] != no_block && (blocks_[place] & is_free)) put_free(place, blocks_[place] & ~unsigned{is_free});
}

std::uint32_t shared_pool::find(unsigned order, bool& fresh) noexcept {
  std::uint32_t place = pop(free_[order]);
  if (place == none) place = find_back(order);
  if (place == none && (place = carve(order)) != none) fresh = true;
  if (place == none) place = split(order);
  if (place == none && misses_++ % tidy_every == 0) {
    tidy();
    place = split(order);
  }
  return place;
}

byte_buffer shared_pool::take(std::size_t size) noexcept {
  if (size < least || size > most) return {};
  const unsigned order = order_of(size);
  bool fresh = false;
  std::byte* data = nullptr;
  {
    std::lock_guard hold(lock_);
    if (!open()) return {};
    const std::uint32_t place = find(order, fresh);
    if (place == none) return {};
    blocks_[place] = static_cast<std::uint8_t>(order);
    data = segment_.block(place);
  }
  unpoison(data, size);
  if (fresh) populate(data, size);
  return byte_buffer::borrow(data, size, *this);
}

void shared_pool::take_back(std::byte* data) noexcept {
  const std::uint32_t place = segment_.place(data);
  const unsigned order = blocks_[place]; // ours until now
  poison(data, layout::place_bytes << order);
  const bool back = is_back(place);
  std::lock_guard hold(lock_);
  if (back) {
    put_free(place, order);
  } else {
    push_back(back_later_[order], place);
    ++lent_;
  }
}

// No lock: the block has an owner here, so its entries do not change; and the segment was opened
// before.
std::uint64_t shared_pool::lend(const byte_buffer& body) noexcept {
  if (!body.borrowed() || file() < 0 || !segment_.begins_place(body.data())) return 0;
  const std::uint32_t place = segment_.place(body.data());
  const bool exclusive = body.borrowed_from(*this);
  if (place >= places_ || blocks_[place] >= orders || (!exclusive && !body.share())) return 0;
  segment_.holders(place).fetch_add(1, std::memory_order_relaxed);
  return layout::where(place, exclusive);
}

void shared_pool::unlend(std::uint64_t where) noexcept {
  segment_.holders(static_cast<std::uint32_t>(layout::place_of(where))).fetch_sub(1, std::memory_order_release);
}

std::uint32_t shared_pool::lent() const noexcept {
  std::lock_guard hold(lock_);
  return lent_;
}

std::size_t shared_pool::used() const noexcept {
  std::lock_guard hold(lock_);
  return top_ * layout::place_bytes;
}

byte_buffer memory_of_elements(std::size_t bytes) {
  byte_buffer shared = shared_pool::take_here(bytes);
  return shared.empty() ? byte_buffer(bytes) : std::move(shared);
}

// ---- the receiver

foreign_segment* foreign_segment::open(int process, int file) noexcept {
  char name[48];
  std::snprintf(name, sizeof name, "/proc/%d/fd/%d", process, file);
  const int here = ::open(name, O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (here < 0) return nullptr;
  struct stat about {};
  std::byte* memory = nullptr;
  if (fstat(here, &about) == 0 && S_ISREG(about.st_mode) && about.st_size == static_cast<off_t>(layout::bytes))
    memory = map(here);
  ::close(here);
  if (!memory) return nullptr;
  std::uint64_t sign = 0;
  std::memcpy(&sign, memory, sizeof sign);
  madvise(memory, layout::bytes, MADV_DONTDUMP); // its owner's affair
  auto* const made = sign == layout::sign ? new (std::nothrow) foreign_segment(memory) : nullptr;
  if (!made) munmap(memory, layout::bytes);
  return made;
}

foreign_segment::~foreign_segment() { munmap(segment_.memory(), layout::bytes); }

// Pages that were never used here are mapped at once.
void foreign_segment::touch(std::uint32_t place, std::size_t size) noexcept {
  const auto n = static_cast<std::uint32_t>((size + layout::place_bytes - 1) / layout::place_bytes);
  bool all = true;
  for (std::uint32_t i = place; i < place + n; ++i) {
    std::uint64_t& word = touched_[i / 64];
    all = all && (word >> (i % 64) & 1) != 0;
    word |= std::uint64_t{1} << (i % 64);
  }
  if (!all) populate(segment_.block(place), size);
}

byte_buffer foreign_segment::take(std::uint64_t where, std::size_t size) {
  const std::uint64_t place = layout::place_of(where);
  if (size == 0 || place >= layout::places || size > (layout::places - place) * layout::place_bytes) return {};
  const auto first = static_cast<std::uint32_t>(place);
  // acquire: what was given back here comes before, too.
  if (segment_.holders(first).load(std::memory_order_acquire) == 0) return {};
  tell_taken(this);
  std::byte* const data = segment_.block(first);
  touch(first, size);
  users_.fetch_add(1, std::memory_order_relaxed);
  byte_buffer own = byte_buffer::borrow(data, size, *this);
  if (layout::exclusive(where)) return own;
  try {
    const std::shared_ptr<byte_buffer> owner = std::make_shared<byte_buffer>(std::move(own));
    return byte_buffer::borrow(data, size, *new share_lender(owner, true));
  } catch (const std::bad_alloc&) {
    throw error(errc::out_of_memory, "cannot allocate a share of " + std::to_string(size) + " bytes that have arrived");
  }
}

void foreign_segment::take_back(std::byte* data) noexcept {
  const std::uint32_t place = segment_.place(data);
  tell_given_back(this);
  segment_.holders(place).fetch_sub(1, std::memory_order_release);
  forget();
}

// As that of memory_pool.
void foreign_segment::forget() noexcept {
  if (users_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

} // namespace tern::net::detail
