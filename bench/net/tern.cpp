// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tern's contestant of `bench_net`: what raw.cpp does with sends and receives, with messages that
/// run handlers.
///
///     bench_net_tern latency SIZE,… SECONDS      microseconds for half a round trip, for each size
///     bench_net_tern bandwidth SIZE,… SECONDS    GB/s, for each size
///     bench_net_tern stream SECONDS              millions of 8-byte messages a second
///     bench_net_tern call SECONDS                microseconds for a round trip: call with a future, and two sends
///     bench_net_tern idle SECONDS                percent of a core that the busier rank used, doing nothing
///     bench_net_tern first COUNT                 microseconds until a message's handler runs, after 1 s of rest
///     bench_net_tern busy COUNT                  while the other rank's worker computes, milliseconds until it has
///                                                received 1 MiB, and until the runtime there has answered
///     bench_net_tern exchange COUNT              COUNT round trips, a stream of COUNT, then the same again, counted
///
/// SECONDS: for each size. Rank 0 prints one JSON object.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include <tern/net/buffer.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>

#include "bench/net/contestant.hpp"

/// How often this process has allocated memory; only where count.cpp is linked.
[[gnu::weak]] std::uint64_t allocations_so_far();

namespace {

using namespace tern::bench;
using namespace tern::bench::net;
using bytes = std::span<const std::byte>;

// Ranks may be threads of one process here: what stands under a rank's name is that rank's alone.
struct {
  long left = 0;                       // round trips
  tern::promise<void>* done = nullptr; // of what the main fiber waits for
} rank0;
struct {
  std::uint64_t wanted = 0, got = 0, sum = 0;
} rank1;

/// What is sent, on both ranks: of the size that came last.
auto payload = std::make_shared<std::vector<std::byte>>();

void size_payload(std::size_t size) {
  if (payload->size() == size) return;
  payload = std::make_shared<std::vector<std::byte>>(size);
  for (std::size_t i = 0; i < size; ++i) (*payload)[i] = static_cast<std::byte>(i * 7 + i / 256);
}

// Small messages are a value, larger ones a view of the program's memory.
template <std::size_t N> using block = std::array<std::byte, N>;

template <std::size_t N> void ping(const block<N>& data);
template <std::size_t N> void pong(const block<N>& data) {
  if (--rank0.left > 0)
    tern::send<&ping<N>>(1, data);
  else
    rank0.done->set_value();
}
template <std::size_t N> void ping(const block<N>& data) { tern::send<&pong<N>>(0, data); }

void ping_bytes(bytes data);
void pong_bytes(bytes) {
  if (--rank0.left > 0)
    tern::send<&ping_bytes>(1, tern::lend(payload));
  else
    rank0.done->set_value();
}
void ping_bytes(bytes data) {
  size_payload(data.size());
  tern::send<&pong_bytes>(0, tern::lend(payload));
}

void acknowledge() { rank0.done->set_value(); }

void take(std::size_t size) {
  if (++rank1.got < window(size)) return;
  rank1.got = 0;
  tern::send<&acknowledge>(0);
}
template <std::size_t N> void take_block(const block<N>&) { take(N); }
void take_bytes(bytes data) { take(data.size()); }

void count(std::uint64_t x) {
  rank1.sum += x;
  if (++rank1.got < rank1.wanted) return;
  if (rank1.sum != rank1.wanted * (rank1.wanted - 1) / 2) throw std::runtime_error("the stream brought wrong numbers");
  tern::send<&acknowledge>(0);
}
void expect(std::uint64_t n) { rank1 = {n, 0, 0}; }

std::uint64_t echo(std::uint64_t x) { return x; }

std::uint64_t checksum(bytes data) {
  std::uint64_t sum = data.size();
  for (const std::byte b : data) sum = sum * 31 + static_cast<std::uint64_t>(b);
  return sum;
}

double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto s = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); };
  return s(used.ru_utime) + s(used.ru_stime);
}
double since(double began) { return seconds() - began; } // one host: ranks have a clock in common
std::uint64_t allocations() { return &allocations_so_far ? allocations_so_far() : 0; }

// What `start` begins, until the other rank has ended it.
template <class F> double until_done(F start) {
  tern::promise<void> done;
  auto end = done.get_future();
  rank0.done = &done;
  const double began = seconds();
  start();
  end.get();
  return seconds() - began;
}

// Calls `with` with a constant for the sizes that travel as values. \return whether it is one.
template <class F> bool as_block(std::size_t size, F with) {
  const auto one = [&]<std::size_t N>(std::integral_constant<std::size_t, N> n) {
    if (size != N) return false;
    with(n);
    return true;
  };
  return one(std::integral_constant<std::size_t, 8>{}) || one(std::integral_constant<std::size_t, 16>{}) ||
         one(std::integral_constant<std::size_t, 32>{}) || one(std::integral_constant<std::size_t, 64>{});
}

double round_trips(std::size_t size, long n) {
  rank0.left = n;
  return until_done([&] {
    if (as_block(size, [](auto constant) { tern::send<&ping<constant()>>(1, block<constant()>{}); })) return;
    tern::send<&ping_bytes>(1, tern::lend(payload));
  });
}

double windows(std::size_t size, long n) {
  double all = 0;
  for (long i = 0; i < n; ++i)
    all += until_done([&] {
      for (std::size_t k = window(size); k > 0; --k) {
        if (as_block(size, [](auto constant) { tern::send<&take_block<constant()>>(1, block<constant()>{}); }))
          continue;
        tern::send<&take_bytes>(1, tern::lend(payload));
      }
    });
  return all;
}

double stream(long n) {
  tern::call<&expect>(1, static_cast<std::uint64_t>(n)).get();
  return until_done([&] {
    for (long i = 0; i < n; ++i) {
      tern::send<&count>(1, static_cast<std::uint64_t>(i));
      if (i % static_cast<long>(burst) == static_cast<long>(burst) - 1) tern::this_fiber::yield();
    }
  });
}

double calls(long n) {
  const double began = seconds();
  for (long i = 0; i < n; ++i)
    if (tern::call<&echo>(1, static_cast<std::uint64_t>(i)).get() != static_cast<std::uint64_t>(i))
      throw std::runtime_error("a call brought a wrong number");
  return seconds() - began;
}

void prepare(std::size_t size) {
  size_payload(size);
  if (tern::call<&checksum>(1, *payload).get() != checksum(*payload))
    throw std::runtime_error("a message of " + std::to_string(size) + " bytes arrived changed");
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

nlohmann::json call_and_sends(double most) {
  std::vector<double> with_future, bare;
  const int turns = 10;
  for (int i = 0; i < turns; ++i) {
    with_future.push_back(per_item(most / turns / 2, latency_batch, 1, calls) * 1e6);
    bare.push_back(per_item(most / turns / 2, latency_batch, 1, [](long n) { return round_trips(8, n); }) * 1e6);
  }
  return {{"call", median(with_future)}, {"sends", median(bare)}};
}

nlohmann::json idle(double duration) {
  const double other = tern::call<&processor_seconds>(1).get(), own = processor_seconds();
  const double began = seconds();
  tern::this_fiber::sleep_for(std::chrono::duration<double>(duration));
  const double own_used = processor_seconds() - own, taken = seconds() - began;
  const double other_used = tern::call<&processor_seconds>(1).get() - other;
  return {{"percent", 100 * std::max(own_used, other_used) / taken}};
}

nlohmann::json first(long n) {
  std::vector<double> found;
  for (long i = 0; i < n; ++i) {
    tern::this_fiber::sleep_for(std::chrono::seconds(1));
    found.push_back(tern::call<&since>(1, seconds()).get() * 1e6);
  }
  return {{"first", median(found)}, {"each", found}};
}

constexpr int requests_of_one = 9;
std::atomic<int> requests_left{0};

/// Until the last request has come, which its own worker does not take.
void compute() {
  requests_left = requests_of_one;
  tern::send<&acknowledge>(0);
  while (requests_left > 0) {
  }
}
void drop_bytes(bytes) {}
struct request_tag {};
// As the runtime's own requests: answered where messages arrive, whatever the workers do.
const tern::net::handler_record request{
    typeid(request_tag), "bench request", __FILE__,
    [](tern::net::node& here, int source, const tern::net::wire_header& h, tern::net::payload&) {
      --requests_left;
      tern::net::detail::post_answer(here, source, h.reply);
      here.message_done(h);
    },
    true};

nlohmann::json busy(long n) {
  size_payload(1 << 20);
  std::vector<double> received, answered;
  for (long i = 0; i < n; ++i) {
    tern::future<void> computed;
    until_done([&] { computed = tern::call<&compute>(1); }); // it has begun
    for (int k = 0; k < requests_of_one; ++k) {
      double began = seconds();
      tern::send<&drop_bytes>(1, tern::lend(*payload)); // returns when all of it is there
      received.push_back((seconds() - began) * 1e3);
      tern::this_fiber::sleep_for(std::chrono::milliseconds(20)); // at different moments
      began = seconds();
      auto& here = tern::net::node::here();
      tern::net::detail::post_call<void>(here, 1, [&](std::uint64_t number) {
        tern::net::detail::post_packed(here, 1, {request.id(), 0, number}, {.urgent = true});
      }).get();
      answered.push_back((seconds() - began) * 1e3);
      tern::this_fiber::sleep_for(std::chrono::milliseconds(20));
    }
    computed.get();
  }
  return {{"received", median(received)}, {"answered", median(answered)}};
}

nlohmann::json exchange(long n) {
  const auto once = [n] {
    round_trips(8, n);
    stream(n);
  };
  once();
  const std::uint64_t before = tern::call<&allocations>(1).get() + allocations();
  once();
  const std::uint64_t made = tern::call<&allocations>(1).get() + allocations() - before;
  return {{"messages", 3 * n}, {"allocations", made}};
}

nlohmann::json sizes(const std::string& what, const std::string& list, double most) {
  nlohmann::json found;
  for (const std::size_t size : list_of(list)) {
    prepare(size);
    if (what == "latency") {
      const auto batch = [&](long n) { return round_trips(size, n); };
      found[std::to_string(size)] = per_item(most, latency_batch, 1, batch) / 2 * 1e6;
    } else {
      const double each = per_item(most, latency_batch, 1, [&](long n) { return windows(size, n); });
      found[std::to_string(size)] = static_cast<double>(size * window(size)) / each / 1e9;
    }
  }
  return found;
}

nlohmann::json measure(const std::string& what, const std::string& list, const std::string& amount) {
  const double most = std::atof(amount.c_str());
  if (what == "latency" || what == "bandwidth") return sizes(what, list, most);
  if (what == "stream") return {{"stream", 1e-6 / per_item(most, stream_batch, 1024, stream)}};
  if (what == "call") return call_and_sends(most);
  if (what == "idle") return idle(most);
  if (what == "first") return first(std::atol(amount.c_str()));
  if (what == "busy") return busy(std::atol(amount.c_str()));
  if (what == "exchange") return exchange(std::atol(amount.c_str()));
  throw std::runtime_error("no measurement is called " + what);
}

} // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 3) throw std::runtime_error("usage: bench_net_tern KIND [SIZE,…] AMOUNT");
    const std::string what = argv[1], list = argv[2], amount = argv[argc - 1];
    if (what != "idle" && what != "first" && what != "busy") bind_to_core(); // those as a user finds them
    return tern::run(argc, argv, [&] {
      if (tern::size() != 2) throw std::runtime_error("start two ranks");
      if (tern::rank() == 0) std::printf("%s\n", measure(what, list, amount).dump().c_str());
      tern::barrier(); // rank 1 waits here meanwhile
      std::fflush(stdout);
    });
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_net_tern: %s\n", e.what());
    return 1;
  }
}
