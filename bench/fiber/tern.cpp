// SPDX-License-Identifier: Apache-2.0
/// \file
/// The benchmarks with Tern. With the suffix "_apart" each worker is bound to a CPU of its own. The
/// main fiber reads the requests: it blocks a worker then, and the others sleep.

#include "bench/fiber/shapes.hpp"

#include <fstream>
#include <optional>
#include <string>

#include <tern/task/channel.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/sync.hpp>

namespace {

using namespace tern::bench::fiber;

double create(std::size_t count) {
  std::size_t done = 0;
  const double taken = seconds([&] {
    for (std::size_t i = 0; i < count; ++i) tern::fiber([&done] { ++done; }).join();
  });
  require(done == count, "not each fiber ran");
  return taken / static_cast<double>(count);
}

template <bool Flags> double yield(std::size_t count) {
  yielders y(count);
  const double taken = seconds([&] {
    tern::fiber a([&] { y.body<Flags>(0, [] { tern::this_fiber::yield(); }); });
    tern::fiber b([&] { y.body<Flags>(1, [] { tern::this_fiber::yield(); }); });
    a.join();
    b.join();
  });
  y.check();
  return taken / static_cast<double>(y.yields());
}

/// \return `first`'s seconds. Pinned: each fiber to a worker of its own.
template <class Game> double play(Game& game, bool pinned) {
  double taken = 0;
  tern::fiber first([&] { taken = game.first(); }, {.name = "first", .worker = pinned ? 0 : -1});
  tern::fiber second([&] { game.second(); }, {.name = "second", .worker = pinned ? 1 : -1});
  first.join();
  second.join();
  return taken;
}

double wake(std::size_t count) {
  hops<tern::promise<std::uint64_t>> h(count);
  return play(h, true);
}

double mutex(std::size_t count) {
  contention<tern::mutex> c(count);
  tern::latch here(c.contenders);
  std::vector<tern::fiber> all;
  for (std::size_t i = 0; i < c.contenders; ++i)
    all.emplace_back([&, i] { c.body(i, [&] { here.arrive_and_wait(); }); });
  for (auto& one : all) one.join();
  return c.taken();
}

/// A fiber for each handler.
template <class Hold> double handle_all(Hold hold_it) {
  object_set<tern::mutex> set;
  const double taken = seconds([&] {
    std::vector<tern::fiber> all;
    all.reserve(handlers().size());
    for (const handler& h : handlers()) all.emplace_back([&] { set.handle(h, hold_it); });
    for (auto& one : all) one.join();
  });
  set.check();
  return taken;
}

/// Each has written to its stack and waits; the clock stops when the last one does. \return seconds
/// for all.
double many(std::size_t count) {
  std::vector<tern::fiber> all;
  tern::latch gate(1);
  std::atomic<std::size_t> begun{0}, ended{0};
  const double taken = seconds([&] {
    all.reserve(count);
    for (std::size_t i = 0; i < count; ++i)
      all.emplace_back([&] {
        volatile char touched = 1;
        begun.fetch_add(1, std::memory_order_relaxed);
        gate.wait();
        ended.fetch_add(static_cast<std::size_t>(touched), std::memory_order_relaxed);
      });
    while (begun.load(std::memory_order_relaxed) < count) tern::this_fiber::yield();
  });
  require(ended.load() == 0, "some did not wait");
  gate.count_down();
  for (auto& one : all) one.join();
  require(ended.load() == count, "not each fiber ended");
  return taken;
}

/// The most memory that this process has had, in GiB.
double peak_gib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "VmHWM:") {
      double kib = 0;
      status >> kib;
      return kib / (1 << 20);
    }
  throw std::runtime_error("/proc/self/status has no VmHWM");
}

double memory_of_many(std::size_t count) {
  many(count);
  return peak_gib();
}

class queue {
public:
  explicit queue(std::size_t capacity) : c_(capacity) {}
  void push(std::uint64_t value) { c_.push(value); }
  std::uint64_t pop() {
    const std::optional<std::uint64_t> value = c_.pop();
    require(value.has_value(), "nothing in the channel");
    return *value;
  }

private:
  tern::channel<std::uint64_t> c_;
};

double channel(std::size_t count, bool pinned) {
  volley<queue> v(count);
  return play(v, pinned);
}

double mpmc(std::size_t count) {
  traffic<queue> t(count, 2);
  const double taken = seconds([&] {
    std::vector<tern::fiber> all;
    for (std::size_t i = 0; i < t.pairs(); ++i) {
      all.emplace_back([&, i] { t.produce(i); });
      all.emplace_back([&] { t.consume(); });
    }
    for (auto& one : all) one.join();
  });
  t.check();
  return taken / static_cast<double>(t.messages());
}

std::uint64_t fib(int n) {
  if (n < 2) return static_cast<std::uint64_t>(n);
  auto a = tern::async([n] { return fib(n - 1); });
  const std::uint64_t b = fib(n - 2);
  return a.get() + b;
}

double fib_time(int n) {
  std::uint64_t value = 0;
  const double taken = seconds([&] { value = fib(n); });
  check_fib(n, value);
  return taken;
}

measurement make(const job& j) {
  const std::size_t n = j.size;
  if (j.benchmark == "create") return [=] { return create(n); };
  if (j.benchmark == "yield") return [=] { return yield<false>(n); };
  if (j.benchmark == "yield_flags") return [=] { return yield<true>(n); };
  if (j.benchmark == "wake") return [=] { return wake(n); };
  if (j.benchmark == "mutex") return [=] { return mutex(n); };
  if (j.benchmark == "sleepers") return [] { return handle_all([] { tern::this_fiber::sleep_for(hold); }); };
  if (j.benchmark == "computers")
    return [] {
      return handle_all([] { tern::bench::task::spin(std::chrono::duration<double, std::micro>(hold).count()); });
    };
  if (j.benchmark == "million")
    return [=] {
      warm_memory(n * 4096);
      return many(n);
    };
  if (j.benchmark == "million_memory") return [=] { return memory_of_many(n); };
  if (j.benchmark == "channel") return [=] { return channel(n, false); };
  if (j.benchmark == "channel_pinned") return [=] { return channel(n, true); };
  if (j.benchmark == "channel_mpmc") return [=] { return mpmc(n); };
  if (j.benchmark == "fib") return [=] { return fib_time(static_cast<int>(n)); };
  unknown(j);
}

} // namespace

int main(int argc, char** argv) {
  return contestant_main(argc, argv, [](job j) {
    tern::scheduler::settings settings{.workers = j.workers};
    const std::vector<int> all = cpus();
    if (take_place(j.benchmark) == place::apart && all.size() >= static_cast<std::size_t>(j.workers))
      for (int w = 0; w < j.workers; ++w) settings.cpus.push_back({all[static_cast<std::size_t>(w)]});
    tern::scheduler s(settings);
    s.run([&] { tern::bench::task::answer_requests(j, make); });
  });
}
