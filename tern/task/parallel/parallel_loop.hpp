// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How a loop is divided among workers: in halves, down to chunks that take some
/// microseconds. Before a chunk runs, the rest lies in the deque, largest part on top: thieves take
/// it from there in the largest pieces that there are, also while the chunk's body is long or
/// blocks; what is not stolen is popped again, in order, for the price of a tasklet a chunk. How
/// many indices make some microseconds is found while the loop runs, and known to all its pieces.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <source_location>
#include <string>
#include <type_traits>

#include <tern/task/range.hpp>
#include <tern/task/task_group.hpp>

namespace tern::detail {

/// \throws error(invalid_argument) that says what is wrong with the range, naming `what`.
[[noreturn]] void throw_bad_range(const char* what, const std::string& first, const std::string& last, bool backwards);
/// The index that is `i` after `first`. Computed without sign, so that no difference overflows.
template <std::integral Index> Index index_at(Index first, std::int64_t i) noexcept {
  return static_cast<Index>(static_cast<std::uint64_t>(first) + static_cast<std::uint64_t>(i));
}
/// How many indices there are.
/// \throws error(invalid_argument) if `last < first`, or for more than 2^63 - 1.
template <std::integral Index> std::int64_t length_of(const char* what, const range<Index>& r) {
  const auto n =
      static_cast<std::int64_t>(static_cast<std::uint64_t>(r.last()) - static_cast<std::uint64_t>(r.first()));
  if (r.last() < r.first() || n < 0)
    throw_bad_range(what, std::to_string(r.first()), std::to_string(r.last()), r.last() < r.first());
  return n;
}
/// \throws error(invalid_argument) unless positive or automatic.
void check_grain(const char* what, std::int64_t grain);
/// \throws error(invalid_state) on a thread that is no worker, or outside a fiber.
/// \return the number of workers.
int check_worker(const char* what);

/// How long a chunk should take: long against a tasklet and two looks at the clock (some 60 ns),
/// short against a wait.
constexpr std::int64_t chunk_nanoseconds = 20000;
/// But no fewer chunks than this for each worker, so that short loops balance as well.
constexpr std::int64_t chunks_per_worker = 16;
std::int64_t nanoseconds() noexcept;

/// The size of a loop's chunks, by how long the last ones took. All that run parts of it share it.
class chunk_size {
public:
  /// \param grain the exact size; 0: find out, for a loop of `n` indices.
  chunk_size(std::int64_t grain, std::int64_t n, int workers) noexcept
      : fixed_(grain), most_(std::max<std::int64_t>(1, n / (chunks_per_worker * workers))), now_(grain ? grain : 1) {}
  std::int64_t get() const noexcept { return now_.load(std::memory_order_relaxed); }
  /// Where a part of `length` is to be cut: whole chunks of a fixed grain stay together, so that
  /// they are the same however the loop is divided.
  std::int64_t cut(std::int64_t length) const noexcept {
    return fixed_ ? ((length + fixed_ - 1) / fixed_ + 1) / 2 * fixed_ : (length + 1) / 2;
  }
  template <class Body> void timed(std::int64_t length, Body&& body) {
    if (fixed_) {
      body();
      return;
    }
    const std::int64_t start = nanoseconds();
    body();
    const std::int64_t took = nanoseconds() - start, now = get();
    // relaxed, and lost updates are harmless: it is a guess. Parts are between half as long as
    // asked for and just so.
    if (took < chunk_nanoseconds / 2 && 2 * length > now)
      now_.store(std::min(2 * length, most_), std::memory_order_relaxed);
    else if (took > 2 * chunk_nanoseconds && length <= now && now > 1)
      now_.store((length + 1) / 2, std::memory_order_relaxed);
  }

private:
  const std::int64_t fixed_, most_;
  std::atomic<std::int64_t> now_;
};

/// Runs `chunk(b, e)` for the first chunk of [begin, end), after giving away all the rest with
/// `give(b, e)`, last part first.
template <class Chunk, class Give>
void run_first_chunk(std::int64_t begin, std::int64_t end, chunk_size& size, Chunk&& chunk, Give&& give) {
  while (end - begin > size.get()) {
    const std::int64_t middle = begin + size.cut(end - begin);
    give(middle, end);
    end = middle;
  }
  size.timed(end - begin, [&] { chunk(begin, end); });
}

/// A loop whose parts all belong to one group.
template <class Chunk> class divided_loop {
public:
  divided_loop(std::int64_t n, std::int64_t grain, Chunk& chunk, std::source_location made)
      : group_(made), chunk_(chunk), size_(grain, n, scheduler::current()->workers()), n_(n) {}
  void run() {
    group_.run_and_wait([&] { part(0, n_); });
  }

private:
  void part(std::int64_t begin, std::int64_t end) {
    run_first_chunk(begin, end, size_, chunk_,
                    [this](std::int64_t b, std::int64_t e) { group_.run([this, b, e] { part(b, e); }); });
  }

  task_group group_;
  Chunk& chunk_;
  chunk_size size_;
  std::int64_t n_;
};

/// Calls `chunk(b, e)` for parts of [0, n), in parallel. `grain`: the exact size of all but the
/// last; 0: automatic.
template <class Chunk> void loop(std::int64_t n, std::int64_t grain, Chunk&& chunk, std::source_location made) {
  if (n > 0) divided_loop<std::remove_reference_t<Chunk>>(n, grain, chunk, made).run();
}

} // namespace tern::detail
