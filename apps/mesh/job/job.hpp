// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
/// \file
/// The parallel job, from a domain to statistics. Every function here is called by the main fibers
/// of all ranks together.

#include "apps/mesh/job/group.hpp"
#include "apps/mesh/job/settings.hpp"
#include "apps/mesh/refine/decompose.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace mesh {

/// Wall-clock seconds of the phases, on rank 0.
struct phase_times {
  double input = 0, sizing = 0, decompose = 0, distribute = 0, refine = 0, exchange = 0, statistics = 0, output = 0;
  /// What the rival's one call does: from the domain and its sizing to the finished mesh.
  double meshing() const { return decompose + distribute + refine + exchange; }
};

/// What one rank contributed.
struct rank_report {
  double busy = 0;                         ///< seconds in subdomains' refinement
  std::uint64_t groups = 0, triangles = 0; ///< that are there in the end; known on rank 0
  std::uint64_t arrived = 0;               ///< subdomains that the balancer has brought
  std::uint64_t process = 0;               ///< ranks of one process share its memory
  double peak_mib = 0;
  std::string host;
  template <class A> void serialize(A& ar) { ar(busy, groups, triangles, arrived, process, peak_mib, host); }
};

struct meshed {
  std::vector<group_ptr> groups;    ///< by number; on every rank
  std::vector<int> owners;          ///< by group, where it is in the end; on every rank
  std::size_t moved = 0;            ///< groups that are elsewhere than they were made
  std::string policy;               ///< that balanced: "none"
  group_statistics total;           ///< on rank 0
  std::vector<rank_report> ranks;   ///< on rank 0
  std::vector<sharp_joint> joints;  ///< on rank 0
  std::size_t coarse_triangles = 0; ///< on rank 0
  double estimated_triangles = 0;
  int rounds = 0;
  phase_times times;
  double peak_mib() const;  ///< of all processes
  void measure_peak();      ///< on rank 0: takes its process' peak again, which output may have raised
  double imbalance() const; ///< largest busy time over mean
};

/// Meshes `sea` (given on rank 0 only). \throws tern::error(invalid_argument) on rank 0 if there
/// are fewer subdomains than ranks; what refinement throws.
meshed run_job(const domain& sea, const settings& wanted, phase_times so_far);

} // namespace mesh
