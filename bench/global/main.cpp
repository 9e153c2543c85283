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
#error "define BENCH_GLOBAL_TERN, _MPI_OPENMPI, _MPI_MPICH, _PUT_OPENMPI as the paths of the programs"
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

series one_sided(const words& arguments) {
  return series([=] {
    words line = command_line(BENCH_GLOBAL_PUT_OPENMPI, arguments);
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

/// Into an object that exists: half a round trip, and until the rank that puts knows that the data
/// are there.
void add_puts(metrics& all, const scale& of) {
  const std::string size = "8388608", time = of("0.5", "0.02");
  const series our = ours({"put", size, time}), two_sided = raw({"latency", size, time}),
               put = one_sided({"put", size, time});
  all.push_back({.name = "global.put.8MiB",
                 .unit = "us",
                 .target = 0.95,
                 .rival_name = "raw, funneled",
                 .ours = our[size],
                 .rival = two_sided[size]});
  all.push_back({.name = "global.put.8MiB.flush",
                 .unit = "us",
                 .target = 0.90,
                 .rival_name = "MPI_Put, flush",
                 .ours = our[size + ".done"],
                 .rival = put[size]});
}

metrics all_lines(const scale& of) {
  metrics all;
  add_arguments(all, of);
  add_delay(all, of);
  add_puts(all, of);
  return all;
}

} // namespace

int main(int argc, char** argv) {
  forget_settings();
  return run(argc, argv, all_lines);
}
