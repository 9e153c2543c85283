// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the contestants of `bench_nbody` compute: forces on a Plummer sphere, opening angle 0.5.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "apps/nbody/bodies/models.hpp"
#include "apps/nbody/force/group_force.hpp"
#include "apps/nbody/tree/tree.hpp"

namespace tern::bench::nbody {

inline constexpr double softening = 0.02;
inline constexpr std::size_t bodies_a_piece = 4096; // as the application cuts

inline ::nbody::initial problem(std::size_t bodies) { return ::nbody::make({"plummer", bodies, 1}); }

/// \throws std::runtime_error unless energy and interactions are near what they must be.
inline void check(std::size_t bodies, double potential, std::uint64_t interactions) {
  // A Plummer sphere in standard units has -1/2; a small one differs by chance.
  const double allowed = 0.02 + 1.5 / std::sqrt(static_cast<double>(bodies));
  if (!(std::fabs(potential + 0.5) < allowed))
    throw std::runtime_error("the potential energy is " + std::to_string(potential) + ", not about -0.5");
  if (interactions < bodies) throw std::runtime_error(std::to_string(interactions) + " interactions are too few");
}

} // namespace tern::bench::nbody
