// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Parallel sorting.
///
///     tern::parallel_sort(v.begin(), v.end());
///     tern::parallel_sort(particles.begin(), particles.end(), [](auto& a, auto& b) { return a.cell < b.cell; });

#include <atomic>
#include <concepts>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <source_location>
#include <type_traits>
#include <utility>
#include <vector>

#include <tern/task/detail/loop.hpp>
#include <tern/task/detail/quick_sort.hpp>
#include <tern/task/detail/sample_sort.hpp>
#include <tern/task/task_group.hpp>

namespace tern {

namespace detail::sorting {

#ifndef TUNE
#define TUNE
inline std::size_t cache_limit_bytes = 1024 * 1024, piece_limit = 4096, stripe_min = 65536;
#endif

/// Things that several may want and each may use alone.
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

/// One call of parallel_sort.
template <class It, class Less> class parallel_sorter {
public:
  parallel_sorter(Less& less, int workers, std::source_location made)
      : group_(made), less_(less), workers_(static_cast<std::size_t>(workers)) {}

  void sort(It first, It last) {
    n_ = static_cast<std::size_t>(last - first);
    if (in_order(first, last)) return;
    group_.run_and_wait([&] { piece(first, last, patience(n_), false); });
  }

private:
  using T = std::iter_value_t<It>;

  /// Finds out whether the range is sorted, and sorts one that is the wrong way round. Costs nothing in other cases.
  bool in_order(It first, It last) {
    if (last - first < 2) return true;
    if (sorting_run(first, last, [&](const T& a, const T& b) { return !less_(b, a); })) return true;
    if (!sorting_run(first, last, [&](const T& a, const T& b) { return less_(b, a); })) return false;
    std::reverse(first, last);
    return true;
  }
  template <class InOrder> bool sorting_run(It first, It last, InOrder&& ok) {
    for (It i = first + 1; i != last; ++i)
      if (!ok(*(i - 1), *i)) return false;
    return true;
  }

  template <class Function> void each(std::size_t n, Function&& f) {
    if (n == 1) {
      f(0);
      return;
    }
    task_group group;
    group.run_and_wait([&] {
      for (std::size_t i = 1; i < n; ++i) group.run([&f, i] { f(i); });
      f(0);
    });
  }

  void piece(It first, It last, int patience_left, bool after) {
    const auto n = static_cast<std::size_t>(last - first);
    if constexpr (distributable<T>) {
      std::size_t stripes = n > n_ / (4 * workers_) ? std::min(workers_, n / stripe_min) : 1;
      if (patience_left > 0 && (stripes > 1 || n * sizeof(T) > (cheap<T> ? cheap_factor : 1) * cache_limit_bytes)) {
        distribute(first, last, patience_left, std::max<std::size_t>(stripes, 1));
        return;
      }
    }
    while (workers_ > 1 && last - first > static_cast<std::ptrdiff_t>(piece_limit) && patience_left > 0) {
      const auto [left_end, right] = sorting::split(first, last, less_, patience_left, after);
      if (last - right > 512)
        group_.run([this, right = right, last, patience_left] { piece(right, last, patience_left, true); });
      else
        sorting::quick_sort(right, last, less_, patience_left, true);
      last = left_end;
    }
    sorting::quick_sort(first, last, less_, patience_left, after);
  }

  void distribute(It first, It last, int patience_left, std::size_t stripes) {
    const auto n = static_cast<std::size_t>(last - first);
    unsigned log = static_cast<unsigned>(std::bit_width(n * sizeof(T) / cache_limit_bytes) + 1);
    if (stripes > 1) log = std::max(log, (unsigned)std::bit_width(workers_) + 3);
    log = std::clamp(log, 2u, most_log_buckets);
    if (log < 8 && log > 4 && 0) log = 8;
    std::vector<std::size_t> begin;
    std::vector<bool> skip;
    {
      auto d = distributions_.get();
      std::vector<std::unique_ptr<buffers<T>>> own(stripes);
      std::vector<buffers<T>*> memory(stripes);
      for (std::size_t i = 0; i < stripes; ++i) memory[i] = (own[i] = buffers_.get()).get();
      d->run(first, last, less_, log, memory, [&](auto&& f) { each(stripes, f); });
      for (std::size_t b = 0; b <= d->buckets(); ++b) begin.push_back(d->begin(b));
      for (std::size_t b = 0; b < d->buckets(); ++b) skip.push_back(d->equal(b));
      for (auto& o : own) buffers_.give_back(std::move(o));
      distributions_.give_back(std::move(d));
    }
    for (std::size_t b = 0; b < skip.size(); ++b)
      if (!skip[b] && begin[b + 1] - begin[b] > 1) {
        const It f = first + static_cast<std::iter_difference_t<It>>(begin[b]);
        const It l = first + static_cast<std::iter_difference_t<It>>(begin[b + 1]);
        const int left = patience_left - ((begin[b + 1] - begin[b]) > n / 2);
        if (l - f > 512)
          group_.run([this, f, l, left] { piece(f, l, left, false); });
        else
          sorting::quick_sort(f, l, less_, left);
      }
  }

  task_group group_;
  Less& less_;
  std::size_t workers_, n_ = 0;
  pool<distribution<It, Less>> distributions_;
  pool<buffers<T>> buffers_;
};

} // namespace detail::sorting

template <std::random_access_iterator It, class Compare = std::less<>>
void parallel_sort(It first, It last, Compare less = {}, std::source_location made = std::source_location::current()) {
  const int workers = detail::check_worker("parallel_sort");
  const auto n = last - first;
  detail::length_of("parallel_sort", range<std::int64_t>(0, static_cast<std::int64_t>(n)));
  if constexpr (std::contiguous_iterator<It>) {
    auto* begin = std::to_address(first);
    detail::sorting::parallel_sorter<decltype(begin), Compare>(less, workers, made).sort(begin, begin + n);
  } else {
    detail::sorting::parallel_sorter<It, Compare>(less, workers, made).sort(first, last);
  }
}

} // namespace tern
