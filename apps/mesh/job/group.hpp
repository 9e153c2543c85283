// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
/// \file
/// A subdomain as a mobile object: it meshes itself and tells its neighbours which border segments
/// it has split.

#include "apps/mesh/domain/size_field.hpp"
#include "apps/mesh/refine/refine.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <tern/mobile/object.hpp>
#include <tern/net/runtime.hpp>

namespace mesh {

class group;
using group_ptr = tern::mobile_ptr<group>;

/// Seconds that the rank's workers have spent in its groups' invocations, whichever groups these
/// were.
double rank_busy();

/// The rank's copy of the size field, set before its groups are made.
size_field& rank_sizes();

class group {
public:
  explicit group(const group_definition& definition);
  /// Groups move: on every rank the size field is the same.
  explicit group(tern::input_archive& ar);
  template <class A> void save(A& ar) const { ar(mesh_, id_, work_, refined_, neighbours_, inbox_); }

  /// Makes the neighbours' addresses known: (group number, object).
  void meet(std::vector<std::pair<std::uint32_t, group_ptr>> neighbours);

  /// The first meshing; sends its border splits to the neighbours. \return how many it sent.
  std::uint64_t refine();
  /// From a neighbour: border segments that it has split.
  void take(const std::vector<split>& theirs);
  /// Follows the neighbours' splits, refines again and sends what that split. \return how many
  /// segments changed.
  std::uint64_t follow();

  group_statistics statistics() const { return mesh_.statistics(); }
  int whereabouts() const { return tern::rank(); }

  /// For load balancing: what is estimated, right or wrong, of the first meshing. To follow takes
  /// little.
  double workload(std::size_t pending) const { return (refined_ ? 0.03 : 1.0) * work_ * static_cast<double>(pending); }
  extracted extract() const { return mesh_.extract(); }

private:
  std::uint64_t tell();

  group_mesh mesh_;
  std::uint32_t id_;
  double work_;
  bool refined_ = false;
  std::map<std::uint32_t, group_ptr> neighbours_; // ordered: messages leave in the same order in every run
  std::vector<split> inbox_;
};

} // namespace mesh
