// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tern's contestant of `bench_global`: objects with copies on devices in messages.
///
///     bench_global_tern latency SIZE,… SECONDS    microseconds for half a round trip of an object, for each size
///     bench_global_tern delay - SECONDS           microseconds for half a round trip: of data that a task computes for 10 ms,
///                                                 until the handlers run; and of an empty message
///     bench_global_tern keep - SECONDS            nanoseconds for a task that an invocation submits;
///                                                 and for one that none does, and 15 more
///     bench_global_tern move BYTES -              seconds until a task runs on the other rank: of
///                                                 an object with so many bytes on a device, which
///                                                 moves; and of them as an argument. Virtual, if
///                                                 simulated
///     bench_global_tern put SIZE,… SECONDS        microseconds for half a round trip of puts into an
///                                                 object, for each size; and, as SIZE.done, until
///                                                 the rank that puts knows that the data are there
///     bench_global_tern staged SIZE,… -           virtual microseconds from the send of an object
///                                                 that a device has until a kernel of another rank
///                                                 has read it
///     bench_global_tern chain SIZE,… -            virtual microseconds of 100 kernels of 10 us on
///                                                 alternating ranks, each of which modifies what
///                                                 the one before has sent
///
/// The last two in a simulation, on simulated devices. SECONDS: for each size. Rank 0 prints one
/// JSON object.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <tern/base/clock.hpp>
#include <tern/global/pointer.hpp>
#include <tern/global/travel.hpp>
#include <tern/hetero/dialect.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>

#include "bench/harness/timing.hpp"

TERN_KERNELS_BEGIN(transfer_kernels)
TERN_KERNEL(touch, TERN_GLOBAL unsigned char* x) {
  TERN_REGION_IN(1, 1, 1) { x[item.x] += 1; };
}
TERN_KERNELS_END(transfer_kernels)
TERN_KERNELS_BEGIN(member_kernels)
TERN_KERNEL(touch, TERN_GLOBAL int* x) {
  TERN_REGION_IN(1, 1, 1) { x[item.x] += 1; };
}
TERN_KERNELS_END(member_kernels)

namespace {

using namespace tern::bench;
using object = tern::hetero_object<unsigned char>;

constexpr double batch = 1e-3; // seconds
constexpr int links_of_chain = 100;

/// A game of catch between two ranks, until rank 0 has had the object so many times.
struct game {
  long left = 0;
  tern::promise<void> over{};
};
const tern::rank_local<game> playing;

void catch_it(object x) {
  if (tern::rank() == 0 && --playing->left == 0) return playing->over.set_value();
  tern::send<&catch_it>(1 - tern::rank(), std::move(x));
}
void catch_nothing() {
  if (tern::rank() == 0 && --playing->left == 0) return playing->over.set_value();
  tern::send<&catch_nothing>(1 - tern::rank());
}
template <class Throw> double play(long rounds, Throw&& begin) {
  playing->left = rounds;
  playing->over = tern::promise<void>();
  auto over = playing->over.get_future();
  const double began = seconds();
  begin();
  over.get();
  return seconds() - began;
}

nlohmann::json latency(const std::string& list, double most) {
  nlohmann::json found;
  std::istringstream sizes(list);
  for (std::string size; std::getline(sizes, size, ',');) {
    const long bytes = std::atol(size.c_str());
    const auto rounds = [&](long n) {
      object x(bytes, static_cast<unsigned char>(1));
      return play(n, [&] { tern::send<&catch_it>(1, std::move(x)); });
    };
    found[size] = per_item(most, batch, 1, rounds) / 2 * 1e6;
  }
  return found;
}

/// Its data come later: the handlers do not look at them.
void answer(object) { tern::send<&catch_nothing>(0); }
double middle(std::vector<double> all) {
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
  return all[all.size() / 2] / 2 * 1e6;
}
nlohmann::json delay(double most) {
  std::vector<double> computed, empty;
  for (const double began = seconds(); seconds() - began < most || computed.size() < 3;) {
    object x(65536);
    tern::submit(
        [](tern::host_view<unsigned char, 1> v) {
          tern::this_fiber::sleep_for(std::chrono::milliseconds(10)); // what a device would take
          std::fill(v.begin(), v.end(), static_cast<unsigned char>(2));
        },
        tern::write(x));
    computed.push_back(play(1, [&] { tern::send<&answer>(1, x); }));
    tern::wait_all();
    empty.push_back(play(1, [] { tern::send<&catch_nothing>(1); }));
  }
  return {{"computed", middle(std::move(computed))}, {"empty", middle(std::move(empty))}};
}

/// Puts to and fro: each rank puts what it has got.
struct board {
  object data;
  tern::exported<unsigned char> entry;
  tern::global_ptr<unsigned char> there; // the other rank's
};
const tern::rank_local<board> boards;
tern::global_ptr<unsigned char> make_board(long bytes) {
  boards->entry = {};
  boards->data = object(bytes, static_cast<unsigned char>(0));
  boards->entry = tern::exported<unsigned char>(boards->data);
  return boards->entry.ptr();
}
void meet_board(tern::global_ptr<unsigned char> there) { boards->there = there; }
void drop_board() { *boards = {}; }
void put_back() {
  if (tern::rank() == 0 && --playing->left == 0) return playing->over.set_value();
  tern::put(boards->data, boards->there, tern::notify<&put_back>()); // when what was put has come
}
nlohmann::json put(const std::string& list, double most) {
  nlohmann::json found;
  std::istringstream sizes(list);
  for (std::string size; std::getline(sizes, size, ',');) {
    const long bytes = std::atol(size.c_str());
    boards->there = tern::call<&make_board>(1, bytes).get();
    tern::call<&meet_board>(1, make_board(bytes)).get();
    const auto read_all = [] { static_cast<void>(boards->data.host(tern::access_mode::read).get()); };
    const auto to_and_fro = [&](long n) {
      const double began = seconds();
      tern::submit([](tern::host_view<unsigned char, 1> v) { v(0) = 7; }, tern::read_write(boards->data));
      play(n, [] { tern::put(boards->data, boards->there, tern::notify<&put_back>()); });
      read_all(); // the last one has been notified, and may not have come
      return seconds() - began;
    };
    found[size] = per_item(most, batch, 1, to_and_fro) / 2 * 1e6;
    check(boards->data.host(tern::access_mode::read).get()(0) == 7, "a put");
    const auto known = [&](long n) {
      return timed(n, [](long) { tern::put(boards->data, boards->there).done().get(); });
    };
    found[size + ".done"] = per_item(most, batch, 1, known) * 1e6;
    tern::call<&drop_board>(1).get();
    drop_board();
  }
  return found;
}

// In a simulation -----------------------------------------------------------------------------------------------------

double virtual_seconds() { return static_cast<double>(tern::detail::clock_now()) * 1e-9; }
void touch_on_device(const object& x) {
  tern::hetero_task(transfer_kernels::touch, tern::items(1), tern::read_write(x)).on("simulated0").submit();
}
void over() { playing->over.set_value(); }
void use(object x) {
  touch_on_device(x);
  tern::wait_all();
  tern::send<&over>(0);
}
/// Each rank's task follows the one before by the data alone: all handlers run ahead.
void link_of_chain(int left, object x) {
  touch_on_device(x);
  if (left > 1) return tern::send<&link_of_chain>(1 - tern::rank(), left - 1, std::move(x));
  tern::wait_all();
  tern::send<&over>(0);
}
template <class Begin> nlohmann::json simulated(const std::string& list, Begin&& begin) {
  nlohmann::json found;
  std::istringstream sizes(list);
  for (std::string size; std::getline(sizes, size, ',');) {
    double took = 0;
    for (int i = 0; i < 2; ++i) { // the first one looks for devices, and makes memory
      object x(std::atol(size.c_str()), static_cast<unsigned char>(1));
      touch_on_device(x);
      tern::wait_all();
      playing->over = tern::promise<void>();
      auto end = playing->over.get_future();
      const double began = virtual_seconds();
      begin(std::move(x));
      end.get();
      took = virtual_seconds() - began;
    }
    found[size] = took * 1e6;
  }
  return found;
}

/// Submits tasks that do nothing.
void submit_many(const tern::hetero_object<int>& x, long tasks) {
  for (long i = 0; i < tasks; ++i) tern::submit([](tern::host_view<int, 1>) {}, tern::write(x));
}
class submitter {
public:
  void submit(long tasks) { submit_many(x_, tasks); }

private:
  tern::hetero_object<int> x_{1, 0};
};
// Both take turns, so that a slow moment meets both.
nlohmann::json keep(double most) {
  constexpr long tasks = 20000;
  const auto in = tern::create<submitter>();
  const tern::hetero_object<int> x(1, 0);
  std::vector<double> inside, outside;
  for (const double began = seconds(); seconds() - began < most || inside.size() < 5;) {
    double start = seconds();
    tern::call<&submitter::submit>(in, tasks).get();
    tern::wait_all();
    inside.push_back((seconds() - start) / tasks * 1e9);
    start = seconds();
    tern::call<[](long n, tern::hetero_object<int> y) { submit_many(y, n); }>(0, tasks, x).get();
    tern::wait_all();
    outside.push_back((seconds() - start) / tasks * 1e9);
  }
  const auto least = [](const std::vector<double>& all) { return *std::min_element(all.begin(), all.end()); };
  return {{"inside", least(inside)}, {"budget", least(outside) + 15}};
}

void touch(const tern::hetero_object<int>& x) {
  tern::hetero_task(member_kernels::touch, tern::items(1), tern::read_write(x)).submit().wait();
}
class holder {
public:
  holder() = default;
  explicit holder(long bytes) : x_(bytes / static_cast<long>(sizeof(int)), 0) {}
  void step() { touch(x_); }
  template <class A> void serialize(A& ar) { ar(x_); }

private:
  tern::hetero_object<int> x_;
};
double now() { return std::chrono::duration<double>(tern::fiber_clock::now().time_since_epoch()).count(); }
nlohmann::json move(long bytes) {
  const auto one = tern::create<holder>(bytes);
  tern::call<&holder::step>(one).get(); // it is on the device
  double began = now();
  tern::migrate(one, 1).get();
  tern::call<&holder::step>(one).get();
  const double moved = now() - began;
  tern::hetero_object<int> x(bytes / static_cast<long>(sizeof(int)), 0);
  touch(x);
  began = now();
  tern::call<[](tern::hetero_object<int> y) { touch(y); }>(1, x).get();
  return {{"moved", moved}, {"argument", now() - began}};
}

nlohmann::json measure(const std::string& what, const std::string& list, double most) {
  if (what == "latency") return latency(list, most);
  if (what == "delay") return delay(most);
  if (what == "put") return put(list, most);
  if (what == "staged") return simulated(list, [](object x) { tern::send<&use>(1, x); });
  if (what == "chain")
    return simulated(list, [](object x) { tern::send<&link_of_chain>(1, links_of_chain, std::move(x)); });
  if (what == "keep") return keep(most);
  if (what == "move") return move(std::atol(list.c_str()));
  throw std::runtime_error("no measurement is called " + what);
}

} // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 4) throw std::runtime_error("usage: bench_global_tern KIND SIZE,… SECONDS");
    bind_to_core();
    return tern::run(argc, argv, [&] {
      if (tern::size() != 2) throw std::runtime_error("start two ranks");
      if (tern::rank() == 0) std::printf("%s\n", measure(argv[1], argv[2], std::atof(argv[3])).dump().c_str());
      tern::barrier(); // rank 1 waits here meanwhile
      std::fflush(stdout);
    });
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_global_tern: %s\n", e.what());
    return 1;
  }
}
