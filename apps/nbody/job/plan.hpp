// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which piece has which bodies: the pieces are intervals of Morton keys with equally many bodies.

#include "apps/nbody/bodies/bodies.hpp"
#include "apps/nbody/bodies/morton.hpp"
#include "apps/nbody/tree/cell.hpp"

#include <cstdint>
#include <vector>

namespace nbody {

/// Some of the bodies, each of which stands for others near it.
struct sample {
  std::vector<double> x, y, z;
  std::vector<std::uint32_t> weight; ///< bodies that it stands for
  box around;                        ///< of all bodies
  void add(const bodies& all, std::uint32_t stride);
  template <class A> void serialize(A& ar) { ar(x, y, z, weight, around); }
};
/// Both, in this order: for tern::reduce.
struct join_samples {
  sample operator()(sample a, const sample& b) const;
};

/// The same on all ranks.
struct piece_plan {
  cube space;
  double length = 1;                     ///< a power of two, at least the side of `space`
  std::vector<std::uint64_t> first_keys; ///< by piece, ascending; the first is 0
  std::uint32_t piece_of(std::uint64_t key) const noexcept;
  template <class A> void serialize(A& ar) { ar(space, length, first_keys); }
};

/// From the sample alone, whatever its order is: the same bits on any number of ranks.
piece_plan plan_pieces(const sample& of, std::uint32_t pieces);

/// The least power of two that is not smaller; 1 for 0.
double power_of_two(double least) noexcept;

} // namespace nbody
