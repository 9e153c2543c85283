// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/power/power_estimate.hpp>

#include <algorithm>
#include <span>

namespace tern::hetero::detail {

namespace {

double middle_of(std::span<double> some) noexcept {
  const auto at = some.begin() + static_cast<std::ptrdiff_t>(some.size() / 2);
  std::nth_element(some.begin(), at, some.end());
  return *at;
}

} // namespace

void power_estimate::add(double share, double watts) noexcept {
  last_[next_] = {std::clamp(share, 0.0, 1.0), std::max(0.0, watts)};
  next_ = (next_ + 1) % windows;
  count_ = std::min(count_ + 1, windows);
  fit();
}

void power_estimate::fit() noexcept {
  constexpr double apart = 0.3, nearly = 0.1;
  const std::span<const window> all(last_.data(), count_);
  const auto [least, most] =
      std::minmax_element(all.begin(), all.end(), [](const window& a, const window& b) { return a.share < b.share; });
  const double low = least->share, high = most->share;
  std::array<double, windows*(windows - 1) / 2> values;
  std::size_t n = 0;
  const auto each = [&](auto&& value) {
    n = 0;
    for (const window& w : all) values[n++] = value(w);
    return middle_of({values.data(), n});
  };
  if (high - low >= apart) {
    for (std::size_t i = 0; i < all.size(); ++i)
      for (std::size_t k = i + 1; k < all.size(); ++k)
        if (const double by = all[k].share - all[i].share; by >= apart / 2 || by <= -apart / 2)
          values[n++] = (all[k].watts - all[i].watts) / by;
    const double slope = std::max(0.0, middle_of({values.data(), n}));
    now_.idle = std::max(0.0, each([&](const window& w) { return w.watts - w.share * slope; }));
    now_.busy = now_.idle + slope;
  } else if (low >= 1 - nearly) {
    now_.busy = each([&](const window& w) { return (w.watts - (1 - w.share) * now_.idle) / w.share; });
    now_.busy = std::max(now_.busy, 0.0);
    now_.idle = std::min(now_.idle, now_.busy);
  } else if (high <= nearly) {
    now_.idle = std::max(0.0, each([&](const window& w) { return (w.watts - w.share * now_.busy) / (1 - w.share); }));
    now_.busy = std::max(now_.idle, now_.busy);
  } // else one equation has two unknowns
}

} // namespace tern::hetero::detail
