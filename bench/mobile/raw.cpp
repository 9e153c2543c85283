// SPDX-License-Identifier: Apache-2.0
/// \file
/// The rival of messages and migrations: the same bytes as one moves them in MPI, compiled once for
/// each MPI.
///
///     bench_mobile_mpi_X rounds SECONDS      microseconds for half a round trip of a small message, and for the bytes
///                                            of a large object there and back
///     bench_mobile_mpi_X reduce SECONDS N    nanoseconds for each of N objects of which each rank sums half, for
///                                            MPI_Allreduce to add up
///
/// SECONDS: for each. Rank 0 prints one JSON object.

#include <mpi.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/mobile/contestant.hpp"

namespace {

using namespace tern::bench;
using namespace tern::bench::mobile;

long tell(long n) {
  MPI_Bcast(&n, 1, MPI_LONG, 0, MPI_COMM_WORLD);
  return n;
}

/// Microseconds for `bytes` there and back.
double there_and_back(int rank, std::size_t bytes, double most) {
  std::vector<char> data(bytes, 'x');
  const int size = static_cast<int>(bytes), other = 1 - rank;
  const auto send = [&] { MPI_Send(data.data(), size, MPI_BYTE, other, 0, MPI_COMM_WORLD); };
  const auto receive = [&] { MPI_Recv(data.data(), size, MPI_BYTE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); };
  const double each = measured(rank, most, tell, [&](long n) {
    return timed(n, [&](long) {
      if (rank == 0) send();
      receive();
      if (rank == 1) send();
    });
  });
  check(data.front() == 'x' && data.back() == 'x', "a message");
  return each;
}

struct summand {
  double value;
  double get() const { return value; }
};

/// The objects lie where a program has them that asks each for its value: apart.
double reduce(int rank, std::size_t objects, double most) {
  std::vector<std::unique_ptr<summand>> mine;
  for (std::size_t i = 0; i < objects / 2; ++i)
    mine.push_back(std::make_unique<summand>(summand{static_cast<double>(i % 7)}));
  double sum = 0;
  const double each = measured(rank, most, tell, [&](long n) {
    return timed(n, [&](long) {
      double part = 0;
      for (const auto& one : mine) part += one->get();
      MPI_Allreduce(&part, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    });
  });
  check(sum > 0, "a sum");
  return 1e3 * each / static_cast<double>(objects);
}

} // namespace

int main(int argc, char** argv) {
  try {
    const std::string kind = argc > 1 ? argv[1] : "";
    if (!(argc == 3 && kind == "rounds") && !(argc == 4 && kind == "reduce"))
      throw std::runtime_error("usage: bench_mobile_mpi_X rounds SECONDS | reduce SECONDS N");
    bind_to_core();
    int level = 0, rank = 0, size = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2) throw std::runtime_error("start two processes");
    const double most = std::atof(argv[2]);
    if (kind == "reduce") {
      const double each = reduce(rank, static_cast<std::size_t>(std::atol(argv[3])), most);
      if (rank == 0) std::printf("{\"reduce\":%.9g}\n", each);
      MPI_Finalize();
      return 0;
    }
    const double message = there_and_back(rank, message_bytes, most) / 2;
    const double cargo = there_and_back(rank, cargo_bytes, most);
    if (rank == 0) std::printf("{\"remote\":%.9g,\"migration\":%.9g}\n", message, cargo);
    MPI_Finalize();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_mobile_mpi: %s\n", e.what());
    std::_Exit(1); // the launcher ends the other rank
  }
}
