// SPDX-License-Identifier: Apache-2.0
#include "bench/grain/jobs.hpp"

#include <stdexcept>
#include <utility>

#include "bench/harness/timing.hpp"

#ifndef BENCH_GRAIN_TERN
#error "define BENCH_GRAIN_TERN, _TASKS, _MPI_OPENMPI, … as the paths of the programs; empty: not built"
#endif

namespace tern::bench::grain {
namespace {

words line_of(const std::string& program, const std::string& carrier, const asked_for& what) {
  words arguments{carrier, what.seconds};
  arguments.insert(arguments.end(), what.problems.begin(), what.problems.end());
  return command_line(program, arguments);
}

/// A program that uses two threads of this process's own.
nlohmann::json run_here(const std::string& program, const char* needs, const std::string& carrier,
                        const asked_for& what, const environment& settings = {}) {
  if (program.empty()) throw absent(needs);
  if (cores().size() < 2) throw absent("a second core");
  return run_for_json(line_of(program, carrier, what), {}, settings);
}

} // namespace

nlohmann::json run_raw(mpi library, const asked_for& what, exchange how) {
  return run_rival_ranks(library, line_of(library == mpi::open_mpi ? BENCH_GRAIN_MPI_OPENMPI : BENCH_GRAIN_MPI_MPICH,
                                          how == exchange::bulk_synchronous ? "bulk" : "raw", what));
}

nlohmann::json run_ranks(mpi library, const std::string& carrier, const asked_for& what, environment more) {
  return run_tern_ranks(library, line_of(BENCH_GRAIN_TERN, carrier, what), spinning::chosen, std::move(more));
}

nlohmann::json run_started(const std::string& carrier, const asked_for& what) {
  words line{BENCH_GRAIN_TOOL, "run", "-n", "2", "--mpi", "openmpi", "--workers", "1", "--"};
  const words program = line_of(BENCH_GRAIN_TERN, carrier, what);
  line.insert(line.end(), program.begin(), program.end());
  if (cores().size() < 2) throw absent("a second core");
  if (std::string(BENCH_GRAIN_MPI_OPENMPI).empty()) throw absent("Open MPI");
  return run_for_json(line, {}, {{"TERN_LOG_LEVEL", "error"}, {"BENCH_GRAIN_AS_STARTED", "1"}});
}

nlohmann::json run_balanced(const std::string& policy, const asked_for& what) {
  nlohmann::json found = run_ranks(mpi::open_mpi, "objects", what, {{"TERN_BALANCE", policy}});
  if (const std::string used = found.at("policy"); used != policy)
    throw std::runtime_error("objects were to be balanced by " + policy + ", and the policy was " + used);
  return found;
}

nlohmann::json run_threads(const std::string& carrier, const asked_for& what) {
  return run_tern_threads(line_of(BENCH_GRAIN_TERN, carrier, what), spinning::chosen);
}

nlohmann::json run_rank(int workers, const std::string& carrier, const asked_for& what) {
  if (static_cast<int>(cores().size()) < workers) throw absent("a second core");
  return run_tern_alone(workers, line_of(BENCH_GRAIN_TERN, carrier, what));
}

nlohmann::json run_tasks(const std::string& carrier, const asked_for& what) {
  return run_here(BENCH_GRAIN_TASKS, "", carrier, what, {{"TERN_LOG_LEVEL", "error"}});
}

std::vector<environment> settings_of(openmp runtime) {
  if (runtime == openmp::libgomp) return {{}, {{"OMP_WAIT_POLICY", "active"}, {"OMP_PROC_BIND", "true"}}};
  return {{}, {{"KMP_LIBRARY", "turnaround"}}};
}

nlohmann::json run_openmp(openmp runtime, const asked_for& what, const environment& settings) {
  return runtime == openmp::libgomp
             ? run_here(BENCH_GRAIN_LIBGOMP, "g++", "depend", what, settings)
             : run_here(BENCH_GRAIN_LIBOMP, "clang-19 and libomp-19-dev", "depend", what, settings);
}

nlohmann::json run_tbb(const std::string& carrier, const asked_for& what) {
  return run_here(BENCH_GRAIN_TBB, "oneTBB: libtbb-dev", carrier, what);
}

nlohmann::json run_starpu(const std::string& scheduler, const asked_for& what) {
  return run_here(BENCH_GRAIN_STARPU, "StarPU: libstarpu-dev", "data", what, {{"STARPU_SCHED", scheduler}});
}

} // namespace tern::bench::grain
