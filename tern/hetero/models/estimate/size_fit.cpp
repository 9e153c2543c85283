// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/models/estimate/size_fit.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

namespace tern::hetero::detail {
namespace {

double median_of(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

} // namespace

std::optional<size_fit> size_fit::through(std::span<const size_point> points) {
  std::vector<size_point> all;
  for (const size_point& p : points)
    if (p.bytes > 0 && p.time > 0) all.push_back({std::log(p.bytes), std::log(p.time)});
  std::sort(all.begin(), all.end(), [](const size_point& a, const size_point& b) {
    return a.bytes < b.bytes || (a.bytes == b.bytes && a.time < b.time);
  });
  if (const std::size_t n = all.size(); n > points_most) {
    for (std::size_t i = 0; i < points_most; ++i) all[i] = all[i * (n - 1) / (points_most - 1)];
    all.resize(points_most);
  }
  std::size_t sizes = all.empty() ? 0 : 1;
  for (std::size_t i = 1; i < all.size(); ++i) sizes += all[i].bytes > all[i - 1].bytes;
  // A little less than the factor itself, as logarithms are rounded.
  if (sizes < points_least || all.back().bytes - all.front().bytes < std::log(span_least) - 1e-9) return std::nullopt;

  std::vector<double> slopes, levels;
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = i + 1; j < all.size(); ++j)
      if (all[j].bytes > all[i].bytes) slopes.push_back((all[j].time - all[i].time) / (all[j].bytes - all[i].bytes));
  size_fit f;
  f.b_ = std::clamp(median_of(slopes), 0.0, exponent_most);
  for (const size_point& p : all) levels.push_back(p.time - f.b_ * p.bytes);
  f.a_ = median_of(levels);
  f.smallest_ = all.front().bytes;
  f.largest_ = all.back().bytes;
  return f;
}

std::optional<double> size_fit::at(double bytes) const noexcept {
  if (!(bytes > 0)) return std::nullopt;
  const double s = std::log(bytes), reach = std::log(beyond_most) + 1e-9;
  if (s < smallest_ - reach || s > largest_ + reach) return std::nullopt;
  return std::exp(a_ + b_ * s);
}

} // namespace tern::hetero::detail
