// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the rivals with plain MPI have in common: ranks in a grid, and layers that travel.

#include <mpi.h>

#include <array>
#include <cstdio>
#include <exception>
#include <vector>

#include "bench/harness/timing.hpp"
#include "bench/jacobi3d/rival.hpp"

namespace tern::bench::jacobi3d {

/// A rank's place among all, as MPI divides them.
class place {
public:
  explicit place(std::int64_t n) {
    int size = 0, rank = 0, parts[3] = {0, 0, 0}, periodic[3] = {0, 0, 0}, at[3];
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Dims_create(size, 3, parts); // z, y, x
    MPI_Cart_create(MPI_COMM_WORLD, 3, parts, periodic, 0, &all_);
    MPI_Comm_rank(all_, &rank);
    MPI_Cart_coords(all_, rank, 3, at);
    mine_ = box::part({n, n, n}, {at[2], at[1], at[0]}, {parts[2], parts[1], parts[0]});
    for (int d = 0; d < 3; ++d) MPI_Cart_shift(all_, 2 - d, 1, &beside_[2 * d], &beside_[2 * d + 1]);
    first_ = rank == 0;
  }
  const box& mine() const { return mine_; }
  bool is_first() const { return first_; }
  bool has(int side) const { return beside_[side] != MPI_PROC_NULL; }
  /// Begins to receive what lies beyond each side that has a neighbour.
  void receive(std::array<std::vector<double>, side_count>& in, std::vector<MPI_Request>& requests) const {
    for (int s = 0; s < side_count; ++s)
      if (has(s)) {
        auto& layer = in[static_cast<std::size_t>(s)];
        MPI_Irecv(layer.data(), static_cast<int>(layer.size()), MPI_DOUBLE, beside_[s], opposite(s), all_,
                  &requests.emplace_back());
      }
  }
  void send(int side, const std::vector<double>& layer, std::vector<MPI_Request>& requests) const {
    MPI_Isend(layer.data(), static_cast<int>(layer.size()), MPI_DOUBLE, beside_[side], side, all_,
              &requests.emplace_back());
  }
  std::array<std::vector<double>, side_count> layers() const {
    std::array<std::vector<double>, side_count> made;
    for (int s = 0; s < side_count; ++s)
      if (has(s)) made[static_cast<std::size_t>(s)].resize(static_cast<std::size_t>(face_size(mine_.size, s)));
    return made;
  }
  void report(double taken, std::uint64_t part) const {
    double most = 0;
    std::uint64_t hash = 0;
    MPI_Reduce(&taken, &most, 1, MPI_DOUBLE, MPI_MAX, 0, all_);
    MPI_Reduce(&part, &hash, 1, MPI_UINT64_T, MPI_SUM, 0, all_);
    if (first_) print(most, hash);
  }
  void barrier() const { MPI_Barrier(all_); }
  /// Whether it is so on all ranks.
  bool all(bool mine) const {
    int here = mine ? 1 : 0, least = 0;
    MPI_Allreduce(&here, &least, 1, MPI_INT, MPI_MIN, all_);
    return least != 0;
  }

private:
  MPI_Comm all_ = MPI_COMM_NULL;
  box mine_{};
  int beside_[side_count] = {};
  bool first_ = false;
};

/// \param compute(job): a rank's part, between MPI_Init and MPI_Finalize.
template <class F> int mpi_main(int argc, char** argv, bool bound, F compute) {
  MPI_Init(&argc, &argv);
  try {
    if (bound) bind_to_core();
    compute(job_of(argc, argv));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}

} // namespace tern::bench::jacobi3d
