// SPDX-License-Identifier: Apache-2.0
// MPI and OpenMP beside Tern. The application calls MPI, as a library that it uses may, and a
// handler runs a loop with OpenMP's threads. With the argument `tern`, Tern starts and ends MPI;
// without it, the application does.
#include <cstdio>
#include <cstring>

#include <mpi.h>

#include <tern/tern.hpp>

// The sum of 1 … n, by OpenMP's threads. They are no workers: the loop calls no function of Tern.
double sum_up_to(int n) {
  double sum = 0;
#pragma omp parallel for reduction(+ : sum)
  for (int i = 1; i <= n; ++i) sum += i;
  return sum;
}

// Blocks the worker until all ranks have called it, as a blocking call of any library does.
double sum_over_ranks(double mine, MPI_Comm where) {
  double sum = 0;
  MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, where);
  return sum;
}

// Lets the worker run other fibers meanwhile, so no barrier is needed before it.
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
  tern::barrier(); // all ranks have their answer: a rank that blocks below handles no message
  const double sum = sum_over_ranks(part, application);
  // Rank 0 calls a rank that may already wait in MPI.
  const double more = rank == 0 ? tern::call<&sum_up_to>(ranks - 1, 1000).get() : part;
  const double again = sum_over_ranks_in_a_fiber(more, application);
  if (rank == 0) std::printf("%.0f and %.0f by %d ranks\n", sum, again, ranks);
  return sum == 500'500.0 * ranks && again == sum ? 0 : 1;
}

int main(int argc, char** argv) {
  const bool by_tern = argc > 1 && std::strcmp(argv[1], "tern") == 0;
  int level = MPI_THREAD_SINGLE;
  MPI_Comm application = MPI_COMM_NULL; // its own, apart from all other libraries
  if (!by_tern) {
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_dup(MPI_COMM_WORLD, &application);
  }
  const int code = tern::run(argc, argv, [&application] {
    const bool mine = application == MPI_COMM_NULL; // Tern has started MPI, which ends with tern::run
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
