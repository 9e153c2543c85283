// SPDX-License-Identifier: Apache-2.0
/// \file
/// Device data in messages, beside raw MPI.
///
///     bench_global                  as every benchmark (harness.hpp)

#include "bench/harness/harness.hpp"

#include <algorithm>
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

/// On the simulator, with simulated devices: exact, and the same in each run. What it would take at
/// best stands beside it.
series on_devices(const words& arguments) {
  return series([=] {
    words line = command_line(BENCH_GLOBAL_TERN, arguments);
    for (const char* option : {"--tern-hetero-devices=host,simulated", "--tern-hetero-policy=locality",
                               "--tern-hetero-simulated=1:bandwidth=10000000000,latency=0us,launch=10us,item=0ns"})
      line.emplace_back(option);
    return run_tern_simulated(2, line);
  });
}
constexpr double rate = 1e4, kernel = 10;            // bytes a microsecond of copies and of the wire; microseconds
constexpr double message = 1 + 2 * 0.3;              // microseconds of an empty one, in the simulated network
constexpr double links = 100, least_piece = 1 << 18; // of the chain; bytes

/// A chain's kernels, one after the other; between them each piece is copied out, carried and
/// copied in, while others are at the other stages; and the messages that begin and end it.
double critical_path(double bytes) {
  const double piece = std::min(bytes, least_piece);
  return links * (kernel + message + (bytes + 2 * piece) / rate) + 3 * message;
}

void add_devices(metrics& all) {
  constexpr double staged = 67108864;
  const series from_device = on_devices({"staged", "67108864", "0"});
  all.push_back({.name = "global.staged.64MiB",
                 .unit = "us",
                 .target = 1.10,
                 .rival_name = "the slowest stage alone",
                 .ours = from_device["67108864"],
                 .rival = [] { return staged / rate; },
                 .once = true});
  const series chain = on_devices({"chain", "4096,1048576", "0"});
  const auto add = [&](const char* name, const char* bytes, double least) {
    all.push_back({.name = name,
                   .unit = "us",
                   .target = 1.05,
                   .rival_name = "its critical path",
                   .ours = chain[bytes],
                   .rival = [least] { return least; },
                   .once = true});
  };
  add("global.chain.4KiB", "4096", critical_path(4096));
  add("global.chain.1MiB", "1048576", critical_path(1048576));
}

metrics all_lines(const scale& of) {
  metrics all;
  add_arguments(all, of);
  add_delay(all, of);
  add_devices(all);
  return all;
}

} // namespace

int main(int argc, char** argv) {
  forget_settings();
  return run(argc, argv, all_lines);
}
