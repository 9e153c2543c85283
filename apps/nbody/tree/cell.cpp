// SPDX-License-Identifier: Apache-2.0
#include "apps/nbody/tree/cell.hpp"

#include <cmath>

namespace nbody {

void moment_sum::add_mass(double m, double x, double y, double z) noexcept {
  mass_ += m;
  // About the box's middle: a cell far from the origin loses no digits.
  sum_[0] += m * (x - around_.middle(0));
  sum_[1] += m * (y - around_.middle(1));
  sum_[2] += m * (z - around_.middle(2));
}

void moment_sum::begin_moments() noexcept {
  for (std::size_t d = 0; d < 3; ++d) {
    centre_[d] = around_.middle(d) + sum_[d] / mass_;
    centre_[d] = std::min(std::max(centre_[d], around_.low[d]), around_.high[d]); // rounding
  }
}

void moment_sum::add_moment(double m, double x, double y, double z, const std::array<double, 6>* inner) noexcept {
  const double dx = x - centre_[0], dy = y - centre_[1], dz = z - centre_[2];
  const double own[6] = {m * dx * dx, m * dx * dy, m * dx * dz, m * dy * dy, m * dy * dz, m * dz * dz};
  for (std::size_t k = 0; k < 6; ++k) moment_[k] += own[k] + (inner ? (*inner)[k] : 0);
}

void moment_sum::finish(cell& to, double theta) const noexcept {
  to.x = centre_[0];
  to.y = centre_[1];
  to.z = centre_[2];
  to.mass = mass_;
  to.moment = moment_;
  to.around = around_;
  // Barnes' condition of 1994: the distance of the centre of mass from the middle is added, so that
  // no cell is taken as a whole by a body within or near it ("detonating galaxies").
  double away2 = 0;
  for (std::size_t d = 0; d < 3; ++d) {
    const double away = centre_[d] - around_.middle(d);
    away2 += away * away;
  }
  const double open =
      theta > 0 ? around_.longest_side() / theta + std::sqrt(away2) : std::numeric_limits<double>::infinity();
  to.open2 = open * open;
}

} // namespace nbody
