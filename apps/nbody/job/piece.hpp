// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A piece of space with its bodies: an element of the array of all pieces.
///
/// A step is three epochs: `advance` (kick, drift, bodies go to their new pieces), `settle` (sorts
/// and makes the tree), `attract` (forces, kick). All that a run is lies in the pieces and in the
/// plan; trees are made anew in each step.

#include "apps/nbody/bodies/bodies.hpp"
#include "apps/nbody/job/plan.hpp"
#include "apps/nbody/tree/tree.hpp"

#include <array>
#include <cstdint>
#include <vector>

#include <tern/mobile/array.hpp>

namespace nbody {

/// Sums over bodies. Energies without what a body has by itself.
struct totals {
  std::uint64_t bodies = 0, interactions = 0, hash = 0;
  double mass = 0, kinetic = 0, potential = 0;
  std::array<double, 3> momentum{}, angular{};
  double speed = 0; ///< sum of mass times speed: what momentum is small against
  double energy() const noexcept { return kinetic + potential; }
  totals operator+(const totals& other) const noexcept;
  template <class A> void serialize(A& ar) {
    ar(bodies, interactions, hash, mass, kinetic, potential, momentum, angular, speed);
  }
};

/// What pictures need.
struct snapshot {
  std::vector<float> x, y, z;
  std::vector<std::uint8_t> label;
  template <class A> void serialize(A& ar) { ar(x, y, z, label); }
};

/// Everything about a piece's bodies.
struct extract {
  bodies all;
  accelerations pull;
  int rank = 0;
  template <class A> void serialize(A& ar) { ar(all, pull, rank); }
};

class piece {
public:
  piece() = default;
  explicit piece(const tern::indices<1>& at) : number_(static_cast<std::uint32_t>(at[0])) {}

  /// Bodies that belong here from the next `settle` on.
  void take(const bodies& arrived);
  /// A half kick and a drift of `dt`; what has left the piece's keys goes to the pieces that have
  /// these. The plan is the rank's.
  void advance(double dt);
  void settle();
  /// Forces, then a kick of `dt`. Waits for other ranks' trees.
  void attract(double dt);

  nbody::totals totals() const;
  nbody::sample sample() const;
  nbody::snapshot snapshot() const;
  nbody::extract extract() const;

  template <class A> void serialize(A& ar) { ar(number_, all_, arrived_, pull_, groups_, around_, interactions_); }

private:
  void kick(double dt);

  std::uint32_t number_ = 0;
  bodies all_;     ///< in the order of keys, then ids, since the last `settle`
  bodies arrived_; ///< in any order
  accelerations pull_;
  std::vector<body_group> groups_;
  box around_;
  std::uint64_t interactions_ = 0; ///< of the last `attract`
};

} // namespace nbody
