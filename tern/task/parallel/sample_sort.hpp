// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Distributing a range among up to 256 buckets, in place, by several workers at once: the
/// step of `parallel_sort` for ranges that no cache holds, which it spares seven of eight passes
/// over memory.
///
/// After Axtmann, Witt, Ferizovic, Sanders, "Engineering In-place (Shared-memory) Sorting
/// Algorithms", 2022 (IPS4o); the search for an element's bucket without branches is Sanders and
/// Winkel's, "Super Scalar Sample Sort", 2004.
///
/// 1. Splitters: a sorted sample is taken out of the range; every eighth of it separates two
/// buckets.
/// 2. Distribution: each worker reads a stripe of the range, and puts each element into its
/// bucket's buffer of a block;
///    full ones go back to the front of the stripe, where all has been read. So the range turns into blocks of elements
///    of one bucket each, and as many empty places as there are elements in buffers.
/// 3. Permutation: blocks are exchanged until each lies inside its bucket, all workers at once.
/// 4. Rest: what is left in the buffers, and what of a bucket's last block lies beyond its end,
/// fills its gaps.
///
/// Here each block's bucket is written down when it is made (2 bytes for a block of 2 KiB), so that
/// only the first two steps compare, and what a comparison throws in them can be answered by
/// putting all elements back.

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <new>
#include <source_location>
#include <type_traits>
#include <utility>
#include <vector>

#include <tern/task/parallel/quick_sort.hpp>
#include <tern/task/parallel/stripes.hpp>
#include <tern/task/task_group.hpp>

namespace tern::detail::sorting {

inline constexpr unsigned most_log_buckets = 8;
inline constexpr std::size_t most_buckets = std::size_t{1} << most_log_buckets;
inline constexpr std::size_t cache_line = 64;

/// Elements that can be distributed: a move that throws would leave unknown gaps; large ones would
/// need large buffers.
template <class T>
inline constexpr bool
    distributable = std::conjunction_v<std::is_nothrow_move_constructible<T>, std::is_nothrow_move_assignable<T>> &&
                    sizeof(T) <= 256;

/// How many elements a block has, a power of two.
template <class T> inline constexpr std::size_t block_length = std::bit_floor(std::size_t{2048} / sizeof(T));

/// Memory for `n` elements; its user makes and destroys them.
template <class T> class raw_memory {
public:
  explicit raw_memory(std::size_t n)
      : memory_(static_cast<T*>(::operator new (n * sizeof(T), std::align_val_t{alignment}))) {}
  ~raw_memory() { ::operator delete (memory_, std::align_val_t{alignment}); }
  raw_memory(const raw_memory&) = delete;
  raw_memory& operator=(const raw_memory&) = delete;
  T* get() const noexcept { return memory_; }

private:
  static constexpr std::size_t alignment = std::max(cache_line, alignof(T));
  T* memory_;
};

template <class It, class T>
inline constexpr bool copies_as_bytes = std::conjunction_v<std::is_pointer<It>, std::is_trivially_copyable<T>>;

/// Moves `n` elements of the range to raw memory.
template <class It, class T> void take(It from, std::size_t n, T* to) noexcept {
  if constexpr (copies_as_bytes<It, T>) {
    std::memcpy(static_cast<void*>(to), from, n * sizeof(T));
  } else {
    for (std::size_t i = 0; i < n; ++i, ++from) std::construct_at(to + i, std::move(*from));
  }
}
/// Moves `n` elements back into the range; raw memory stays behind.
template <class It, class T> void put(T* from, std::size_t n, It to) noexcept {
  if constexpr (copies_as_bytes<It, T>) {
    std::memcpy(static_cast<void*>(to), from, n * sizeof(T));
  } else {
    for (std::size_t i = 0; i < n; ++i, ++to) {
      *to = std::move(from[i]);
      std::destroy_at(from + i);
    }
  }
}
template <class It, class T> void exchange(It in_range, T* held, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i, ++in_range, ++held) {
    T x = std::move(*in_range);
    *in_range = std::move(*held);
    *held = std::move(x);
  }
}

/// What a worker needs to distribute a stripe.
template <class T> struct buffers {
  static constexpr std::size_t length = block_length<T>;
  raw_memory<T> memory{(most_buckets + 1) * length};
  std::uint32_t at[most_buckets];     // where in `memory` the next element goes; there is a block for each bucket
  std::uint32_t blocks[most_buckets]; // how many were full

  void clear(std::size_t buckets) noexcept {
    for (std::size_t b = 0; b < buckets; ++b) {
      at[b] = static_cast<std::uint32_t>(b * length);
      blocks[b] = 0;
    }
  }
  T* of(std::size_t bucket) const noexcept { return memory.get() + bucket * length; }
  std::size_t filled(std::size_t bucket) const noexcept { return at[bucket] - bucket * length; }
  T* spare() const noexcept { return of(most_buckets); } ///< one block more
};

/// Finds elements' buckets: a search tree of the splitters, in the order of a heap.
template <class T, class Less> class classifier {
public:
  /// \param splitters in ascending order, no two equal, at least one; they stay where they are
  /// while this is used.
  /// \param own whether elements that equal a splitter get buckets of their own.
  template <class Get> void build(std::size_t splitters, bool own, Get&& splitter) {
    log_ = static_cast<unsigned>(std::bit_width(splitters));
    own_ = own;
    const std::size_t leaves = std::size_t{1} << log_;
    // The last one stands for those that are missing, and again for the equal ones of the last
    // bucket, which has none.
    for (std::size_t i = 0; i < leaves; ++i) keep(sorted_, i, splitter(std::min(i, splitters - 1)));
    for (std::size_t i = 1, depth = 0; i < leaves; ++i) {
      if (i == std::size_t{2} << depth) ++depth;
      const std::size_t in_level = i - (std::size_t{1} << depth), step = leaves >> depth;
      keep(tree_, i, splitter(std::min(in_level * step + step / 2 - 1, splitters - 1)));
    }
  }
  std::size_t buckets() const noexcept { return std::size_t{1} << (log_ + own_); }
  /// Whether all elements of that bucket are equal.
  bool equal(std::size_t bucket) const noexcept { return own_ && bucket % 2 == 1 && bucket != buckets() - 1; }

  template <std::size_t N, class It> void find(It element, Less& less, std::uint32_t* bucket) const {
    using difference = std::iter_difference_t<It>;
    const unsigned log = log_; // the compiler cannot know that writing to `bucket` does not change it
    const bool own = own_;
    std::size_t at[N];
#pragma GCC unroll 16
    for (std::size_t i = 0; i < N; ++i) at[i] = 1;
    for (unsigned level = 0; level < log; ++level) {
#pragma GCC unroll 16
      for (std::size_t i = 0; i < N; ++i) {
        const bool right = less(get(tree_, at[i]), std::as_const(element[static_cast<difference>(i)]));
        at[i] = 2 * at[i] + right;
      }
    }
    for (std::size_t i = 0; i < N; ++i) at[i] -= std::size_t{1} << log;
    if (own) {
      for (std::size_t i = 0; i < N; ++i) {
        const bool lower = less(std::as_const(element[static_cast<difference>(i)]), get(sorted_, at[i]));
        at[i] = 2 * at[i] + !lower;
      }
    }
    for (std::size_t i = 0; i < N; ++i) bucket[i] = static_cast<std::uint32_t>(at[i]);
  }

private:
  static constexpr bool copied = cheap<T>;
  using node = std::conditional_t<copied, T, const T*>;
  struct nodes {
    alignas(node) std::byte bytes[most_buckets * sizeof(node)];
  };
  static void keep(nodes& in, std::size_t i, const T& value) {
    auto* place = reinterpret_cast<node*>(in.bytes) + i;
    if constexpr (copied)
      std::construct_at(place, value);
    else
      std::construct_at(place, std::addressof(value));
  }
  static const T& get(const nodes& in, std::size_t i) {
    if constexpr (copied)
      return reinterpret_cast<const node*>(in.bytes)[i];
    else
      return *reinterpret_cast<const node*>(in.bytes)[i];
  }

  unsigned log_ = 0;
  bool own_ = false;
  nodes tree_, sorted_;
};

/// One distribution at a time, and the memory for it, which can be used again.
template <class It, class Less> class distribution {
public:
  using T = std::iter_value_t<It>;
  using difference = std::iter_difference_t<It>;
  static constexpr std::size_t length = block_length<T>;
  static constexpr std::size_t oversampling = 8, most_samples = oversampling * most_buckets;

  /// Distributes [first, last) among up to 2^`log_buckets` buckets.
  /// \pre The last stripe is longer than the sample: `oversampling` elements for each bucket. Less
  /// than 2^31 blocks.
  /// \param memory one for each stripe; there is a tasklet for each but the first.
  /// \throws what comparisons throw; all elements are in the range then. std::bad_alloc.
  void run(It first, It last, Less& less, unsigned log_buckets, const std::vector<buffers<T>*>& memory,
           const std::source_location& made) {
    const auto each = [&](auto&& f) { detail::each_stripe(memory.size(), f, made); };
    first_ = first;
    n_ = static_cast<std::size_t>(last - first);
    memory_ = memory.data();
    cut_stripes(memory.size());
    take_sample(less, log_buckets);
    try {
      each([&](std::size_t i) { distribute(i, less); });
      for (std::size_t i = 0; i < samples_; ++i) tree_.template find<1>(sample(i), less, &sample_bucket_[i]);
    } catch (...) {
      put_back();
      throw;
    }
    for (std::size_t i = 0; i < samples_; ++i) {
      push(*memory_[stripes_.size() - 1], stripes_.back(), sample_bucket_[i], std::move(*sample(i)));
      std::destroy_at(sample(i));
    }
    count();
    each([&](std::size_t i) { close_gaps(i); });
    if (stripes_.size() == 1)
      permute<false>(0);
    else
      each([&](std::size_t i) { permute<true>(i); });
    share_rest();
    each([&](std::size_t i) { place_rest(i); });
  }
  std::size_t buckets() const noexcept { return tree_.buckets(); }
  /// Where bucket `b` begins; `b` may be `buckets()`.
  std::size_t begin(std::size_t b) const noexcept { return begin_[b]; }
  /// Need the bucket not be sorted?
  bool equal(std::size_t b) const noexcept { return tree_.equal(b); }

private:
  // The steps are not inlined, since each is called from two places: by tasklets and by their
  // spawner.

  static constexpr std::uint16_t empty = std::numeric_limits<std::uint16_t>::max();

  struct alignas(cache_line) stripe {
    std::size_t write, read, end; // [write, read) has room; [read, end) is to be read
  };
  /// Of the blocks in a bucket's part of the range, [write, read) are unclaimed yet; those before
  /// are where they belong, and those behind are free, or being read.
  struct alignas(cache_line) cursor {
    static constexpr std::int64_t bias = 1 << 16; // each worker that finds no block takes `read` down once too often
    static constexpr std::uint64_t one_written = std::uint64_t{1} << 32;
    std::atomic<std::uint64_t> state; // block numbers: write, and read + bias
    std::atomic<std::uint32_t> readers;
    std::size_t blocks; // that the bucket will have

    static std::int64_t write_of(std::uint64_t s) noexcept { return static_cast<std::int64_t>(s >> 32); }
    static std::int64_t read_of(std::uint64_t s) noexcept { return static_cast<std::int64_t>(s & 0xffff'ffff) - bias; }
    void set(std::size_t write, std::size_t read) noexcept {
      state.store(std::uint64_t{write} << 32 | (read + bias), std::memory_order_relaxed);
      readers.store(0, std::memory_order_relaxed);
    }
    template <bool Shared> std::uint64_t add(std::uint64_t what) noexcept {
      if constexpr (Shared) return state.fetch_add(what, std::memory_order_acq_rel);
      const auto s = state.load(std::memory_order_relaxed);
      state.store(s + what, std::memory_order_relaxed);
      return s;
    }
  };
  /// What a worker does in the last step.
  struct share {
    std::size_t begin, end; // buckets
    std::size_t margin;     // elements of theirs that lay behind, and are in the worker's spare block
  };

  It at(std::size_t i) const noexcept { return first_ + static_cast<difference>(i); }
  T* sample(std::size_t i) const noexcept { return sample_.get() + i; }
  /// The first block that begins inside a bucket.
  std::size_t first_block(std::size_t bucket) const noexcept { return (begin_[bucket] + length - 1) / length; }

  void cut_stripes(std::size_t stripes) {
    const std::size_t blocks = n_ / length;
    label_.assign(blocks + 1, empty);
    shares_ = std::vector<share>(stripes);
    stripes_ = std::vector<stripe>(stripes);
    for (std::size_t i = 0; i < stripes; ++i) {
      const std::size_t begin = blocks * i / stripes * length;
      stripes_[i] = {begin, begin, i + 1 < stripes ? blocks * (i + 1) / stripes * length : n_};
    }
  }

  void take_sample(Less& less, unsigned log_buckets) {
    const std::size_t wanted = std::size_t{1} << log_buckets;
    samples_ = oversampling * wanted - 1;
    auto random = static_cast<std::uint64_t>(n_);
    for (std::size_t i = 0; i < samples_; ++i) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      sorting::swap_different(at((random >> 16) % (n_ - i)), at(n_ - 1 - i));
    }
    const It in_range = at(n_ - samples_);
    sorting::quick_sort(in_range, at(n_), less);
    std::size_t distinct = 0;
    for (std::size_t i = oversampling - 1; i < samples_; i += oversampling)
      if (distinct == 0 ||
          less(in_range[static_cast<difference>(splitters_[distinct - 1])], in_range[static_cast<difference>(i)]))
        splitters_[distinct++] = static_cast<std::uint32_t>(i);
    const bool own = distinct < wanted - 1; // some element is frequent
    std::size_t stride = 1;
    if (own && distinct >= most_buckets / 2) stride = 2;
    sorting::take(in_range, samples_, sample(0));
    tree_.build(distinct / stride, own, [&](std::size_t i) -> const T& { return *sample(splitters_[i * stride]); });
    stripes_.back().end -= samples_;
    for (std::size_t i = 0; i < stripes_.size(); ++i) memory_[i]->clear(buckets());
  }

  [[gnu::always_inline]] void push(buffers<T>& m, stripe& s, std::size_t bucket, T&& x) noexcept {
    const std::uint32_t to = m.at[bucket];
    std::construct_at(m.memory.get() + to, std::move(x));
    m.at[bucket] = to + 1;
    if ((to + 1) % length == 0) [[unlikely]]
      flush(m, s, bucket);
  }
  [[gnu::noinline]] void flush(buffers<T>& m, stripe& s, std::size_t bucket) noexcept {
    m.at[bucket] -= static_cast<std::uint32_t>(length);
    ++m.blocks[bucket];
    sorting::put(m.of(bucket), length, at(s.write));
    label_[s.write / length] = static_cast<std::uint16_t>(bucket);
    s.write += length;
  }

  [[gnu::noinline]] void distribute(std::size_t i, Less& less) {
    constexpr std::size_t batch = 16;
    stripe& s = stripes_[i];
    buffers<T>& m = *memory_[i];
    std::uint32_t bucket[batch];
    std::size_t read = s.read;
    const std::size_t end = s.end;
    while (read + batch <= end) {
      const It from = at(read);
      tree_.template find<batch>(from, less, bucket);
      for (std::size_t j = 0; j < batch; ++j) push(m, s, bucket[j], std::move(from[static_cast<difference>(j)]));
      read += batch;
      s.read = read;
    }
    for (; s.read < end; ++s.read) {
      tree_.template find<1>(at(s.read), less, bucket);
      push(m, s, bucket[0], std::move(*at(s.read)));
    }
  }

  /// A comparison has thrown: everything goes back to where there is room.
  void put_back() noexcept {
    for (std::size_t i = 0; i < stripes_.size(); ++i)
      for (std::size_t b = 0; b < buckets(); ++b) {
        const std::size_t filled = memory_[i]->filled(b);
        sorting::put(memory_[i]->of(b), filled, at(stripes_[i].write));
        stripes_[i].write += filled;
      }
    sorting::put(sample(0), samples_, at(n_ - samples_));
  }

  void count() noexcept {
    std::size_t before = 0;
    for (std::size_t b = 0; b < buckets(); ++b) {
      begin_[b] = before;
      std::size_t blocks = 0;
      for (std::size_t i = 0; i < stripes_.size(); ++i) {
        blocks += memory_[i]->blocks[b];
        before += memory_[i]->filled(b);
      }
      before += blocks * length;
      cursors_[b].blocks = blocks;
    }
    begin_[buckets()] = before;
  }

  /// Brings the blocks that lie in each bucket's part of the range, whosever they are, to its
  /// beginning.
  [[gnu::noinline]] void close_gaps(std::size_t i) noexcept {
    const std::size_t end = buckets() * (i + 1) / stripes_.size();
    for (std::size_t b = buckets() * i / stripes_.size(); b < end; ++b) {
      const std::size_t begin = first_block(b);
      std::size_t low = begin, high = first_block(b + 1);
      for (;; ++low) {
        while (low < high && label_[low] != empty) ++low;
        while (low < high && label_[high - 1] == empty) --high;
        if (low == high) break;
        --high;
        std::move(at(high * length), at((high + 1) * length), at(low * length));
        label_[low] = label_[high];
      }
      cursors_[b].set(begin, low);
    }
  }

  template <bool Shared> [[gnu::noinline]] void permute(std::size_t i) noexcept {
    T* const held = memory_[i]->spare();
    // The workers begin at different buckets. A worker that has been through all of them has left
    // no block unclaimed.
    for (std::size_t j = 0, b = buckets() * i / stripes_.size(); j < buckets(); ++j, b = (b + 1) % buckets()) {
      cursor& c = cursors_[b];
      for (;;) {
        if (Shared) {
          const auto seen = c.state.load(std::memory_order_relaxed);
          if (cursor::read_of(seen) <= cursor::write_of(seen)) break;
          c.readers.fetch_add(1, std::memory_order_acq_rel); // before the block is claimed, see below
        }
        const auto before = c.template add<Shared>(~std::uint64_t{0});
        const auto last = cursor::read_of(before) - 1;
        const bool got = last >= cursor::write_of(before);
        if (got) sorting::take(at(static_cast<std::size_t>(last) * length), length, held);
        if (Shared) c.readers.fetch_sub(1, std::memory_order_release);
        if (!got) break;
        place<Shared>(held, label_[static_cast<std::size_t>(last)]);
      }
    }
  }
  /// Puts a block into its bucket, takes the one that it displaces, and so on, until one finds a
  /// free place.
  template <bool Shared> void place(T* held, std::size_t bucket) noexcept {
    for (;;) {
      cursor& c = cursors_[bucket];
      const auto before = c.template add<Shared>(cursor::one_written);
      const auto to = static_cast<std::size_t>(cursor::write_of(before));
      if (cursor::write_of(before) >= cursor::read_of(before)) {
        if (Shared) wait_for_readers(c); // one of them may have claimed this very block
        if (to == n_ / length) {
          sorting::take(held, length, overflow_.get());
          std::destroy_n(held, length);
        } else {
          sorting::put(held, length, at(to * length));
        }
        return;
      }
      const std::size_t there = label_[to];
      if (there == bucket) continue; // it stays, and we take the next place
      sorting::exchange(at(to * length), held, length);
      bucket = there;
    }
  }
  static void wait_for_readers(const cursor& c) noexcept {
    for (int rounds = 0; c.readers.load(std::memory_order_acquire) != 0; ++rounds)
      if (rounds > 2000) this_fiber::yield(); // the reader's thread may not be running
  }

  void share_rest() noexcept {
    std::size_t begin = 0;
    for (std::size_t i = 0; i < shares_.size(); ++i) {
      std::size_t end = std::max(begin, buckets() * (i + 1) / shares_.size());
      // Where two shares meet, the block that lies on both sides has to be the last bucket's of the
      // first of them.
      while (end > begin && end < buckets() && first_block(end - 1) * length > begin_[end]) ++end;
      shares_[i] = {begin, end, 0};
      if (end > begin && end < buckets()) {
        const std::size_t full = (first_block(end - 1) + cursors_[end - 1].blocks) * length;
        if (full > begin_[end] && full <= n_) {
          shares_[i].margin = full - begin_[end];
          sorting::take(at(begin_[end]), shares_[i].margin, memory_[i]->spare());
        }
      }
      begin = end;
    }
  }

  [[gnu::noinline]] void place_rest(std::size_t i) noexcept {
    const share& mine = shares_[i];
    for (std::size_t b = mine.begin; b < mine.end; ++b) {
      const std::size_t begin = begin_[b], end = begin_[b + 1];
      const std::size_t block = first_block(b) * length, full = block + cursors_[b].blocks * length;
      // The gaps: before the first block, and behind the last one.
      std::size_t to = begin, gap_end = std::min(block, end), second = std::max(gap_end, std::min(full, end));
      const bool any = full > block, overflown = any && full > n_;
      if (overflown) second = full - length;
      const auto fill = [&](auto* from, std::size_t n) {
        while (n > 0) {
          if (to == gap_end) {
            to = second;
            gap_end = end;
          }
          const std::size_t m = std::min(n, gap_end - to);
          sorting::put(from, m, at(to));
          from += m;
          n -= m;
          to += m;
        }
      };
      if (overflown) {
        fill(overflow_.get(), length);
      } else if (any && full > end) {
        if (b + 1 == mine.end && mine.margin > 0) {
          fill(memory_[i]->spare(), mine.margin);
        } else {
          std::move(at(end), at(full), at(to));
          to += full - end;
        }
      }
      for (std::size_t j = 0; j < stripes_.size(); ++j) fill(memory_[j]->of(b), memory_[j]->filled(b));
    }
  }

  It first_{};
  std::size_t n_ = 0;
  buffers<T>* const* memory_ = nullptr; // one for each stripe
  std::vector<stripe> stripes_;
  classifier<T, Less> tree_;
  raw_memory<T> sample_{most_samples};
  std::size_t samples_ = 0;
  std::uint32_t splitters_[most_buckets];     // which of the sample
  std::uint32_t sample_bucket_[most_samples]; // of each of the sample
  std::vector<std::uint16_t> label_;          // of each block: its bucket, or `empty`
  std::size_t begin_[most_buckets + 1];       // of each bucket
  std::vector<cursor> cursors_ = std::vector<cursor>(most_buckets);
  raw_memory<T> overflow_{length}; // the last block, where the range has not room for all of it
  std::vector<share> shares_;
};

} // namespace tern::detail::sorting
