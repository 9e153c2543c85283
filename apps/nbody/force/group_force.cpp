// SPDX-License-Identifier: Apache-2.0
#include "apps/nbody/force/group_force.hpp"

#include <cmath>

namespace nbody {

void group_force::list_cells() {
  cells_.clear();
  const auto to = cells_.grow(far_.size());
  const double unit = per_mass_ * per_length_ * per_length_;
  for (std::size_t i = 0; i < far_.size(); ++i) {
    const cell& c = *far_[i];
    to[0][i] = at(c.x, 0);
    to[1][i] = at(c.y, 1);
    to[2][i] = at(c.z, 2);
    to[3][i] = static_cast<float>(c.mass * per_mass_);
    for (std::size_t k = 0; k < 6; ++k) to[4 + k][i] = static_cast<float>(c.moment[k] * unit);
  }
}

void group_force::list_points() {
  std::size_t n = points_.size();
  for (const run_of_bodies& some : near_) n += some.count;
  bodies_.clear();
  auto to = bodies_.grow(n);
  for (const cell* const c : points_) {
    *to[0]++ = at(c->x, 0);
    *to[1]++ = at(c->y, 1);
    *to[2]++ = at(c->z, 2);
    *to[3]++ = static_cast<float>(c->mass * per_mass_);
  }
  for (const auto& [of, first, count] : near_) {
    const double* const from[3] = {of->x.data() + first, of->y.data() + first, of->z.data() + first};
    for (int d = 0; d < 3; ++d)
      for (std::uint32_t i = 0; i < count; ++i) *to[static_cast<std::size_t>(d)]++ = at(from[d][i], d);
    for (std::uint32_t i = 0; i < count; ++i) *to[3]++ = static_cast<float>(of->mass[first + i] * per_mass_);
  }
}

std::uint64_t group_force::attract(const forest& all, const opened_trees& whole, const octree& own,
                                   const body_group& group, accelerations& to) {
  far_.clear();
  points_.clear();
  near_.clear();
  for (std::size_t d = 0; d < 3; ++d) middle_[d] = group.around.middle(d);
  all.walk(
      group.around, whole, [&](const cell& c) { (how_.quadrupole && c.count > 1 ? far_ : points_).push_back(&c); },
      [&](const octree& tree, std::uint32_t first, std::uint32_t count) {
        near_.push_back({&tree, first, count});
      });
  list_cells();
  list_points();
  const std::uint64_t acting = cells_.size() + bodies_.size();
  x_.resize(group.count);
  y_.resize(group.count);
  z_.resize(group.count);
  for (std::uint32_t i = 0; i < group.count; ++i) {
    x_[i] = at(own.x[group.first + i], 0);
    y_[i] = at(own.y[group.first + i], 1);
    z_[i] = at(own.z[group.first + i], 2);
  }
  felt_.assign(group.count, {});
  const double softening = how_.softening / how_.length;
  const auto softening2 = static_cast<float>(softening * softening);
  kernel_.bodies(bodies_.view(), x_.data(), y_.data(), z_.data(), group.count, softening2, felt_.data());
  kernel_.cells(cells_.view(), x_.data(), y_.data(), z_.data(), group.count, softening2, felt_.data());
  const double potential = how_.gravity * how_.mass / how_.length, pull = potential / how_.length;
  // A body is among its own sources: at a distance of 0 it pulls nothing, but has a potential.
  const double own_potential = softening2 > 0 ? 1 / std::sqrt(static_cast<double>(softening2)) / how_.mass : 0;
  for (std::uint32_t i = 0; i < group.count; ++i) {
    const std::uint32_t b = group.first + i;
    to.x[b] = pull * felt_[i].x;
    to.y[b] = pull * felt_[i].y;
    to.z[b] = pull * felt_[i].z;
    to.potential[b] = potential * (felt_[i].potential + own_potential * own.mass[b]);
  }
  return acting * group.count;
}

} // namespace nbody
