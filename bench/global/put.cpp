// SPDX-License-Identifier: Apache-2.0
/// \file
/// The rival of puts: one-sided MPI as one writes it, compiled for Open MPI.
///
///     bench_global_put_openmpi LEVEL put SIZE,… SECONDS    microseconds for MPI_Put and MPI_Win_flush, for each size
///
/// LEVEL: single or funneled. SECONDS: for each size. Rank 0 prints one JSON object.

#include <mpi.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/harness/timing.hpp"

namespace {

using namespace tern::bench;

/// Both ranks call it. \return on rank 0, microseconds.
double put(std::size_t size, int rank, double most) {
  std::vector<std::byte> target(size, std::byte{1}), source(size, std::byte{2});
  MPI_Win window = MPI_WIN_NULL;
  MPI_Win_create(target.data(), static_cast<MPI_Aint>(size), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  MPI_Win_lock_all(0, window);
  double each = 0;
  if (rank == 0) {
    each = per_item(most, latency_batch, 1, [&](long n) {
      return timed(n, [&](long) {
        MPI_Put(source.data(), static_cast<int>(size), MPI_BYTE, 1, 0, static_cast<int>(size), MPI_BYTE, window);
        MPI_Win_flush(1, window);
      });
    });
  }
  MPI_Win_unlock_all(window);
  MPI_Barrier(MPI_COMM_WORLD); // rank 1 waits here meanwhile, and makes progress
  if (rank == 1) check(target.front() == std::byte{2} && target.back() == std::byte{2}, "a put");
  MPI_Win_free(&window);
  return each * 1e6;
}

} // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 5 || std::string(argv[2]) != "put")
      throw std::runtime_error("usage: bench_global_put_openmpi LEVEL put SIZE,… SECONDS");
    bind_to_core();
    const int wanted = std::string(argv[1]) == "single" ? MPI_THREAD_SINGLE : MPI_THREAD_FUNNELED;
    int level = 0, rank = 0, ranks = 0;
    MPI_Init_thread(&argc, &argv, wanted, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2) throw std::runtime_error("start two processes");
    std::string found;
    std::istringstream sizes(argv[3]);
    for (std::string size; std::getline(sizes, size, ',');) {
      const double us = put(static_cast<std::size_t>(std::atol(size.c_str())), rank, std::atof(argv[4]));
      found += (found.empty() ? "{\"" : ",\"") + size + "\":" + std::to_string(us);
    }
    if (rank == 0) std::printf("%s}\n", found.c_str());
    MPI_Finalize();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_global_put: %s\n", e.what());
    std::_Exit(1); // the launcher ends the other rank
  }
}
