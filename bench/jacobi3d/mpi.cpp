// SPDX-License-Identifier: Apache-2.0
/// \file
/// The rival with MPI, as one first writes it: a process a core, messages that do not wait, plain
/// loops, which the compiler makes vectors of. Compiled with OpenMP, a process has threads for the
/// loops.

#include "bench/jacobi3d/mpi.hpp"

#include <memory>
#include <utility>

#ifdef _OPENMP
#define PARALLEL _Pragma("omp parallel for schedule(static)")
#else
#define PARALLEL
#endif

namespace {

using namespace tern::bench::jacobi3d;

void compute(const job& j) {
  const place here(j.n);
  const box& b = here.mine();
  // Pages are taken by the threads that use them.
  const auto room = static_cast<std::size_t>(b.room());
  std::unique_ptr<double[]> now(new double[room]), next(new double[room]);
  PARALLEL
  for (std::int64_t z = -1; z <= b.size[2]; ++z)
    for (std::int64_t i = b.at(-1, -1, z); i < b.at(-1, -1, z + 1); ++i)
      now[static_cast<std::size_t>(i)] = next[static_cast<std::size_t>(i)] = 0;
  b.fill(now.get());
  b.fill(next.get());
  auto in = here.layers(), out = here.layers();
  std::vector<MPI_Request> requests;
  const std::int64_t row = b.row(), plane = b.plane();
  here.barrier();
  const double began = tern::bench::seconds();
  for (std::int64_t k = 0; k < j.iterations; ++k) {
    requests.clear();
    requests.reserve(2 * side_count);
    here.receive(in, requests);
    for (int s = 0; s < side_count; ++s)
      if (here.has(s)) {
        double* const to = out[static_cast<std::size_t>(s)].data();
        const double* const c = now.get();
        b.each(s, 0, [&](std::int64_t at, std::int64_t i) { to[i] = c[at]; });
        here.send(s, out[static_cast<std::size_t>(s)], requests);
      }
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    for (int s = 0; s < side_count; ++s)
      if (here.has(s)) {
        const double* const from = in[static_cast<std::size_t>(s)].data();
        double* const c = now.get();
        b.each(s, 1, [&](std::int64_t at, std::int64_t i) { c[at] = from[i]; });
      }
    PARALLEL
    for (std::int64_t z = 0; z < b.size[2]; ++z)
      for (std::int64_t y = 0; y < b.size[1]; ++y) {
        const double* const c = now.get() + b.at(0, y, z);
        double* const __restrict to = next.get() + b.at(0, y, z);
        for (std::int64_t x = 0; x < b.size[0]; ++x)
          to[x] = alpha * c[x] +
                  beta * (((((c[x - 1] + c[x + 1]) + c[x - row]) + c[x + row]) + c[x - plane]) + c[x + plane]);
      }
    std::swap(now, next);
  }
  const double taken = tern::bench::seconds() - began;
  here.report(taken, b.hash(now.get()));
}

} // namespace

int main(int argc, char** argv) {
#ifdef _OPENMP
  constexpr bool bound = false;
#else
  constexpr bool bound = true;
#endif
  return mpi_main(argc, argv, bound, compute);
}
