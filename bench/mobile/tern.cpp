// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tern's contestant of `bench_mobile`.
///
///     bench_mobile_tern rounds SECONDS             two ranks: microseconds for half a round trip of a small message
///                                                  between objects, and for a large object to move there and back
///     bench_mobile_tern many OBJECTS ROUNDS        two ranks: nanoseconds for each object to be made, used and
///                                                  destroyed, half of them by the other rank
///     bench_mobile_tern local SECONDS              one rank: nanoseconds for an invocation, and for a message
///     bench_mobile_tern lookup OBJECTS SECONDS     one rank of four workers: nanoseconds for a look-up
///
///     bench_mobile_tern table OBJECTS SECONDS      the same, in what the directory consists of
///
///     bench_mobile_tern memory OBJECTS             one rank: bytes of each object beyond its data
///
///     bench_mobile_tern moved OBJECTS              two ranks in one process: the same of those that have moved
///
///     bench_mobile_tern disk OBJECTS ROUNDS        one rank of two workers, with --tern-mobile-memory
///
///     bench_mobile_tern element SECONDS            one rank: nanoseconds for an invocation of an array's element
///
///     bench_mobile_tern array ELEMENTS ROUNDS      two ranks: nanoseconds for each element of a broadcast and of a
///                                                  reduction
///     bench_mobile_tern arrays ELEMENTS ROUNDS     two ranks: the same for an array to be made, used and destroyed
///
///     bench_mobile_tern array_memory ELEMENTS      one rank: bytes of each element beyond its data
///
///     bench_mobile_tern events SECONDS             one rank: nanoseconds for each signal of an event, and for an
///                                                  invocation
///     bench_mobile_tern together OBJECTS SECONDS   one rank: nanoseconds for a function over so many objects that are
///                                                  here, and for three invocations of each
///     bench_mobile_tern together_remote ROUNDS     two ranks: microseconds for one over two objects
///     bench_mobile_tern together_messages OBJECTS  messages for one on a rank alone
///     bench_mobile_tern save MIB FOLDER            two ranks: MiB/s of a checkpoint
///     bench_mobile_tern go_on MIB                  two ranks with --tern-restart: the same of reading it
///
///     bench_mobile_tern protect RANKS              steps of a simulated job with copies and without
///     bench_mobile_tern recover RANKS              to go on after a simulated death, and a copy
///     bench_mobile_tern hops MOST                  for senders that have missed 1 … MOST moves, the messages
///
/// SECONDS: for each. Rank 0 prints one JSON object.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <tern/mobile/object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/future.hpp>

#include "bench/mobile/contestant.hpp"
#include "bench/mobile/measures.hpp"

namespace {

using namespace tern::bench;
using namespace tern::bench::mobile;
using tern::mobile_ptr;

long tell(long n) { return tern::broadcast(n); }

template <class Repeat> double on_rank_0(double most, Repeat repeat) {
  return measured(tern::rank(), most, tell, [&](long n) { return tern::rank() == 0 ? repeat(n) : 0.0; });
}

// Rank 0's.
struct {
  long left = 0;
  tern::promise<void>* done = nullptr;
} rally;

using block = std::array<std::byte, message_bytes>;

/// One on each rank; rank 0's has the other begin again.
class player {
public:
  player() = default;
  explicit player(mobile_ptr<player> other) : other_(other) {}
  void meet(mobile_ptr<player> other) { other_ = other; }
  void ping(const block& ball) { tern::send<&player::pong>(other_, ball); }
  void pong(const block& ball) {
    if (--rally.left > 0)
      tern::send<&player::ping>(other_, ball);
    else
      rally.done->set_value();
  }

private:
  mobile_ptr<player> other_;
};

double remote(double most) {
  mobile_ptr<player> one, other;
  if (tern::rank() == 0) {
    one = tern::create<player>();
    other = tern::create_on<player>(1, one).get();
    tern::call<&player::meet>(one, other).get();
  }
  return on_rank_0(most,
                   [&](long n) {
                     tern::promise<void> done;
                     auto end = done.get_future();
                     rally = {n, &done};
                     return timed(1, [&](long) {
                       tern::send<&player::ping>(other, block{});
                       end.get();
                     });
                   }) /
         2;
}

struct cargo {
  std::vector<char> data;
  template <class A> void serialize(A& ar) { ar(data); }
  void fill(std::size_t bytes) { data.assign(bytes, 'x'); }
  bool whole() const { return data == std::vector<char>(cargo_bytes, 'x'); }
};

double migration(double most) {
  mobile_ptr<cargo> object;
  if (tern::rank() == 0) {
    object = tern::create<cargo>();
    tern::call<&cargo::fill>(object, cargo_bytes).get();
  }
  const double each = on_rank_0(most, [&](long n) {
    return timed(n, [&](long) {
      tern::migrate(object, 1).get();
      tern::migrate(object, 0).get();
    });
  });
  if (tern::rank() == 0) {
    check(tern::is_here(object) && tern::call<&cargo::whole>(object).get(), "a migration");
    tern::destroy(object).get();
  }
  return each;
}

struct item {
  std::uint64_t used = 0;
  void use() { ++used; }
};

/// So many results are awaited at a time.
template <class Result> class window {
public:
  /// \return what was put in long ago; an empty one for the first ones.
  tern::future<Result> exchange(tern::future<Result> one) {
    return std::exchange(open_[at_++ % open_.size()], std::move(one));
  }

private:
  std::array<tern::future<Result>, 256> open_;
  std::size_t at_ = 0;
};

struct phases {
  double create = 0, use = 0, destroy = 0;
};

/// Each rank makes half of the objects, every second one of them on the other rank, uses them and
/// destroys them.
void live(std::size_t objects, phases& taken) {
  const std::size_t mine = objects / 2;
  const int other = 1 - tern::rank();
  std::vector<mobile_ptr<item>> all;
  all.reserve(mine);
  tern::barrier();
  const double began = seconds();
  {
    window<mobile_ptr<item>> open;
    const auto keep = [&](tern::future<mobile_ptr<item>> made) {
      if (made.valid()) all.push_back(made.get());
    };
    for (std::size_t i = 0; i < mine; i += 2) {
      all.push_back(tern::create<item>());
      keep(open.exchange(tern::create_on<item>(other)));
    }
    while (all.size() < mine) keep(open.exchange({}));
  }
  tern::barrier();
  const double made = seconds();
  for (const auto& one : all) tern::send<&item::use>(one);
  tern::quiesce();
  const double used = seconds();
  {
    window<void> open;
    const auto await = [](tern::future<void> gone) {
      if (gone.valid()) gone.get();
    };
    for (const auto& one : all) await(open.exchange(tern::destroy(one)));
    for (int i = 0; i < 256; ++i) await(open.exchange({}));
  }
  tern::barrier();
  taken.create += made - began;
  taken.use += used - made;
  taken.destroy += seconds() - used;
}

nlohmann::json many(std::size_t objects, long rounds) {
  if (objects == 0 || objects % 4 != 0) throw std::runtime_error("OBJECTS is a multiple of 4");
  phases taken;
  for (long i = 0; i < rounds; ++i) live(objects, taken); // warm-up
  taken = {};
  for (long i = 0; i < rounds; ++i) live(objects, taken);
  check(tern::mobile::directory::here().size() == 0, "destroying objects");
  const double each = 1e9 / static_cast<double>(objects) / static_cast<double>(rounds);
  return {{"create", taken.create * each},
          {"use", taken.use * each},
          {"destroy", taken.destroy * each},
          {"all", (taken.create + taken.use + taken.destroy) * each}};
}

nlohmann::json rounds(double most) {
  nlohmann::json found;
  found["remote"] = remote(most);
  found["migration"] = migration(most);
  return found;
}

nlohmann::json measure(const std::string& what, const std::string& first, const std::string& second) {
  const auto need = [&](int ranks, int workers) {
    if (tern::size() != ranks) throw std::runtime_error("start " + std::to_string(ranks) + " ranks");
    if (tern::net::node::here().fibers().workers() != workers)
      throw std::runtime_error("start each with " + std::to_string(workers) + " workers");
  };
  const double most = std::atof(first.c_str()), most_after = std::atof(second.c_str());
  const auto objects = static_cast<std::size_t>(std::atol(first.c_str()));
  if (what == "rounds") return need(2, 1), rounds(most);
  if (what == "many") return need(2, 1), many(objects, std::atol(second.c_str()));
  if (what == "local") return need(1, 1), local(most);
  if (what == "lookup") return need(1, threads), lookup(objects, most_after);
  if (what == "table") return need(1, threads), table(objects, most_after);
  if (what == "memory") return need(1, 1), memory(objects);
  if (what == "disk") return need(1, 2), disk(objects, std::atol(second.c_str()));
  if (what == "save") return need(2, 1), save(objects, second);
  if (what == "go_on") return need(2, 1), go_on(objects);
  if (what == "moved") return need(2, 1), moved(objects);
  if (what == "element") return need(1, 1), element(most);
  if (what == "array") return need(2, 1), array(objects, std::atol(second.c_str()));
  if (what == "arrays") return need(2, 1), arrays(objects, std::atol(second.c_str()));
  if (what == "together") return need(1, 1), together(objects, most_after);
  if (what == "together_remote") return need(2, 1), together_remote(static_cast<long>(objects));
  if (what == "array_memory") return need(1, 1), array_memory(objects);
  if (what == "events") return need(1, 1), events(most);
  throw std::runtime_error("no measurement is called " + what);
}

} // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 3) throw std::runtime_error("usage: bench_mobile_tern KIND AMOUNT [AMOUNT]");
    const std::string what = argv[1], first = argv[2], second = argc > 3 ? argv[3] : "0";
    if (what == "hops") {
      std::printf("%s\n", hops(std::atoi(first.c_str())).dump().c_str());
      return 0;
    }
    if (what == "protect" || what == "recover") {
      const int ranks = std::atoi(first.c_str());
      std::printf("%s\n", (what == "protect" ? protect_cost(ranks) : recover(ranks)).dump().c_str());
      return 0;
    }
    if (what == "together_messages") {
      std::printf("%s\n", together_messages(static_cast<std::size_t>(std::atol(first.c_str()))).dump().c_str());
      return 0;
    }
    bind_to_core();
    return tern::run(argc, argv, [&] {
      const nlohmann::json found = measure(what, first, second);
      if (tern::rank() == 0) std::printf("%s\n", found.dump().c_str());
      std::fflush(stdout);
    });
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_mobile_tern: %s\n", e.what());
    return 1;
  }
}
