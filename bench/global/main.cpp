// SPDX-License-Identifier: Apache-2.0
/// \file
/// Device data in messages, beside raw MPI.
///
///     bench_global                  as every benchmark (harness.hpp)

#include "bench/harness/harness.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
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
constexpr double pace = 1e4, kernel = 10;            // bytes a microsecond of copies and of the wire; microseconds
constexpr double message = 1 + 2 * 0.3;              // microseconds of an empty one, in the simulated network
constexpr double links = 100, least_piece = 1 << 18; // of the chain; bytes

/// A chain's kernels, one after the other; between them each piece is copied out, carried and
/// copied in, while others are at the other stages; and the messages that begin and end it.
double critical_path(double bytes) {
  const double piece = std::min(bytes, least_piece);
  return links * (kernel + message + (bytes + 2 * piece) / pace) + 3 * message;
}

void add_devices(metrics& all) {
  constexpr double staged = 67108864;
  const series from_device = on_devices({"staged", "67108864", "0"});
  all.push_back({.name = "global.staged.64MiB",
                 .unit = "us",
                 .target = 1.10,
                 .rival_name = "the slowest stage alone",
                 .ours = from_device["67108864"],
                 .rival = [] { return staged / pace; },
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

/// All faces of a block on a device: a launch takes 5 microseconds there, and nothing else does.
void add_halo(metrics& all) {
  const series both([] {
    return run_tern_simulated(1, {BENCH_GLOBAL_HALO, "128", "--tern-hetero-devices=simulated",
                                  "--tern-hetero-simulated=1:launch=5us,item=0ns"});
  });
  all.push_back({.name = "global.halo",
                 .unit = "us",
                 .target = 0.5,
                 .rival_name = "a kernel a face",
                 .ours = both["halo"],
                 .rival = both["faces"],
                 .once = true});
}

// Exchanges among four ranks ------------------------------------------------------------------------------------------

/// The host's network as one of 100 Mbit/s: the loopback of a name space of its own. \throws absent
/// without the rights, or the tools, for that.
launch_shape slow_network() {
  static const bool there = [] {
    const char* const made = "ip netns del tern-slow 2>/dev/null; ip netns add tern-slow 2>/dev/null && "
                             "ip netns exec tern-slow ip link set lo up 2>/dev/null && "
                             "ip netns exec tern-slow tc qdisc replace dev lo root tbf rate 100mbit burst 512kb "
                             "latency 400ms 2>/dev/null";
    if (std::system(made) != 0) return false;
    std::atexit([] { static_cast<void>(std::system("ip netns del tern-slow 2>/dev/null")); });
    return true;
  }();
  if (!there) throw absent("a network name space with tc (root, iproute2)");
  return {.ranks = 4,
          .before = {"ip", "netns", "exec", "tern-slow"},
          .options = {"--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"}};
}

series exchange(const words& arguments, bool slow = false) {
  return series([=] {
#ifndef BENCH_HAS_FFTW
    if (arguments.front() == "fft") throw absent("FFTW with MPI");
#endif
    if (!slow)
      return run_tern_ranks(mpi::open_mpi, command_line(BENCH_GLOBAL_EXCHANGE, arguments), spinning::chosen, {},
                            {.ranks = 4});
    return run_tern_ranks(mpi::open_mpi, command_line(BENCH_GLOBAL_EXCHANGE, arguments), spinning::chosen,
                          {{"TERN_MPI_RINGS", "off"}}, slow_network()); // else shared memory carries everything
  });
}
series exchange_by_mpi(const words& arguments) {
  return series([=] {
    if (std::string(BENCH_GLOBAL_EXCHANGE_MPI).empty()) throw absent("Open MPI");
    return run_rival_ranks(mpi::open_mpi, command_line(BENCH_GLOBAL_EXCHANGE_MPI, arguments), rival_settings::defaults,
                           {.ranks = 4});
  });
}

void add_exchanges(metrics& all, const scale& of) {
  const std::string bytes = of("4194304", "65536"), time = of("0.5", "0.01");
  const series wires = exchange({"wire", "-", bytes, "0"});
  for (const int rate : {4, 8, 16, 24}) // both ways: no more, and no less, than 1 % beside it
    all.push_back({.name = "global.wire.rate" + std::to_string(rate),
                   .unit = "of the bytes",
                   .target = 1.01,
                   .rival_name = "rate/32",
                   .ours = wires[std::to_string(rate)],
                   .rival = budget(rate / 32.0),
                   .once = true});
  all.push_back({.name = "global.alltoall",
                 .unit = "ms",
                 .target = 1.05,
                 .rival_name = "MPI_Alltoall",
                 .ours = exchange({"all", "none", bytes, time})["ms"],
                 .rival = exchange_by_mpi({"all", bytes, time})["ms"]});
  all.push_back({.name = "global.alltoall.auto",
                 .unit = "ms",
                 .target = 1.05,
                 .rival_name = "codec none",
                 .ours = exchange({"all", "auto", bytes, time})["ms"],
                 .rival = exchange({"all", "none", bytes, time})["ms"]});
  for (const auto& [rate, target] : {std::pair("4", 0.25), std::pair("8", 0.40)})
    all.push_back({.name = std::string("global.alltoall.slow.rate") + rate,
                   .unit = "ms",
                   .target = target,
                   .rival_name = "codec none",
                   .ours = exchange({"all", std::string("zfp:rate=") + rate, bytes, "0"}, true)["ms"],
                   .rival = exchange({"all", "none", bytes, "0"}, true)["ms"],
                   .once = true});
  const std::string n = of("128", "16");
  all.push_back({.name = "global.fft",
                 .unit = "ms",
                 .target = 1.05,
                 .rival_name = "FFTW-MPI",
                 .ours = exchange({"fft", "none", n, time})["ms"],
                 .rival = exchange_by_mpi({"fft", n, time})["ms"]});
}

metrics all_lines(const scale& of) {
  metrics all;
  add_arguments(all, of);
  add_delay(all, of);
  add_puts(all, of);
  add_devices(all);
  add_keep(all, of);
  add_move(all);
  add_halo(all);
  add_exchanges(all, of);
  return all;
}

} // namespace

int main(int argc, char** argv) {
  forget_settings();
  return run(argc, argv, all_lines);
}
