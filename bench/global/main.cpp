// SPDX-License-Identifier: Apache-2.0
/// \file
/// Device data in messages, beside raw MPI.
///
///     bench_global                  as every benchmark (harness.hpp)

#include "bench/harness/harness.hpp"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "bench/harness/jobs.hpp"
#include "bench/harness/series.hpp"

#ifndef BENCH_GLOBAL_TERN
#error "define BENCH_GLOBAL_TERN, _MPI_OPENMPI, _MPI_MPICH as the paths of the programs"
#endif

namespace {

using namespace tern::bench;
using metrics = std::vector<metric>;

series ours(const words& arguments) {
  return series([=] {
    return run_tern_ranks(mpi::open_mpi, command_line(BENCH_GLOBAL_TERN, arguments), spinning::usual,
                          {{"TERN_MPI_THREADS", "funneled"}});
  });
}
series raw(const words& arguments) {
  return series([=] {
    words line = command_line(BENCH_GLOBAL_MPI_OPENMPI, arguments);
    line.insert(line.begin() + 1, "funneled");
    return run_rival_ranks(mpi::open_mpi, line);
  });
}

struct size_line {
  const char* name;
  std::size_t bytes;
  double target;
};
constexpr size_line sizes[] = {
    {"8B", 8, 1.25}, {"4KiB", 4096, 1.0}, {"64KiB", 65536, 1.10}, {"1MiB", 1048576, 0.85}, {"8MiB", 8388608, 1.0}};

/// Half a round trip of an object that the host has.
void add_arguments(metrics& all, const scale& of) {
  std::string list;
  for (const size_line& s : sizes) list += (list.empty() ? "" : ",") + std::to_string(s.bytes);
  const words arguments{"latency", list, of("0.3", "0.01")};
  const series our = ours(arguments), their = raw(arguments);
  for (const size_line& s : sizes)
    all.push_back({.name = std::string("global.argument.") + s.name,
                   .unit = "us",
                   .target = s.target,
                   .rival_name = "raw, funneled",
                   .ours = our[std::to_string(s.bytes)],
                   .rival = their[std::to_string(s.bytes)]});
}

/// Until a handler runs whose data a task is computing.
void add_delay(metrics& all, const scale& of) {
  const series both = ours({"delay", "1", of("0.5", "0.02")}); // ours and the rival in one program
  all.push_back({.name = "global.delay",
                 .unit = "us",
                 .target = 3,
                 .rival_name = "an empty message",
                 .ours = both["computed"],
                 .rival = both["empty"]});
}

/// A task that an invocation submits keeps its object.
void add_keep(metrics& all, const scale& of) {
  const series both = ours({"keep", "-", of("0.5", "0.02")});
  all.push_back({.name = "global.keep",
                 .unit = "ns",
                 .target = 1.0,
                 .rival_name = "one that no invocation submits, and 15 ns",
                 .ours = both["inside"],
                 .rival = both["budget"]});
}

/// An object moves whose member is on a device, and its next task runs there. In virtual time.
void add_move(metrics& all) {
  const series both([] {
    return run_tern_simulated(2, {BENCH_GLOBAL_TERN, "move", "67108864", "-", "--tern-hetero-devices=simulated",
                                  "--tern-hetero-simulated=1:bandwidth=10G"});
  });
  all.push_back({.name = "global.member.move",
                 .unit = "s",
                 .target = 1.15,
                 .rival_name = "an argument of 64 MiB, simulated",
                 .ours = both["moved"],
                 .rival = both["argument"]});
}

metrics all_lines(const scale& of) {
  metrics all;
  add_arguments(all, of);
  add_delay(all, of);
  add_keep(all, of);
  add_move(all);
  return all;
}

} // namespace

int main(int argc, char** argv) {
  forget_settings();
  return run(argc, argv, all_lines);
}
