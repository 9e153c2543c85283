// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a rank may ask others for. Internal.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace tern::global::detail {

/// Bytes that have been asked for and have not landed, and what waits until there are fewer.
///
/// Strictly in order: what is announced later never passes what waits, even if it is smaller; and
/// what comes first goes even if it is larger than all that is allowed. So whatever holds the
/// budget waits only for data that were announced before, and no cycle of ranks can form
/// (tests/models/landing.pml). One thread at a time.
class landing_budget {
public:
  explicit landing_budget(std::uint64_t most) noexcept : most_(most) {}

  /// \return whether it may be asked for now; else its number waits.
  bool enter(std::uint64_t number, std::uint64_t bytes) {
    if (waiting_.empty() && fits(bytes)) {
      add(bytes);
      return true;
    }
    waiting_.push_back({number, bytes});
    return false;
  }
  /// So many have landed, or will not. \return what may be asked for now, in order.
  std::vector<std::uint64_t> leave(std::uint64_t bytes) {
    held_ -= bytes;
    std::vector<std::uint64_t> now;
    while (!waiting_.empty() && fits(waiting_.front().bytes)) {
      add(waiting_.front().bytes);
      now.push_back(waiting_.front().number);
      waiting_.pop_front();
    }
    return now;
  }
  /// Nothing is held, and nothing waits.
  void clear() noexcept {
    held_ = 0;
    waiting_.clear();
  }

  std::uint64_t held() const noexcept { return held_; }
  std::uint64_t peak() const noexcept { return peak_; } ///< the most that was ever held
  std::size_t waiting() const noexcept { return waiting_.size(); }

private:
  struct entry {
    std::uint64_t number, bytes;
  };
  bool fits(std::uint64_t bytes) const noexcept { return held_ == 0 || (held_ <= most_ && bytes <= most_ - held_); }
  void add(std::uint64_t bytes) noexcept {
    held_ += bytes;
    peak_ = held_ > peak_ ? held_ : peak_;
  }
  const std::uint64_t most_;
  std::uint64_t held_ = 0, peak_ = 0;
  std::deque<entry> waiting_;
};

} // namespace tern::global::detail
