// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Forces on the bodies of one group: a walk, lists of what acts, and the loops over them.

#include "apps/nbody/bodies/bodies.hpp"
#include "apps/nbody/force/kernel.hpp"
#include "apps/nbody/tree/forest.hpp"

#include <cstdint>
#include <vector>

namespace nbody {

struct force_settings {
  double softening = 0;   ///< Plummer's length
  double gravity = 1;     ///< Newton's constant
  bool quadrupole = true; ///< else cells act as points
  /// Powers of two near the size and mass of all, by which single precision cannot overflow.
  double length = 1, mass = 1;
  template <class A> void serialize(A& ar) { ar(softening, gravity, quadrupole, length, mass); }
};

/// Space for one group after the other. One thread at a time.
class group_force {
public:
  explicit group_force(const force_settings& how, const kernel& by = best_kernel())
      : how_(how), kernel_(by), per_length_(1 / how.length), per_mass_(1 / how.mass) {}

  /// Sets the accelerations of the group's bodies. \param whole has those that
  /// `all.opened_by` names for the group's box. \return interactions: the group's
  /// bodies times what acts on each. The same bits for the same trees.
  std::uint64_t attract(const forest& all, const opened_trees& whole, const octree& own, const body_group& group,
                        accelerations& to);

private:
  struct run_of_bodies {
    const octree* of;
    std::uint32_t first, count;
  };
  void list_cells();
  void list_points();
  float at(double x, int d) const noexcept { return static_cast<float>((x - middle_[d]) * per_length_); }

  force_settings how_;
  kernel kernel_;
  double per_length_, per_mass_; // powers of two: as good as a division
  double middle_[3] = {};
  std::vector<const cell*> far_, points_; ///< that act as a whole; as a point each
  std::vector<run_of_bodies> near_;
  source_list cells_{true}, bodies_{false};
  std::vector<float> x_, y_, z_;
  std::vector<feeling> felt_;
};

} // namespace nbody
