// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A cell of an octree: what gravity needs to know of the bodies in it.

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

namespace nbody {

/// The smallest box around some bodies, sides along the axes.
struct box {
  std::array<double, 3> low{infinity(), infinity(), infinity()}, high{-infinity(), -infinity(), -infinity()};

  void add(double x, double y, double z) noexcept {
    const double at[3] = {x, y, z};
    for (std::size_t d = 0; d < 3; ++d) {
      low[d] = std::min(low[d], at[d]);
      high[d] = std::max(high[d], at[d]);
    }
  }
  void add(const box& other) noexcept {
    for (std::size_t d = 0; d < 3; ++d) {
      low[d] = std::min(low[d], other.low[d]);
      high[d] = std::max(high[d], other.high[d]);
    }
  }
  double longest_side() const noexcept {
    double longest = 0;
    for (std::size_t d = 0; d < 3; ++d) longest = std::max(longest, high[d] - low[d]);
    return longest;
  }
  double middle(std::size_t d) const noexcept { return low[d] + (high[d] - low[d]) / 2; }
  /// From the nearest point of the box; 0 inside.
  double distance2(double x, double y, double z) const noexcept {
    const double at[3] = {x, y, z};
    double sum = 0;
    for (std::size_t d = 0; d < 3; ++d) {
      const double away = std::max({low[d] - at[d], at[d] - high[d], 0.0});
      sum += away * away;
    }
    return sum;
  }

private:
  static constexpr double infinity() noexcept { return std::numeric_limits<double>::infinity(); }
};

/// Cells stand in the order of a walk: a cell, then its children and theirs. Without gaps, so that
/// many travel in one copy.
struct cell {
  enum : std::uint32_t {
    inner,    ///< children follow
    leaf,     ///< bodies `first` … `first + count - 1` of the tree
    elsewhere ///< whoever opens it needs the tree of piece `first`
  };
  // What a walk reads stands first.
  double x = 0, y = 0, z = 0;           ///< centre of mass
  double open2 = 0;                     ///< it may be taken as a whole from farther than the root of this
  std::uint32_t kind = inner, next = 0; ///< `next`: the first cell behind it that is not in it
  std::uint32_t first = 0, count = 0;   ///< bodies
  double mass = 0;
  /// Second moments of mass about the centre of mass: xx, xy, xz, yy, yz, zz. With the trace kept,
  /// they give the quadrupole of softened gravity, too.
  std::array<double, 6> moment{};
  box around;
};

/// Sums up masses, or cells, in the order in which they are added.
class moment_sum {
public:
  explicit moment_sum(const box& around) : around_(around) {}
  void add_mass(double m, double x, double y, double z) noexcept;
  void add_moment(double m, double x, double y, double z, const std::array<double, 6>* inner) noexcept;
  /// Masses first, all of them, then moments about the centre that these have. \param theta: the
  /// opening angle; 0: never taken as a whole.
  void begin_moments() noexcept;
  void finish(cell& to, double theta) const noexcept;

private:
  box around_;
  double mass_ = 0, centre_[3] = {}, sum_[3] = {};
  std::array<double, 6> moment_{};
};

} // namespace nbody
