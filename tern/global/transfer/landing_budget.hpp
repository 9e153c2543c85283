// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a rank may ask others for. Internal.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace tern::global::detail {

/// Bytes that may come and have not landed, and what waits until there are fewer.
///
/// A request takes its part at once if there is room and nothing waits, before it is known whether
/// its data exist. What does not get it so enters when its data are ready: strictly in that order,
/// the first of all even if it is larger than all that is allowed. When something waits, those that
/// have a part and whose data are not ready give it back (`recall` in transfer_table.hpp). So
/// whatever keeps a part lands without waiting for any task, and no cycle can form
/// (tests/models/landing.pml). One thread at a time.
class landing_budget {
public:
  explicit landing_budget(std::uint64_t most) noexcept : most_(most) {}

  /// \return whether there is room, which is taken.
  bool try_enter(std::uint64_t bytes) noexcept {
    if (!waiting_.empty() || !fits(bytes)) return false;
    add(bytes);
    return true;
  }
  /// \return whether it may come now; else its number waits.
  bool enter(std::uint64_t number, std::uint64_t bytes) {
    if (try_enter(bytes)) return true;
    waiting_.push_back({number, bytes});
    return false;
  }
  /// So many have landed, or will not. \return what may come now, in order.
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
