// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How long something takes, judged by the last few times. Internal.

#include <algorithm>
#include <array>
#include <cmath>
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
    count_ = static_cast<std::uint8_t>(std::min<std::size_t>(count_ + 1u, last_.size()));
  }
  /// 0: none is known.
  float typical() const noexcept {
    if (count_ == 0) return 0;
    auto sorted = last_;
    const float middle = median(sorted);
    auto distances = last_;
    for (std::size_t i = 0; i < count_; ++i) distances[i] = std::abs(last_[i] - middle);
    const float far = std::max(3 * 1.4826F * median(distances), 0.01F * middle);
    float sum = 0;
    int n = 0;
    for (std::size_t i = 0; i < count_; ++i)
      if (std::abs(last_[i] - middle) <= far) {
        sum += last_[i];
        ++n;
      }
    return n > 0 ? sum / static_cast<float>(n) : middle;
  }

private:
  static constexpr std::size_t kept = 7;
  float median(std::array<float, kept>& of) const noexcept {
    std::nth_element(of.begin(), of.begin() + count_ / 2, of.begin() + count_);
    return of[count_ / 2];
  }
  std::array<float, kept> last_{};
  std::uint8_t next_ = 0, count_ = 0;
};

} // namespace tern::mobile::detail
