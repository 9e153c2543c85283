// SPDX-License-Identifier: Apache-2.0
/// \file
/// The rival of exchanges among all ranks, in MPI, and FFTW's distributed transform.
///
///     bench_global_exchange_mpi all BYTES SECONDS   ms for MPI_Alltoall of so many bytes a peer
///     bench_global_exchange_mpi fft N SECONDS       ms for a transform of N³ points there and back
///
/// Rank 0 prints one JSON object.

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#ifdef BENCH_HAS_FFTW
#include <fftw3-mpi.h>
#endif

#include "bench/harness/timing.hpp"

namespace {

template <class F> double slowest(double most, F&& f) {
  std::vector<double> found;
  for (double all = 0; found.empty() || (found.size() < 200 && all < most);) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double began = tern::bench::seconds();
    f();
    double took = tern::bench::seconds() - began;
    MPI_Allreduce(MPI_IN_PLACE, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    all += took;
    found.push_back(took * 1e3);
  }
  std::nth_element(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(found.size() / 2), found.end());
  return found[found.size() / 2];
}

double all_to_all(int bytes, double most) {
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int count = bytes / 4;
  std::vector<float> mine(static_cast<std::size_t>(count) * static_cast<std::size_t>(ranks), 1), got(mine);
  const auto exchange = [&] {
    MPI_Alltoall(mine.data(), count, MPI_FLOAT, got.data(), count, MPI_FLOAT, MPI_COMM_WORLD);
  };
  exchange();
  return slowest(most, exchange);
}

#ifdef BENCH_HAS_FFTW
double transform(std::ptrdiff_t n, double most) {
  fftwf_mpi_init();
  std::ptrdiff_t planes = 0, first = 0, rows = 0, first_row = 0;
  const std::ptrdiff_t numbers =
      fftwf_mpi_local_size_3d_transposed(n, n, n, MPI_COMM_WORLD, &planes, &first, &rows, &first_row);
  fftwf_complex* const x = fftwf_alloc_complex(static_cast<std::size_t>(numbers));
  const fftwf_plan there = fftwf_mpi_plan_dft_3d(n, n, n, x, x, MPI_COMM_WORLD, FFTW_FORWARD,
                                                 FFTW_MEASURE | FFTW_MPI_TRANSPOSED_OUT),
                   back = fftwf_mpi_plan_dft_3d(n, n, n, x, x, MPI_COMM_WORLD, FFTW_BACKWARD,
                                                FFTW_MEASURE | FFTW_MPI_TRANSPOSED_IN);
  const std::ptrdiff_t mine = planes * n * n;
  for (std::ptrdiff_t i = 0; i < mine; ++i) {
    x[i][0] = 0.001f * static_cast<float>(i % 1000);
    x[i][1] = 0;
  }
  const float scale = 1 / static_cast<float>(n * n * n);
  const auto there_and_back = [&] {
    fftwf_execute(there);
    fftwf_execute(back);
    for (std::ptrdiff_t i = 0; i < mine; ++i) {
      x[i][0] *= scale;
      x[i][1] *= scale;
    }
  };
  there_and_back();
  const double ms = slowest(most, there_and_back);
  fftwf_destroy_plan(there);
  fftwf_destroy_plan(back);
  fftwf_free(x);
  return ms;
}
#endif

} // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::string what = argc > 3 ? argv[1] : "";
  double ms = 0;
  if (what == "all") ms = all_to_all(std::atoi(argv[2]), std::atof(argv[3]));
#ifdef BENCH_HAS_FFTW
  if (what == "fft") ms = transform(std::atol(argv[2]), std::atof(argv[3]));
#endif
  if (rank == 0) std::printf("{\"ms\": %.6g}\n", ms);
  MPI_Finalize();
  return ms > 0 ? 0 : 1;
}
