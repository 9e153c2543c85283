// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tern's contestant of `bench_collectives`, for two ranks.
///
///     bench_collectives_tern rounds SECONDS      microseconds for one of each operation
///     bench_collectives_tern many SECONDS        microseconds for 64 allreduces, in sequence and of as many fibers at
///                                                once
///     bench_collectives_tern quiesce SECONDS     microseconds for `quiesce` after a message, and for half a round trip
///     bench_collectives_tern epochs SECONDS      microseconds for a message of a stream, of an epoch or none; for a
///                                                call, and for `finish` of one message
///     bench_collectives_tern simulated           for any number of simulated ranks, virtual microseconds for `quiesce`
///                                                and for half a round trip
///
/// SECONDS: for each operation. Rank 0 prints one JSON object.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <tern/net/buffer.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/epoch.hpp>
#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>

#include "bench/collectives/contestant.hpp"

namespace {

using namespace tern::bench;
using namespace tern::bench::collectives;

constexpr int many = 64; // fibers

long tell(long n) { return tern::broadcast(n); }

template <class Repeat> double each(double most, Repeat repeat) { return measured(tern::rank(), most, tell, repeat); }

double barrier(long n) {
  const auto all = tern::communicator::world();
  return timed(n, [&](long) { all.barrier(); });
}

double allreduce(const tern::communicator& all, long n) {
  double sum = 0;
  const double taken = timed(n, [&](long) { sum = all.allreduce(1.0, std::plus<>()); });
  check(sum == 2, "allreduce");
  return taken;
}

// Arrays, as a program has them that did not think of messages, and as one that did: those arrive
// without a copy.
using vector = std::vector<std::byte>;
using buffer = tern::buffer<std::byte>;
template <class Array> Array filled(std::size_t bytes, std::byte with) { return Array(vector(bytes, with)); }

// The roots take turns: none can run ahead of the other rank.
template <class Array> double broadcast(double most) {
  const auto all = tern::communicator::world();
  auto data = filled<Array>(broadcast_bytes, std::byte{1});
  return each(most, [&](long n) {
    const double taken = timed(n, [&](long i) { data = all.broadcast(std::move(data), static_cast<int>(i % 2)); });
    check(data.size() == broadcast_bytes && data[broadcast_bytes - 1] == std::byte{1}, "broadcast");
    return taken;
  });
}

// What a rank gives is its own again afterwards, as one of the results.
template <class Array> double allgather(double most) {
  const auto all = tern::communicator::world();
  const auto me = static_cast<std::size_t>(all.rank());
  auto mine = filled<Array>(allgather_bytes, static_cast<std::byte>(me + 1));
  return each(most, [&](long n) {
    std::vector<Array> found;
    const double taken = timed(n, [&](long) {
      found = all.allgather(std::move(mine));
      mine = std::move(found[me]);
    });
    const Array& other = found[1 - me];
    check(other.size() == allgather_bytes && other[allgather_bytes - 1] == static_cast<std::byte>(2 - me), "allgather");
    return taken;
  });
}

template <class Array> std::vector<Array> parts_of(std::size_t rank) {
  std::vector<Array> parts;
  for (int i = 0; i < 2; ++i) parts.push_back(filled<Array>(alltoall_bytes / 2, static_cast<std::byte>(rank + 1)));
  return parts;
}

// Always of the same memory, as the rival.
template <class Array> double alltoall(double most) {
  const auto all = tern::communicator::world();
  const auto me = static_cast<std::size_t>(all.rank());
  const auto parts = parts_of<Array>(me);
  std::vector<Array> found;
  return each(most, [&](long n) {
    const double taken = timed(n, [&](long) { found = all.alltoall(parts); });
    check(found[1 - me].size() == alltoall_bytes / 2 && found[1 - me][0] == static_cast<std::byte>(2 - me) &&
              found[me][0] == static_cast<std::byte>(me + 1),
          "alltoall");
    return taken;
  });
}

// Each part goes back to the rank that it came from.
template <class Array> double alltoall_back(double most) {
  const auto all = tern::communicator::world();
  const auto me = static_cast<std::size_t>(all.rank());
  auto parts = parts_of<Array>(me);
  return each(most, [&](long n) {
    const double taken = timed(n, [&](long) { parts = all.alltoall(std::move(parts)); });
    check(parts[1 - me].size() == alltoall_bytes / 2 && parts[me][0] == static_cast<std::byte>(me + 1), "alltoall");
    return taken;
  });
}

nlohmann::json rounds(double most) {
  nlohmann::json found;
  const auto world = tern::communicator::world();
  found["barrier"] = each(most, barrier);
  found["allreduce"] = each(most, [&](long n) { return allreduce(world, n); });
  found["broadcast"] = broadcast<buffer>(most);
  found["allgather"] = allgather<buffer>(most);
  found["alltoall"] = alltoall<buffer>(most);
  found["alltoall_back"] = alltoall_back<buffer>(most);
  found["broadcast.vector"] = broadcast<vector>(most);
  found["allgather.vector"] = allgather<vector>(most);
  found["alltoall.vector"] = alltoall<vector>(most);
  found["alltoall_back.vector"] = alltoall_back<vector>(most);
  return found;
}

double in_sequence(long n) {
  const auto all = tern::communicator::world();
  double taken = 0;
  for (int i = 0; i < many; ++i) taken += allreduce(all, n);
  return taken;
}

// Each fiber does n, one after the other, on a communicator of its own. Starting them counts.
double at_once(const std::vector<tern::communicator>& apart, long n) {
  const double began = seconds();
  std::vector<tern::future<double>> fibers;
  fibers.reserve(apart.size());
  for (const auto& one : apart) fibers.push_back(tern::async([&one, n] { return allreduce(one, n); }));
  for (auto& one : fibers) one.get();
  return seconds() - began;
}

std::uint64_t echo(std::uint64_t x) { return x; }

// Both ranks share one clock and call it at the same moment, after a message and its answer have
// been handled.
double quiescence(long n) {
  const auto all = tern::communicator::world();
  double taken = 0;
  for (long i = 0; i < n; ++i) {
    if (all.rank() == 0) tern::call<&echo>(1, std::uint64_t{0}).get();
    const double begin = all.broadcast(seconds() + 4e-6);
    while (seconds() < begin) {
    }
    tern::quiesce();
    taken += seconds() - begin;
  }
  return taken;
}

// Of rank 0; and all ranks of a simulation live on one thread.
struct {
  long left = 0;
  tern::promise<void>* done = nullptr;
} trip;

void ping(std::uint64_t x);
void pong(std::uint64_t x) {
  if (--trip.left > 0)
    tern::send<&ping>(1, x);
  else
    trip.done->set_value();
}
void ping(std::uint64_t x) { tern::send<&pong>(0, x); }

void round_trips(long n) {
  tern::promise<void> done;
  auto end = done.get_future();
  trip = {n, &done};
  tern::send<&ping>(1, std::uint64_t{0});
  end.get();
}

// Of rank 0; rank 1 handles.
long taken_up = 0;
void take_up(int x) { taken_up += x; }

// A stream of n small messages, with or without an epoch, until the last has been handled.
double stream(bool of_epoch, long n) {
  if (tern::rank() != 0) return 0;
  const auto all = [n] {
    for (long i = 0; i < n; ++i) tern::send<&take_up>(1, 1);
  };
  const double began = seconds();
  if (of_epoch) {
    tern::finish(all);
  } else {
    all();
    tern::call<&echo>(1, std::uint64_t{0}).get(); // behind them
  }
  return seconds() - began;
}

nlohmann::json epochs(double most) {
  const auto rank_0 = [](long n, auto&& once) { return timed(tern::rank() == 0 ? n : 0, once); };
  nlohmann::json found;
  found["stream"] = each(most, [](long n) { return stream(false, n); });
  found["stream.epoch"] = each(most, [](long n) { return stream(true, n); });
  found["call"] = each(most, [&](long n) { return rank_0(n, [](long) { tern::call<&take_up>(1, 1).get(); }); });
  found["finish"] =
      each(most, [&](long n) { return rank_0(n, [](long) { tern::finish([] { tern::send<&take_up>(1, 1); }); }); });
  return found;
}

nlohmann::json many_at_once(double most) {
  nlohmann::json found;
  std::vector<tern::communicator> apart;
  const auto all = tern::communicator::world();
  for (int i = 0; i < many; ++i) apart.push_back(all.named("part " + std::to_string(i)));
  found["sequence"] = each(most, in_sequence);
  found["at_once"] = each(most, [&](long n) { return at_once(apart, n); });
  return found;
}

nlohmann::json quiesce(double most) {
  nlohmann::json found;
  found["quiesce"] = each(most, quiescence);
  const auto batch = [](long n) { return timed(tern::rank() == 0 ? 1 : 0, [n](long) { round_trips(n); }); };
  found["half_trip"] = each(most, batch) / 2;
  return found;
}

double since(tern::fiber_clock::time_point began) {
  return std::chrono::duration<double, std::micro>(tern::fiber_clock::now() - began).count();
}

// The longest of all ranks', which begin within a message's time of each other.
nlohmann::json simulated() {
  const auto all = tern::communicator::world();
  if (all.size() < 2) throw std::runtime_error("give the simulation two ranks or more");
  constexpr long trips = 100;
  double half_trip = 0;
  if (all.rank() == 0) {
    const auto began = tern::fiber_clock::now();
    round_trips(trips);
    half_trip = since(began) / trips / 2;
  }
  all.barrier();
  const int next = (all.rank() + 1) % all.size();
  check(tern::call<&echo>(next, std::uint64_t{7}).get() == 7, "a call");
  all.barrier();
  const auto began = tern::fiber_clock::now();
  tern::quiesce();
  const double longest = all.allreduce(since(began), [](double a, double b) { return std::max(a, b); });
  return {{"quiesce", longest}, {"half_trip", half_trip}};
}

nlohmann::json measure(const std::string& what, double most) {
  if (what == "simulated") return simulated();
  if (tern::size() != 2) throw std::runtime_error("start two ranks");
  if (what == "rounds") return rounds(most);
  if (what == "many") return many_at_once(most);
  if (what == "quiesce") return quiesce(most);
  if (what == "epochs") return epochs(most);
  throw std::runtime_error("no measurement is called " + what);
}

} // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 2)
      throw std::runtime_error("usage: bench_collectives_tern rounds|many|quiesce|epochs|simulated [SECONDS]");
    const std::string what = argv[1];
    const double most = argc > 2 ? std::atof(argv[2]) : 0;
    bind_to_core();
    return tern::run(argc, argv, [&] {
      const nlohmann::json found = measure(what, most);
      if (tern::rank() == 0) std::printf("%s\n", found.dump().c_str());
      std::fflush(stdout);
    });
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_collectives_tern: %s\n", e.what());
    return 1;
  }
}
