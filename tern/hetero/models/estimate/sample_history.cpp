// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/models/estimate/sample_history.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tern::hetero::detail {
namespace {

double middle_of(std::span<const float> sorted) noexcept {
  const std::size_t n = sorted.size();
  return n == 0 ? 0 : (double{sorted[(n - 1) / 2]} + double{sorted[n / 2]}) / 2;
}

} // namespace

bool sample_history::add(double sample) noexcept {
  if (!restore(sample) || !has_changed()) return false;
  keep_recent();
  return true;
}

bool sample_history::restore(double sample) noexcept {
  if (!(sample > std::numeric_limits<float>::min()) || sample > std::numeric_limits<float>::max()) return false;
  const auto x = static_cast<float>(sample);
  if (size_ == capacity) {
    const auto oldest = std::lower_bound(sorted_.begin(), sorted_.end(), arrived_.front());
    std::move(oldest + 1, sorted_.end(), oldest);
    std::move(arrived_.begin() + 1, arrived_.end(), arrived_.begin());
    --size_;
  }
  arrived_[size_] = x;
  sort_in(x);
  return true;
}

// \pre `arrived_[size_]` is the sample.
void sample_history::sort_in(float sample) noexcept {
  const auto end = sorted_.begin() + static_cast<std::ptrdiff_t>(size_);
  const auto at = std::upper_bound(sorted_.begin(), end, sample);
  std::move_backward(at, end, end + 1);
  *at = sample;
  ++size_;
}

bool sample_history::has_changed() const noexcept {
  if (size_ < recent + enough) return false;
  std::array<float, recent> last;
  std::copy_n(arrived_.begin() + static_cast<std::ptrdiff_t>(size_ - recent), recent, last.begin());
  std::sort(last.begin(), last.end());
  std::array<float, capacity> before;
  const auto end = std::set_difference(sorted_.begin(), sorted_.begin() + static_cast<std::ptrdiff_t>(size_),
                                       last.begin(), last.end(), before.begin());
  // A sample and no mean of two: of times that are long and short by turns, that would be neither.
  const double level = before[static_cast<std::size_t>(end - before.begin() - 1) / 2];
  const auto differs = [level](float x) { return x * change_factor < level || x > level * change_factor; };
  return static_cast<std::size_t>(std::count_if(last.begin(), last.end(), differs)) >= outside;
}

void sample_history::keep_recent() noexcept {
  const auto first = arrived_.begin() + static_cast<std::ptrdiff_t>(size_ - recent);
  std::move(first, first + recent, arrived_.begin());
  size_ = recent;
  std::copy_n(arrived_.begin(), recent, sorted_.begin());
  std::sort(sorted_.begin(), sorted_.begin() + recent);
}

double sample_history::spread() const noexcept {
  const double middle = median();
  std::array<float, capacity> deviations;
  std::transform(sorted_.begin(), sorted_.begin() + static_cast<std::ptrdiff_t>(size_), deviations.begin(),
                 [middle](float x) { return static_cast<float>(std::abs(x - middle)); });
  std::sort(deviations.begin(), deviations.begin() + static_cast<std::ptrdiff_t>(size_));
  constexpr double gaussian = 1.4826;
  return gaussian * middle_of({deviations.data(), size_});
}

double sample_history::quantile(double q) const noexcept {
  if (size_ == 0) return 0;
  const double at = std::clamp(q, 0.0, 1.0) * static_cast<double>(size_ - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, size_ - 1);
  return sorted_[below] + (at - static_cast<double>(below)) * (double{sorted_[above]} - double{sorted_[below]});
}

} // namespace tern::hetero::detail
