// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A queue that keeps its memory, if it is not much: one that fills and empties again and again
/// allocates nothing. Internal.

#include <cstddef>
#include <utility>
#include <vector>

namespace tern::net {

/// Threads: like a standard container.
template <class T> class fifo {
public:
  bool empty() const noexcept { return first_ == all_.size(); }
  std::size_t size() const noexcept { return all_.size() - first_; }
  T& front() noexcept { return all_[first_]; }
  T& back() noexcept { return all_.back(); }
  const T* begin() const noexcept { return all_.data() + first_; } ///< the oldest
  const T* end() const noexcept { return all_.data() + all_.size(); }
  void push(T&& x) { all_.push_back(std::move(x)); }
  /// The oldest. \pre not empty.
  T pop() noexcept {
    T x = std::move(all_[first_++]);
    if (first_ == all_.size()) {
      all_.clear();
      first_ = 0;
      if (all_.capacity() > most_idle) std::vector<T>().swap(all_);
    } else if (first_ >= 64 && 2 * first_ >= all_.size()) { // never empty: what has gone must not pile up
      all_.erase(all_.begin(), all_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
    return x;
  }

private:
  static constexpr std::size_t most_idle = 1024; // elements whose memory an empty one keeps
  std::vector<T> all_;                           // from `first_` on
  std::size_t first_ = 0;
};

} // namespace tern::net
