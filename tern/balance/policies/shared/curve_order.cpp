// SPDX-License-Identifier: Apache-2.0
#include <tern/balance/policies/shared/curve_order.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace tern::balance::detail {
namespace {

constexpr int position_bits = 63;
constexpr int halvings = 50; // of the interval in which the best end lies

// Skilling's transform: coordinates of `bits` bits become the curve's position, its bits dealt out
// among them.
void transpose_to_curve(std::span<std::uint64_t> x, int bits) noexcept {
  for (std::uint64_t q = std::uint64_t{1} << (bits - 1); q > 1; q >>= 1) {
    const std::uint64_t below = q - 1;
    for (std::uint64_t& one : x) {
      if (one & q) {
        x[0] ^= below;
      } else {
        const std::uint64_t t = (x[0] ^ one) & below;
        x[0] ^= t;
        one ^= t;
      }
    }
  }
  for (std::size_t d = 1; d < x.size(); ++d) x[d] ^= x[d - 1];
  std::uint64_t t = 0;
  for (std::uint64_t q = std::uint64_t{1} << (bits - 1); q > 1; q >>= 1)
    if (x.back() & q) t ^= q - 1;
  for (std::uint64_t& one : x) one ^= t;
}

// Loads along the curve, and what ranks can take of them until some moment.
class cutting {
public:
  cutting(const assignment_problem& p, std::span<const std::uint32_t> order) : p_(p), sums_(order.size() + 1) {
    for (std::size_t i = 0; i < order.size(); ++i) sums_[i + 1] = sums_[i] + static_cast<double>(p.load[order[i]]);
  }
  double total() const noexcept { return sums_.back(); }
  std::size_t count() const noexcept { return sums_.size() - 1; }

  // Where the rank's piece ends at the latest if it begins at `from`.
  std::size_t latest_end(std::size_t rank, std::size_t from, double end) const {
    const double room = room_of(rank, end);
    if (!(room >= 0) || !(p_.speed[rank] > 0)) return from;
    const auto first = sums_.begin() + static_cast<std::ptrdiff_t>(from);
    return static_cast<std::size_t>(std::upper_bound(first, sums_.end(), *first + room) - sums_.begin()) - 1;
  }
  // By rank: where its piece must end at the earliest, so that all after it can take the rest.
  std::vector<std::size_t> earliest_ends(double end) const {
    std::vector<std::size_t> ends(p_.ranks());
    std::size_t at = count();
    for (std::size_t r = ends.size(); r-- > 0;) {
      ends[r] = at;
      const double room = room_of(r, end);
      if (room >= 0 && p_.speed[r] > 0)
        at = static_cast<std::size_t>(
            std::lower_bound(sums_.begin(), sums_.begin() + static_cast<std::ptrdiff_t>(at), sums_[at] - room) -
            sums_.begin());
    }
    return ends;
  }
  bool fits(double end) const {
    std::size_t at = 0;
    for (std::size_t r = 0; r < p_.ranks(); ++r) at = latest_end(r, at, end);
    return at == count();
  }
  // The cut next to such a load.
  std::size_t nearest(double load) const noexcept {
    const auto after = static_cast<std::size_t>(std::lower_bound(sums_.begin(), sums_.end(), load) - sums_.begin());
    if (after == 0 || after >= sums_.size()) return std::min(after, count());
    return load - sums_[after - 1] < sums_[after] - load ? after - 1 : after;
  }
  double room_of(std::size_t rank, double end) const noexcept { return end * p_.speed[rank] - p_.fixed[rank]; }

private:
  const assignment_problem& p_;
  std::vector<double> sums_;
};

} // namespace

std::uint64_t curve_position(const array_place& at) noexcept {
  const auto dimensions = static_cast<std::size_t>(std::clamp(at.dimensions, 1, 3));
  const int bits = dimensions == 1 ? 62 : position_bits / static_cast<int>(dimensions);
  std::int64_t longest = 1;
  for (std::size_t d = 0; d < dimensions; ++d) longest = std::max(longest, at.size[d]);
  const int used = std::bit_width(static_cast<std::uint64_t>(longest - 1));
  std::array<std::uint64_t, 3> x{};
  for (std::size_t d = 0; d < dimensions; ++d) {
    const auto index = static_cast<std::uint64_t>(at.index[d]);
    x[d] = used <= bits ? index << (bits - used) : index >> (used - bits);
  }
  if (dimensions == 1) return x[0];
  transpose_to_curve(std::span(x).first(dimensions), bits);
  std::uint64_t position = 0;
  for (int b = bits; b-- > 0;)
    for (std::size_t d = 0; d < dimensions; ++d) position = position << 1 | (x[d] >> b & 1);
  return position;
}

std::vector<std::int32_t> assign_along(const assignment_problem& p, std::span<const std::uint64_t> along) {
  std::vector<std::int32_t> where = p.now();
  std::vector<std::uint32_t> order(along.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return along[a] != along[b] ? along[a] < along[b] : a < b; });
  const cutting cut(p, order);
  double low = level_of(p), high = low;
  if (!(low > 0) || !std::isfinite(low)) return where;
  for (int doubled = 0; !cut.fits(high); ++doubled) {
    if (doubled == position_bits) return where; // no rank takes objects
    low = high;
    high *= 2;
  }
  for (int i = 0; i < halvings && low < high; ++i) {
    const double middle = low + (high - low) / 2;
    (cut.fits(middle) ? high : low) = middle;
  }
  const std::vector<std::size_t> earliest = cut.earliest_ends(high);
  const double level = level_of(p);
  std::size_t from = 0;
  double share = 0; // of this rank and those before it
  for (std::size_t r = 0; r < p.ranks(); ++r) {
    share += std::max(0.0, cut.room_of(r, level));
    const std::size_t latest = cut.latest_end(r, from, high);
    const std::size_t end = std::clamp(cut.nearest(share), std::clamp(earliest[r], from, latest), latest);
    for (; from < end; ++from) where[order[from]] = static_cast<std::int32_t>(r);
  }
  return where;
}

} // namespace tern::balance::detail
