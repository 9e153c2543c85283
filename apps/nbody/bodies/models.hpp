// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The built-in initial conditions, with gravity's constant 1.

#include "apps/nbody/bodies/bodies.hpp"

#include <cstdint>
#include <string>

namespace nbody {

/// What a body belongs to, where a model says so.
enum label : std::uint8_t { first_disc = 0, second_disc = 1, first_halo = 2, second_halo = 3 };

struct model {
  /// `collision`: two exponential discs in Plummer haloes that meet (Toomre and Toomre 1972);
  /// `spheres`: two Plummer spheres that meet; `stream`: a cluster and a thin stream of stars;
  /// `plummer`: one in equilibrium (Aarseth, Hénon,
  /// Wielen 1974); `cube`: a cold cube that collapses; `two`: two bodies on ellipses.
  std::string name = "collision";
  std::size_t bodies = 20000;
  std::uint64_t seed = 1;
};
/// "collision|spheres|stream|plummer|cube|two".
extern const char* const model_names;

struct initial {
  bodies all;
  double softening = 0, step = 0.01; ///< that suit the model
};

/// Bodies with ids from 0, and their centre of mass at rest at 0. \throws tern::error for an
/// unknown name, fewer than one body, more than 2^31; `two` always has two.
initial make(const model& of);

} // namespace nbody
