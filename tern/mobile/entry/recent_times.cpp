// SPDX-License-Identifier: Apache-2.0
#include <tern/mobile/entry/recent_times.hpp>

#include <algorithm>
#include <cmath>

namespace tern::mobile::detail {
namespace {

/// Of the first `count`.
template <std::size_t N> float median(std::array<float, N>& of, std::ptrdiff_t count) noexcept {
  const auto middle = of.begin() + count / 2;
  std::nth_element(of.begin(), middle, of.begin() + count);
  return *middle;
}

} // namespace

float recent_times::typical() const noexcept {
  if (count_ == 0) return 0;
  auto sorted = last_;
  const float middle = median(sorted, count_);
  auto distances = last_;
  for (std::size_t i = 0; i < count_; ++i) distances[i] = std::abs(last_[i] - middle);
  const float far = std::max(3 * 1.4826F * median(distances, count_), 0.01F * middle);
  float sum = 0;
  int n = 0;
  for (std::size_t i = 0; i < count_; ++i)
    if (std::abs(last_[i] - middle) <= far) {
      sum += last_[i];
      ++n;
    }
  return n > 0 ? sum / static_cast<float>(n) : middle;
}

} // namespace tern::mobile::detail
