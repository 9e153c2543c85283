// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A priority queue whose elements can be looked at and taken out wherever they stand.

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace tern::detail {

/// The least element first, by `a.before(b)`. Four children a node: half as deep as with two, and
/// the children of one are neighbours in memory. If `T` has `moved(i)`, it is told where it stands.
/// Not thread-safe.
template <class T> class indexed_heap {
public:
  bool empty() const noexcept { return items_.empty(); }
  std::size_t size() const noexcept { return items_.size(); }
  const T& top() const noexcept { return items_.front(); }
  /// In no particular order but the first.
  const T& operator[](std::size_t i) const noexcept { return items_[i]; }

  void push(T x) {
    items_.push_back(x);
    up(items_.size() - 1, std::move(x));
  }
  T take(std::size_t i) noexcept {
    T taken = std::move(items_[i]);
    T last = std::move(items_.back());
    items_.pop_back();
    if (i < items_.size()) put(i, std::move(last));
    return taken;
  }
  T pop() noexcept { return take(0); }
  /// Element `i` becomes `x`.
  void put(std::size_t i, T x) noexcept {
    if (i > 0 && x.before(items_[(i - 1) / 4]))
      up(i, std::move(x));
    else
      down(i, std::move(x));
  }
  /// Takes out all that `f` says; in the order of the array, which is the same for equal histories.
  template <class F> void erase_if(F f) {
    std::vector<T> rest;
    for (T& x : items_)
      if (!f(x)) rest.push_back(std::move(x));
    items_.clear();
    for (T& x : rest) push(std::move(x));
  }

private:
  void set(std::size_t i, T&& x) noexcept {
    items_[i] = std::move(x);
    if constexpr (requires { items_[i].moved(i); }) items_[i].moved(i);
  }
  void up(std::size_t i, T x) noexcept {
    while (i > 0) {
      const std::size_t parent = (i - 1) / 4;
      if (!x.before(items_[parent])) break;
      set(i, std::move(items_[parent]));
      i = parent;
    }
    set(i, std::move(x));
  }
  /// Which of two stands before the other cannot be predicted: computed without a branch.
  std::size_t lesser(std::size_t a, std::size_t b) const noexcept {
    return a ^ ((a ^ b) & (std::size_t{0} - static_cast<std::size_t>(items_[b].before(items_[a]))));
  }
  void down(std::size_t i, T x) noexcept {
    const std::size_t n = items_.size();
    for (;;) {
      const std::size_t first = 4 * i + 1;
      if (first >= n) break;
      std::size_t least = first;
      if (first + 4 <= n) {
        least = lesser(lesser(first, first + 1), lesser(first + 2, first + 3));
      } else {
        for (std::size_t c = first + 1; c < n; ++c)
          if (items_[c].before(items_[least])) least = c;
      }
      if (!items_[least].before(x)) break;
      set(i, std::move(items_[least]));
      i = least;
    }
    set(i, std::move(x));
  }

  std::vector<T> items_;
};

} // namespace tern::detail
