// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The last measurements of one quantity, and what they say of the next. Internal.

#include <array>
#include <cstddef>
#include <span>

namespace tern::hetero::detail {

/// The last 64 samples: times of one kernel at one size on one device, for instance. Its estimate
/// is the median, which neither an outlier nor a few of them move. When the quantity itself
/// changes, the samples from before are dropped: that is so if 6 of the last 8 lie outside
/// [1/1.5, 1.5] of the median of those before them.
///
/// Requires samples above 0, in any one unit; others are not taken. Throws nothing. Threads: as a
/// value. A sample costs two insertions into sorted arrays of at most 64 numbers, the median and
/// the quantiles nothing.
///
/// Source: the median and its absolute deviation are Hampel's (1974). StarPU keeps a mean and drops
/// all samples when more lie outside 50 % than inside, which takes as many samples as there were.
class sample_history {
public:
  static constexpr std::size_t capacity = 64;
  static constexpr std::size_t recent = 8;     ///< samples that are looked at for a change
  static constexpr std::size_t outside = 6;    ///< of these, so many must differ
  static constexpr double change_factor = 1.5; ///< by so much
  static constexpr std::size_t enough = 3;     ///< samples without which there is no estimate

  /// Takes a sample; the oldest of 64 goes. \return whether it completed a change.
  bool add(double sample) noexcept;
  /// Takes a sample as one of a history that was stored: no change is looked for. \return whether
  /// it was taken.
  bool restore(double sample) noexcept;

  std::size_t size() const noexcept { return size_; }
  bool usable() const noexcept { return size_ >= enough; }
  /// In the order of arrival.
  std::span<const float> samples() const noexcept { return {arrived_.data(), size_}; }
  /// 0 without samples, as the next two.
  double median() const noexcept { return quantile(0.5); }
  /// What is to be expected of a sample's distance from the median: 1.4826 times the median of the
  /// absolute deviations, which is the standard deviation if the noise is Gaussian.
  double spread() const noexcept;
  /// \param q from 0 (the least) to 1 (the largest); between two samples, interpolated.
  double quantile(double q) const noexcept;

private:
  bool has_changed() const noexcept;
  void keep_recent() noexcept;
  void sort_in(float sample) noexcept;

  std::array<float, capacity> arrived_{}, sorted_{};
  std::size_t size_ = 0;
};

} // namespace tern::hetero::detail
