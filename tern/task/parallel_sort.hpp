// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Parallel sorting.
///
///     tern::parallel_sort(v.begin(), v.end());
///     const auto by_cell = [](const particle& a, const particle& b) { return a.cell < b.cell; };
///     tern::parallel_sort(all.begin(), all.end(), by_cell);

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <source_location>
#include <type_traits>
#include <utility>
#include <vector>

#include <tern/task/parallel/parallel_loop.hpp>
#include <tern/task/parallel/quick_sort.hpp>
#include <tern/task/parallel/sample_sort.hpp>
#include <tern/task/parallel/stripes.hpp>
#include <tern/task/task_group.hpp>

namespace tern {

namespace detail::sorting {

/// Things that several may want, each of which one may use at a time.
template <class T> class pool {
public:
  std::unique_ptr<T> get() {
    {
      const std::scoped_lock lock(mutex_);
      if (!free_.empty()) {
        auto x = std::move(free_.back());
        free_.pop_back();
        return x;
      }
    }
    return std::make_unique<T>();
  }
  void give_back(std::unique_ptr<T> x) {
    const std::scoped_lock lock(mutex_);
    free_.push_back(std::move(x));
  }

private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> free_;
};

/// One call of parallel_sort. All pieces of it are tasklets of one group; only a distribution by
/// several workers waits for its steps.
template <class It, class Less> class parallel_sorter {
public:
  parallel_sorter(Less& less, int workers, std::source_location made)
      : made_(made), group_(made), less_(less), workers_(static_cast<std::size_t>(workers)) {}

  void sort(It first, It last) {
    all_ = static_cast<std::size_t>(last - first);
    if (sorted(first)) return;
    group_.run_and_wait([&] { piece(first, last, patience(all_), false); });
  }

private:
  using T = std::iter_value_t<It>;
  using difference = std::iter_difference_t<It>;

  // What a worker's second cache holds, and what it is worth to distribute more of: numbers are
  // sorted so fast that three passes over memory cost no more.
  static constexpr std::size_t cached = std::size_t{1} << 20, far_more = cheap<T> ? 4 * cached : cached;
  static constexpr difference worth_a_tasklet = 2048; // elements; some ten microseconds

  /// Is the range in order? Sorts one that is the wrong way round. Costs next to nothing in other
  /// cases.
  bool sorted(It first) {
    if (all_ < 2) return true;
    if (each_pair(first, [this](const T& a, const T& b) { return !less_(b, a); })) return true;
    if (!each_pair(first, [this](const T& a, const T& b) { return !less_(a, b); })) return false;
    const std::size_t half = all_ / 2, stripes = std::min(workers_, all_ / grain + 1);
    each(stripes, [&](std::size_t i) {
      const It last = first + static_cast<difference>(half * (i + 1) / stripes);
      It a = first + static_cast<difference>(half * i / stripes);
      for (It b = first + static_cast<difference>(all_ - half * i / stripes); a != last; ++a) std::iter_swap(a, --b);
    });
    return true;
  }
  template <class Test> bool each_pair(It first, Test&& test) {
    const auto run = [&](std::size_t begin, std::size_t end) {
      for (It a = first + static_cast<difference>(begin); begin < end; ++begin, ++a)
        if (!test(*a, *(a + 1))) return false;
      return true;
    };
    const std::size_t pairs = all_ - 1;
    if (!run(0, std::min(pairs, grain))) return false;
    if (pairs <= grain) return true;
    const std::size_t stripes = std::min(workers_, pairs / grain);
    std::atomic<bool> good{true};
    each(stripes, [&](std::size_t i) {
      const std::size_t end = pairs * (i + 1) / stripes;
      for (std::size_t at = pairs * i / stripes; at < end && good.load(std::memory_order_relaxed); at += grain)
        if (!run(at, std::min(end, at + grain))) good.store(false, std::memory_order_relaxed);
    });
    return good;
  }
  static constexpr std::size_t grain = 8192;

  template <class F> void each(std::size_t n, F&& f) { detail::each_stripe(n, f, made_); }

  /// Sorts [first, last), or spawns what does.
  /// \param after as for quick_sort.
  [[gnu::noinline]] void piece(It first, It last, int patience_left, bool after) {
    if constexpr (distributable<T>) {
      const auto n = static_cast<std::size_t>(last - first), bytes = n * sizeof(T);
      std::size_t stripes = 1;
      if (n > all_ / (4 * workers_)) // else there is enough to do for all workers
        stripes = std::min({workers_, bytes / (cached / 4), n / (2 * distribution<It, Less>::most_samples)});
      if (patience_left > 0 && (stripes > 1 || bytes > far_more)) {
        distribute(first, last, patience_left, std::max<std::size_t>(stripes, 1));
        return;
      }
    }
    while (workers_ > 1 && last - first > 2 * worth_a_tasklet && patience_left > 0) {
      const auto [left_end, right] = sorting::split(first, last, less_, patience_left, after);
      spawn(right, last, patience_left, true);
      last = left_end;
    }
    sorting::quick_sort(first, last, less_, patience_left, after);
  }
  void spawn(It first, It last, int patience_left, bool after) {
    if (last - first < worth_a_tasklet)
      sorting::quick_sort(first, last, less_, patience_left, after);
    else
      group_.run([this, first, last, patience_left, after] { piece(first, last, patience_left, after); });
  }

  void distribute(It first, It last, int patience_left, std::size_t stripes) {
    const auto n = static_cast<std::size_t>(last - first);
    auto log_buckets = static_cast<unsigned>(std::bit_width(n * sizeof(T) / cached)) + 1;
    if (stripes > 1) log_buckets = std::max(log_buckets, static_cast<unsigned>(std::bit_width(workers_)) + 3);
    auto step = distributions_.get();
    std::vector<std::unique_ptr<buffers<T>>> owned(stripes);
    std::vector<buffers<T>*> memory(stripes);
    for (std::size_t i = 0; i < stripes; ++i) {
      owned[i] = buffers_.get();
      memory[i] = owned[i].get();
    }
    step->run(first, last, less_, std::min(log_buckets, most_log_buckets), memory, made_);
    for (auto& b : owned) buffers_.give_back(std::move(b)); // what is spawned now will want them
    for (std::size_t b = 0; b < step->buckets(); ++b) {
      const std::size_t begin = step->begin(b), end = step->begin(b + 1);
      // A distribution that leaves most in one bucket was a bad one, as with quicksort.
      if (!step->equal(b))
        spawn(first + static_cast<difference>(begin), first + static_cast<difference>(end),
              patience_left - (end - begin > n / 2), false);
    }
    distributions_.give_back(std::move(step));
  }

  std::source_location made_;
  task_group group_;
  Less& less_;
  std::size_t workers_, all_ = 0;
  pool<distribution<It, Less>> distributions_;
  pool<buffers<T>> buffers_;
};

} // namespace detail::sorting

/// Sorts [first, last) so that `less(b, a)` is false for all a before b. Not stable: equal elements
/// may change places.
///
/// Works in place, apart from 0.6 to 1.2 MiB for each worker (the latter for elements of 256 bytes)
/// and 0.2 % of the range. Elements need only be movable. Takes O(n log n) comparisons and moves
/// whatever the order, on p workers O(n log n / p) of them one after the other if n is large
/// against p; a range that is sorted already, upwards or downwards, takes at most 2 n comparisons.
///
/// Large ranges are distributed among buckets by all workers at once (parallel/sample_sort.hpp);
/// elements whose moves may throw, or of more than 256 bytes, are sorted by quicksort with tasklets
/// instead, whose first steps are not parallel. Numbers and other trivially copyable elements of at
/// most 32 bytes are sorted without branches that depend on them (parallel/quick_sort.hpp).
///
/// Must be called inside a fiber; the workers are those of its scheduler. `less` is one object that
/// is called by several workers at the same time. It must be a strict weak ordering (so no NaN
/// among numbers); if not, the order that results is any, and numbers may be lost, but nothing
/// outside of the range is touched.
///
/// \throws the first exception that `less` threw: the range then holds all of its elements in some
/// order. If a move throws, they are all valid, but some may be moved from. error(invalid_argument)
/// for `last < first`, error(invalid_state) outside a fiber, std::bad_alloc.
template <std::random_access_iterator It, class Compare = std::less<>>
void parallel_sort(It first, It last, Compare less = {}, std::source_location made = std::source_location::current()) {
  using T = std::iter_value_t<It>;
  static_assert(std::is_same_v<std::iter_reference_t<It>, T&>,
                "parallel_sort needs iterators to elements that can be changed, each at a place of its own: const "
                "elements, or those of std::vector<bool>, will not do");
  static_assert(std::is_invocable_r_v<bool, Compare&, const T&, const T&>,
                "the comparison of parallel_sort is called with two const elements and returns bool");
  const int workers = detail::check_worker("parallel_sort");
  const auto n = last - first;
  detail::length_of("parallel_sort", range<std::int64_t>(0, static_cast<std::int64_t>(n)));
  if (n < 2) return;
  if constexpr (std::contiguous_iterator<It>) {
    T* const begin = std::to_address(first);
    detail::sorting::parallel_sorter<T*, Compare>(less, workers, made).sort(begin, begin + n);
  } else {
    detail::sorting::parallel_sorter<It, Compare>(less, workers, made).sort(first, last);
  }
}

} // namespace tern
