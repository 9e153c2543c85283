// SPDX-License-Identifier: Apache-2.0
// MPI and OpenMP beside Tern: the application calls MPI itself, as a library under it may, and a handler shares its
// loop with OpenMP's threads. With the argument `tern`, Tern starts and ends MPI, else the application does.
#include <cstdio>
#include <cstring>

#include <mpi.h>

#include <tern/tern.hpp>

// The sum of 1 … n, by OpenMP's threads. They are no workers of Tern's: nothing of Tern is called between the braces.
double sum_up_to(int n) {
  double sum = 0;
#pragma omp parallel for reduction(+ : sum)
  for (int i = 1; i <= n; ++i) sum += i;
  return sum;
}

// Blocks the worker until all ranks are here, as any function of a library that communicates does.
double sum_over_ranks(double mine, MPI_Comm where) {
  double sum = 0;
  MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, where);
  return sum;
}

// Lets the worker do other work meanwhile, so no rank must wait for another before.
double sum_over_ranks_in_a_fiber(double mine, MPI_Comm where) {
  double sum = 0;
  MPI_Request request;
  MPI_Iallreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, where, &request);
  for (int done = 0;;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done) return sum;
    tern::this_fiber::yield();
  }
}

int work(MPI_Comm application) { // on each rank
  int ranks = 0, rank = 0, level = 0;
  MPI_Comm_size(application, &ranks);
  MPI_Comm_rank(application, &rank);
  MPI_Query_thread(&level);
  if (ranks != tern::size() || rank != tern::rank()) {
    if (tern::rank() == 0) std::printf("Tern has %d ranks and MPI %d: start with mpirun\n", tern::size(), ranks);
    return 3;
  }
  if (level < MPI_THREAD_MULTIPLE && tern::scheduler::current()->workers() > 1) {
    if (rank == 0) std::printf("a rank with several workers needs MPI_THREAD_MULTIPLE\n");
    return 4;
  }
  const double part = tern::call<&sum_up_to>((rank + 1) % ranks, 1000).get();
  tern::barrier(); // all have their answer: a rank that blocks below gives none
  const double sum = sum_over_ranks(part, application);
  // Here rank 0 still asks others that may wait in MPI already.
  const double more = rank == 0 ? tern::call<&sum_up_to>(ranks - 1, 1000).get() : part;
  const double again = sum_over_ranks_in_a_fiber(more, application);
  if (rank == 0) std::printf("%.0f and %.0f by %d ranks\n", sum, again, ranks);
  return sum == 500'500.0 * ranks && again == sum ? 0 : 1;
}

int main(int argc, char** argv) {
  const bool by_tern = argc > 1 && std::strcmp(argv[1], "tern") == 0;
  int level = MPI_THREAD_SINGLE;
  MPI_Comm application = MPI_COMM_NULL; // its own, so that no message meets one of another library
  if (!by_tern) {
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_dup(MPI_COMM_WORLD, &application);
  }
  const int code = tern::run(argc, argv, [&application] {
    const bool mine = application == MPI_COMM_NULL; // MPI runs as long as tern::run does
    MPI_Comm where = application;
    if (mine) MPI_Comm_dup(MPI_COMM_WORLD, &where);
    const int result = work(where);
    if (mine) MPI_Comm_free(&where);
    return result;
  });
  if (!by_tern) {
    MPI_Comm_free(&application);
    MPI_Finalize();
  }
  return code;
}
