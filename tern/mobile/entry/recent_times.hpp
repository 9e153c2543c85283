// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How long something takes, judged by the last few times. Internal.

#include <array>
#include <cstddef>
#include <cstdint>

namespace tern::mobile::detail {

/// The mean of those of the last seven that are no outliers: nearer to their median than three
/// times their median distance from it (MAD, as a normal distribution's standard deviation;
/// Rousseeuw, Croux, "Alternatives to the median absolute deviation", JASA 1993). So one that the
/// machine has held up does not count, and a new pace does, after four. One thread.
class recent_times {
public:
  void add(float seconds) noexcept {
    last_[next_] = seconds;
    next_ = static_cast<std::uint8_t>((next_ + 1) % last_.size());
    if (count_ < last_.size()) ++count_;
  }
  /// 0: none is known.
  float typical() const noexcept;

private:
  static constexpr std::size_t kept = 7;
  std::array<float, kept> last_{};
  std::uint8_t next_ = 0, count_ = 0;
};

} // namespace tern::mobile::detail
