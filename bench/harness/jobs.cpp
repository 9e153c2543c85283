// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/jobs.hpp"

#include <cstdlib>
#include <sstream>

#include <unistd.h>

#include "bench/harness/timing.hpp"

#ifndef BENCH_OPENMPI_LAUNCHER
#error "define BENCH_OPENMPI_LAUNCHER and BENCH_MPICH_LAUNCHER as command lines whose words are separated by |"
#endif

namespace tern::bench {
namespace {

words split(const std::string& text) {
  words parts;
  std::istringstream in(text);
  for (std::string one; std::getline(in, one, '|');) parts.push_back(one);
  return parts;
}

words launched(mpi library, const words& program, const launch_shape& shape) {
  const bool open = library == mpi::open_mpi;
  words line = split(open ? BENCH_OPENMPI_LAUNCHER : BENCH_MPICH_LAUNCHER);
  if (line.empty()) throw absent(open ? "Open MPI" : "MPICH");
  if (cores().size() < 2) throw absent("a second core");
  line.insert(line.begin(), shape.before.begin(), shape.before.end());
  line.insert(line.end(), shape.options.begin(), shape.options.end());
  line.insert(line.end(), {"-np", std::to_string(shape.ranks)});
  line.insert(line.end(), program.begin(), program.end());
  return line;
}

// Alike on both sides. The limit is what Tern's plug-in sets where the user does not; ranks have a
// core each.
const environment same{{"OMPI_MCA_btl_vader_eager_limit", "17000"}, {"OMPI_MCA_mpi_yield_when_idle", "0"}};

environment with(spinning how, environment more) {
  // Also the usual time is set: a rank that is bound before Tern starts (bind_to_core) takes its
  // CPU for one that all ranks share, and would not look at all.
  if (how != spinning::chosen) more.emplace_back("TERN_SPIN_US", how == spinning::always ? "100000" : "20");
  more.emplace_back("TERN_LOG_LEVEL", "error");
  return more;
}

} // namespace

words command_line(const std::string& program, const words& arguments) {
  words line{program};
  line.insert(line.end(), arguments.begin(), arguments.end());
  return line;
}

nlohmann::json run_rival_ranks(mpi library, const words& program, rival_settings how, const launch_shape& shape) {
  return run_for_json(launched(library, program, shape), {}, how == rival_settings::as_ours ? same : environment{});
}

nlohmann::json run_tern_ranks(mpi library, const words& program, spinning how, environment more,
                              const launch_shape& shape) {
  more = with(how, std::move(more));
  // What a user gets comes from the plug-in.
  if (how == spinning::always) more.insert(more.begin(), same.begin(), same.end());
  more.emplace_back("TERN_WORKERS", "1");
  return run_for_json(launched(library, program, shape), {}, more);
}

nlohmann::json run_tern_threads(const words& program, spinning how) {
  if (cores().size() < 2) throw absent("a second core");
  return run_for_json(
      program, {},
      with(how, {{"TERN_RANKS", "2"}, {"TERN_TRANSPORT", "inproc"}, {"TERN_BIND", "core"}, {"TERN_WORKERS", "1"}}));
}

nlohmann::json run_tern_alone(int workers, const words& program) {
  return run_for_json(program, {},
                      {{"TERN_RANKS", "1"}, {"TERN_WORKERS", std::to_string(workers)}, {"TERN_LOG_LEVEL", "error"}});
}

nlohmann::json run_tern_simulated(int ranks, const words& program) {
  return run_for_json(program, {},
                      {{"TERN_SIM", "ranks=" + std::to_string(ranks) + ",jitter=0"}, {"TERN_LOG_LEVEL", "error"}});
}

void forget_settings() {
  words names;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry, name = text.substr(0, text.find('='));
    for (const char* prefix : {"TERN_", "OMPI_", "PMIX_", "MPICH_", "MPIR_", "OMP_", "GOMP_", "KMP_"})
      if (name.starts_with(prefix) && !name.ends_with("ALLOW_RUN_AS_ROOT") &&
          !name.ends_with("ALLOW_RUN_AS_ROOT_CONFIRM"))
        names.push_back(name);
  }
  for (const auto& name : names) unsetenv(name.c_str());
}

} // namespace tern::bench
