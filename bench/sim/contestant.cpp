// SPDX-License-Identifier: Apache-2.0
/// \file
/// One measurement of the simulator, in a process of its own: memory and caches are as at a
/// program's start.
///
///     bench_sim_tern messages RANKS MILLIONS FILE     handlers that send on to random ranks
///     bench_sim_tern idle RANKS FILE                  memory of ranks that wait
///     bench_sim_tern start RANKS FILE                 from the program's start to a barrier's end
///     bench_sim_tern pingpong BYTES FILE              virtual time against the model's closed form
///     bench_sim_tern alltoall RANKS WORLD FILE        the same

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <tern/base/clock.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>
#include <tern/net/simulate.hpp>
#include <tern/task/fiber.hpp>

namespace {

// All ranks live on this thread: plain variables are common to them.
std::uint64_t left = 0, state = 1;
int width = 1;

std::uint32_t chance() {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return static_cast<std::uint32_t>(state >> 33);
}

void hop(std::uint64_t payload) {
  if (left == 0) return;
  --left;
  const int next = (tern::rank() + 1 + static_cast<int>(chance() % 64u)) % width;
  tern::send<&hop>(next, payload + 1);
}

double resident_kib() {
  std::ifstream file("/proc/self/statm");
  long all = 0, resident = 0;
  file >> all >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1024;
}

double peak_gib() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_maxrss) / (1024.0 * 1024);
}

tern::sim::world world_of(int ranks, const std::string& text = {}) {
  tern::sim::world w;
  w.ranks = ranks;
  return tern::sim::parse_world(text, w);
}

nlohmann::json messages(int ranks, double millions) {
  left = static_cast<std::uint64_t>(millions * 1e6);
  width = ranks;
  const std::uint64_t all = left;
  double seconds = 0;
  const auto o = tern::sim::run(world_of(ranks), [&] {
    tern::barrier();
    const double began = tern::steady_seconds();
    for (int i = 0; i < 4; ++i) hop(0); // four on their way for each rank
    tern::quiesce();
    seconds = tern::steady_seconds() - began;
    return 0;
  });
  return {{"rate", static_cast<double>(all) / seconds / 1e6}, {"hash", o.trace_hash}};
}

nlohmann::json idle(int ranks) {
  const double before = resident_kib();
  double after = 0;
  tern::sim::run(world_of(ranks), [&] {
    tern::barrier();
    if (tern::rank() == 0) after = resident_kib(); // the others wait in the next one
    tern::barrier();
    return 0;
  });
  return {{"kib", (after - before) / ranks}};
}

nlohmann::json start(int ranks) {
  const double began = tern::steady_seconds();
  double there = 0;
  tern::sim::run(world_of(ranks), [&] {
    tern::barrier();
    if (tern::rank() == ranks - 1) there = tern::steady_seconds();
    return 0;
  });
  return {{"seconds", there - began}, {"gib", peak_gib()}};
}

using clock = tern::fiber_clock;
double since(clock::time_point t) { return std::chrono::duration<double>(clock::now() - t).count(); }

constexpr int rounds = 1000;
void pong(const std::vector<char>& data, int hops);
void pong(const std::vector<char>& data, int hops) {
  if (hops > 0) tern::send<&pong>(1 - tern::rank(), data, hops - 1);
}

// Steps of a nanosecond and no jitter: what is left is the model.
const std::string exact = "step=1ns,jitter=0";

nlohmann::json pingpong(std::size_t bytes) {
  const auto w = world_of(2, exact);
  double seconds = 0;
  std::uint64_t before = 0;
  const auto measure = [&](int hops) {
    return tern::sim::run(w, [&, hops] {
      const std::vector<char> data(bytes);
      const auto began = clock::now();
      if (tern::rank() == 0) tern::send<&pong>(1, data, hops);
      tern::quiesce();
      if (tern::rank() == 0) seconds = since(began);
      return 0;
    });
  };
  // The difference of two lengths: what begins and ends the job is the same in both.
  const auto shorter = measure(rounds);
  const double first = seconds;
  before = shorter.bytes;
  const auto longer = measure(2 * rounds);
  const double half_trip = (seconds - first) / rounds;
  const double size = static_cast<double>(longer.bytes - before) / static_cast<double>(rounds);
  const auto& n = w.network;
  return {{"measured", half_trip}, {"model", 2 * n.overhead + n.latency + (size - 1) / n.bandwidth}};
}

int arrived = 0;
clock::time_point last_arrival;
void take(std::uint64_t) {
  ++arrived;
  last_arrival = std::max(last_arrival, clock::now());
}

nlohmann::json alltoall(int ranks, const std::string& text) {
  const auto w = world_of(ranks, exact + (text.empty() ? "" : "," + text));
  const clock::time_point begin{std::chrono::milliseconds(100)}; // all are there by then
  double size = 0;
  tern::sim::run(w, [&] {
    tern::barrier();
    tern::this_fiber::sleep_until(begin);
    for (int i = 1; i < ranks; ++i) tern::send<&take>((tern::rank() + i) % ranks, std::uint64_t{0});
    tern::this_fiber::sleep_for(std::chrono::milliseconds(100)); // nothing else shall be under way
    tern::quiesce();
    return 0;
  });
  if (arrived != ranks * (ranks - 1)) throw std::runtime_error("messages are missing");
  size = static_cast<double>(sizeof(tern::net::wire_header) + sizeof(std::uint64_t));
  const auto& n = w.network;
  const double p = ranks, o = n.overhead, transfer = (size - 1) / n.bandwidth,
               each = std::max({o, n.gap, size / n.bandwidth});
  // A rank sends all its messages, then takes what has arrived: the worker is busy with 2 (P-1) o,
  // unless the last message is later, which its sender's card lets go after P-2 others.
  const double model = std::max(2 * (p - 1) * o, o + (p - 2) * each + n.latency + transfer + o);
  return {{"measured", std::chrono::duration<double>(last_arrival - begin).count()}, {"model", model}};
}

} // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 4) throw std::runtime_error("usage: bench_sim_tern KIND ARGUMENT… FILE");
    const std::string kind = argv[1];
    nlohmann::json found;
    if (kind == "messages")
      found = messages(std::atoi(argv[2]), std::atof(argv[3]));
    else if (kind == "idle")
      found = idle(std::atoi(argv[2]));
    else if (kind == "start")
      found = start(std::atoi(argv[2]));
    else if (kind == "pingpong")
      found = pingpong(static_cast<std::size_t>(std::atoll(argv[2])));
    else if (kind == "alltoall")
      found = alltoall(std::atoi(argv[2]), argc > 4 ? argv[3] : "");
    else
      throw std::runtime_error("no measurement is called " + kind);
    std::ofstream(argv[argc - 1]) << found << '\n';
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_sim_tern: %s\n", e.what());
    return 1;
  }
}
