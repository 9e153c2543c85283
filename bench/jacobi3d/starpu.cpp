// SPDX-License-Identifier: Apache-2.0
/// \file
/// The rival with StarPU-MPI, as one first writes it: blocks and their outermost layers are data
/// with an owner; every process submits all tasks of all blocks, and StarPU sends the layers that a
/// task needs from elsewhere.
///
///     bench_jacobi3d_starpu N ITERATIONS BLOCKS     so many blocks along z

extern "C" {
#include <starpu_disk.h> // which its headers use and do not say
}
#include <starpu.h>
#include <starpu_mpi.h>

#include "bench/jacobi3d/mpi.hpp"

#include <string>

namespace {

using namespace tern::bench::jacobi3d;

void must(int code, const char* what) {
  if (code != 0) throw std::runtime_error(std::string(what) + ": error " + std::to_string(code) + " of StarPU");
}

/// A slab with a plane around it in each direction; those below and above are copied from layers.
void sweep(void** buffers, void* argument) {
  box b{};
  starpu_codelet_unpack_args(argument, &b);
  const auto data = [&](int i) { return reinterpret_cast<double*>(STARPU_VECTOR_GET_PTR(buffers[i])); };
  const double *const below = data(2), *const above = data(3);
  double *const now = data(0), *const next = data(1), *const bottom = data(4), *const top = data(5);
  const std::int64_t row = b.row(), plane = b.plane();
  b.each(4, 1, [&](std::int64_t at, std::int64_t i) { now[at] = below[i]; });
  b.each(5, 1, [&](std::int64_t at, std::int64_t i) { now[at] = above[i]; });
  for (std::int64_t z = 0; z < b.size[2]; ++z)
    for (std::int64_t y = 0; y < b.size[1]; ++y) {
      const double* const c = now + b.at(0, y, z);
      double* const __restrict to = next + b.at(0, y, z);
      for (std::int64_t x = 0; x < b.size[0]; ++x)
        to[x] =
            alpha * c[x] + beta * (((((c[x - 1] + c[x + 1]) + c[x - row]) + c[x + row]) + c[x - plane]) + c[x + plane]);
    }
  b.each(4, 0, [&](std::int64_t at, std::int64_t i) { bottom[i] = next[at]; });
  b.each(5, 0, [&](std::int64_t at, std::int64_t i) { top[i] = next[at]; });
}

struct slab {
  box cells_of;
  int owner = 0;
  std::array<std::vector<double>, 2> fields;
  std::array<std::array<std::vector<double>, 2>, 2> layers; // by iteration % 2; below, above
  std::array<starpu_data_handle_t, 2> field{};
  std::array<std::array<starpu_data_handle_t, 2>, 2> layer{};
};

void compute(const job& j, std::int64_t blocks) {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<slab> all(static_cast<std::size_t>(blocks));
  std::vector<double> plate(static_cast<std::size_t>(j.n * j.n), beyond(4)), cold(plate.size(), beyond(5));
  std::array<starpu_data_handle_t, 2> ends{}; // every process has them
  starpu_vector_data_register(&ends[0], STARPU_MAIN_RAM, reinterpret_cast<std::uintptr_t>(plate.data()),
                              static_cast<std::uint32_t>(plate.size()), sizeof(double));
  starpu_vector_data_register(&ends[1], STARPU_MAIN_RAM, reinterpret_cast<std::uintptr_t>(cold.data()),
                              static_cast<std::uint32_t>(cold.size()), sizeof(double));
  int tag = 0;
  const auto enter = [&](starpu_data_handle_t& h, std::vector<double>& v, std::size_t length, int owner) {
    if (owner == rank) {
      v.resize(length);
      starpu_vector_data_register(&h, STARPU_MAIN_RAM, reinterpret_cast<std::uintptr_t>(v.data()),
                                  static_cast<std::uint32_t>(length), sizeof(double));
    } else {
      starpu_vector_data_register(&h, -1, 0, static_cast<std::uint32_t>(length), sizeof(double));
    }
    starpu_mpi_data_register(h, tag++, owner);
  };
  for (starpu_data_handle_t h : ends) starpu_mpi_data_register(h, tag++, STARPU_MPI_PER_NODE);
  for (std::int64_t i = 0; i < blocks; ++i) {
    slab& s = all[static_cast<std::size_t>(i)];
    s.cells_of = box::part({j.n, j.n, j.n}, {0, 0, i}, {1, 1, blocks});
    s.owner = static_cast<int>(i * size / blocks);
    for (std::size_t k = 0; k < 2; ++k) {
      enter(s.field[k], s.fields[k], static_cast<std::size_t>(s.cells_of.room()), s.owner);
      for (std::size_t side = 0; side < 2; ++side) enter(s.layer[k][side], s.layers[k][side], plate.size(), s.owner);
    }
    if (s.owner != rank) continue;
    for (auto& f : s.fields) s.cells_of.fill(f.data());
    for (std::size_t side = 0; side < 2; ++side)
      s.cells_of.each(4 + static_cast<int>(side), 0, [&](std::int64_t at, std::int64_t k) {
        s.layers[0][side][static_cast<std::size_t>(k)] = s.fields[0][static_cast<std::size_t>(at)];
      });
  }
  static starpu_codelet one;
  starpu_codelet_init(&one);
  one.cpu_funcs[0] = sweep;
  one.nbuffers = 6;
  one.modes[0] = STARPU_RW;
  one.modes[1] = STARPU_RW; // what is around it stays
  one.modes[2] = one.modes[3] = STARPU_R;
  one.modes[4] = one.modes[5] = STARPU_W;
  MPI_Barrier(MPI_COMM_WORLD);
  const double began = tern::bench::seconds();
  for (std::int64_t k = 0; k < j.iterations; ++k) {
    const auto now = static_cast<std::size_t>(k % 2), next = 1 - now;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const slab& s = all[i];
      if (s.owner != rank && (i == 0 || all[i - 1].owner != rank) && (i + 1 == all.size() || all[i + 1].owner != rank))
        continue; // nothing of it concerns this process
      must(starpu_mpi_task_insert(MPI_COMM_WORLD, &one, STARPU_RW, s.field[now], STARPU_RW, s.field[next], STARPU_R,
                                  i > 0 ? all[i - 1].layer[now][1] : ends[0], STARPU_R,
                                  i + 1 < all.size() ? all[i + 1].layer[now][0] : ends[1], STARPU_W, s.layer[next][0],
                                  STARPU_W, s.layer[next][1], STARPU_EXECUTE_ON_NODE, s.owner, STARPU_VALUE,
                                  &s.cells_of, sizeof s.cells_of, 0),
           "starpu_mpi_task_insert");
    }
  }
  must(starpu_task_wait_for_all(), "starpu_task_wait_for_all");
  MPI_Barrier(MPI_COMM_WORLD);
  double taken = tern::bench::seconds() - began, most = 0;
  std::uint64_t part = 0, hash = 0;
  for (slab& s : all) {
    for (std::size_t k = 0; k < 2; ++k) {
      starpu_data_unregister(s.field[k]);
      for (starpu_data_handle_t h : s.layer[k]) starpu_data_unregister(h);
    }
    if (s.owner == rank) part += s.cells_of.hash(s.fields[static_cast<std::size_t>(j.iterations % 2)].data());
  }
  for (starpu_data_handle_t h : ends) starpu_data_unregister(h);
  MPI_Reduce(&taken, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  MPI_Reduce(&part, &hash, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) print(most, hash);
}

} // namespace

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level); // as its manual has it
  // What it measures of buses is of no use to one kind of device, and not left in the home folder.
  setenv("STARPU_HOME", BENCH_JACOBI3D_STARPU_HOME, 0);
  setenv("STARPU_SILENT", "1", 0);
  try {
    const job j = job_of(argc, argv);
    starpu_conf conf;
    must(starpu_conf_init(&conf), "starpu_conf_init");
    conf.ncpus = 1; // a process a core
    conf.ncuda = conf.nopencl = 0;
    must(starpu_mpi_init_conf(&argc, &argv, 0, MPI_COMM_WORLD, &conf), "starpu_mpi_init_conf");
    compute(j, argc > 3 ? std::atoll(argv[3]) : 2);
    starpu_mpi_shutdown();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
