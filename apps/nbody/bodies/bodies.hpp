// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Bodies as a structure of arrays, and what forces give them.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace nbody {

/// All vectors have one entry a body. In the units of the run (settings.hpp).
struct bodies {
  std::vector<std::uint32_t> id;   ///< differs from all others of the run
  std::vector<std::uint8_t> label; ///< what the body belongs to: colours of pictures
  std::vector<double> mass, x, y, z, vx, vy, vz;

  std::size_t size() const noexcept { return id.size(); }
  bool empty() const noexcept { return id.empty(); }
  void reserve(std::size_t n);
  void clear();
  void push(std::uint32_t number, std::uint8_t of, double m, const double (&at)[3], const double (&velocity)[3]);
  /// Adds one body of another set.
  void push(const bodies& from, std::size_t i);
  void append(const bodies& all);
  /// The same bodies in another order. \param order of old places, one each.
  void reorder(std::span<const std::uint32_t> order);

  template <class A> void serialize(A& ar) { ar(id, label, mass, x, y, z, vx, vy, vz); }
};

/// What gravity gives each body: acceleration, and the potential without the body's own.
struct accelerations {
  std::vector<double> x, y, z, potential;
  void resize(std::size_t n);
  template <class A> void serialize(A& ar) { ar(x, y, z, potential); }
};

/// A sum of one number for each body that depends on all its bits, and not on the bodies' order.
std::uint64_t hash_of(const bodies& all);

} // namespace nbody
