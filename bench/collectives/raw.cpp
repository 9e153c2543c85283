// SPDX-License-Identifier: Apache-2.0
/// \file
/// The rival: the rounds of `bench_collectives_tern` as one writes them in MPI, compiled once for
/// each MPI.
///
///     bench_collectives_mpi_X rounds SECONDS      microseconds for one of each operation
///
/// SECONDS: for each operation. Rank 0 prints one JSON object.

#include <mpi.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/collectives/contestant.hpp"

namespace {

using namespace tern::bench;
using namespace tern::bench::collectives;

long tell(long n) {
  MPI_Bcast(&n, 1, MPI_LONG, 0, MPI_COMM_WORLD);
  return n;
}

double barrier(long n) {
  return timed(n, [](long) { MPI_Barrier(MPI_COMM_WORLD); });
}

double allreduce(long n) {
  const double mine = 1;
  double sum = 0;
  const double taken = timed(n, [&](long) { MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); });
  check(sum == 2, "allreduce");
  return taken;
}

// The roots take turns: none can run ahead of the other rank.
double broadcast(long n) {
  static std::vector<std::byte> data(broadcast_bytes, std::byte{1});
  const double taken = timed(n, [&](long i) {
    MPI_Bcast(data.data(), static_cast<int>(data.size()), MPI_BYTE, static_cast<int>(i % 2), MPI_COMM_WORLD);
  });
  check(data.back() == std::byte{1}, "broadcast");
  return taken;
}

double allgather(int rank, long n) {
  static std::vector<std::byte> all(2 * allgather_bytes);
  std::memset(all.data() + static_cast<std::size_t>(rank) * allgather_bytes, rank + 1, allgather_bytes);
  const double taken = timed(n, [&](long) {
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all.data(), allgather_bytes, MPI_BYTE, MPI_COMM_WORLD);
  });
  check(all.front() == std::byte{1} && all.back() == std::byte{2}, "allgather");
  return taken;
}

// Always of the same memory into the same: the fastest way that there is.
double alltoall(int rank, long n) {
  constexpr std::size_t part = alltoall_bytes / 2;
  static const std::vector<std::byte> out(alltoall_bytes, static_cast<std::byte>(rank + 1));
  static std::vector<std::byte> in(alltoall_bytes);
  const double taken =
      timed(n, [&](long) { MPI_Alltoall(out.data(), part, MPI_BYTE, in.data(), part, MPI_BYTE, MPI_COMM_WORLD); });
  check(in[static_cast<std::size_t>(1 - rank) * part] == static_cast<std::byte>(2 - rank), "alltoall");
  return taken;
}

// What has come goes back.
double alltoall_back(int rank, long n) {
  constexpr std::size_t part = alltoall_bytes / 2;
  static std::vector<std::byte> out(alltoall_bytes, static_cast<std::byte>(rank + 1)), in(alltoall_bytes);
  const double taken = timed(n, [&](long) {
    MPI_Alltoall(out.data(), part, MPI_BYTE, in.data(), part, MPI_BYTE, MPI_COMM_WORLD);
    out.swap(in);
  });
  check(out[static_cast<std::size_t>(rank) * part] == static_cast<std::byte>(rank + 1), "alltoall");
  return taken;
}

/// The JSON of rank 0.
std::string rounds(int rank, double most) {
  std::string found;
  const auto add = [&](const char* name, auto repeat) {
    char text[64];
    std::snprintf(text, sizeof text, "\"%s\":%.9g", name, measured(rank, most, tell, repeat));
    found += (found.empty() ? "" : ",") + std::string(text);
  };
  add("barrier", barrier);
  add("allreduce", allreduce);
  add("broadcast", broadcast);
  add("allgather", [&](long n) { return allgather(rank, n); });
  add("alltoall", [&](long n) { return alltoall(rank, n); });
  add("alltoall_back", [&](long n) { return alltoall_back(rank, n); });
  return "{" + found + "}";
}

} // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 3 || argv[1] != std::string("rounds"))
      throw std::runtime_error("usage: bench_collectives_mpi_X rounds SECONDS");
    bind_to_core();
    int level = 0, rank = 0, size = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2) throw std::runtime_error("start two processes");
    const std::string found = rounds(rank, std::atof(argv[2]));
    if (rank == 0) std::printf("%s\n", found.c_str());
    MPI_Finalize();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_collectives_mpi: %s\n", e.what());
    std::_Exit(1); // the launcher ends the other rank
  }
}
