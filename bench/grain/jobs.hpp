// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Starts the contestants of `bench_grain`.

#include <string>
#include <vector>

#include "bench/harness/jobs.hpp"

namespace tern::bench::grain {

/// How long each run of a contestant takes, and of what.
struct asked_for {
  std::string seconds;
  words problems;
};

// What contestants report. All \throw absent if what they need is not there.

/// How ranks of raw MPI exchange outputs: bulk-synchronous ones wait for all others in each step.
enum class exchange { non_blocking, bulk_synchronous };

/// Two ranks under an MPI's launcher, each bound to a core before its runtime starts, as `mpirun`
/// binds two ranks by default.
nlohmann::json run_raw(mpi library, const asked_for& what, exchange how = exchange::non_blocking);
nlohmann::json run_ranks(mpi library, const std::string& carrier, const asked_for& what, environment more = {});
/// Two ranks under Open MPI as `tern run` starts them, which binds none.
nlohmann::json run_started(const std::string& carrier, const asked_for& what);
/// Objects on two ranks under Open MPI.
/// \throws std::runtime_error if another policy balanced them.
nlohmann::json run_balanced(const std::string& policy, const asked_for& what);
/// Two ranks that are threads.
nlohmann::json run_threads(const std::string& carrier, const asked_for& what);
/// One rank with so many workers.
nlohmann::json run_rank(int workers, const std::string& carrier, const asked_for& what);
/// The contestant with the tasks of one node: two workers.
nlohmann::json run_tasks(const std::string& carrier, const asked_for& what);

/// OpenMP, two threads.
enum class openmp { libgomp, libomp };
/// What is tried: threads sleep after a while, or never; and stay on their CPUs, or not.
std::vector<environment> settings_of(openmp runtime);
nlohmann::json run_openmp(openmp runtime, const asked_for& what, const environment& settings);
nlohmann::json run_tbb(const std::string& carrier, const asked_for& what);
/// StarPU, two workers. \param scheduler as STARPU_SCHED names it: what is tried.
constexpr const char* starpu_schedulers[] = {"eager", "lws"};
nlohmann::json run_starpu(const std::string& scheduler, const asked_for& what);

} // namespace tern::bench::grain
