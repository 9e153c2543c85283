// SPDX-License-Identifier: Apache-2.0
/// \file
/// What bench_trace measures, linked with Tern and with a Tern that has no hooks: `contestant WHAT
/// N`.
///
///   fib N        the N-th Fibonacci number by tasklets
///   join N       fibers are made and joined, one after the other
///   yield N      two fibers yield
///   wake N       two fibers hand a semaphore to each other
///   send N       messages to the own rank, by threads
///   call N       calls of the own rank
///   record N     records as many events and merges them; prints the seconds that merging took, as JSON

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include <tern/base/clock.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/semaphore.hpp>
#include <tern/task/task_group.hpp>
#include <tern/trace/merge.hpp>
#include <tern/trace/record/events.hpp>
#include <tern/trace/recorder.hpp>

void take(int) {}
int same(int x) { return x; }

namespace {

long fib(long n) {
  if (n < 2) return n;
  long a = 0;
  tern::task_group g;
  g.run([&] { a = fib(n - 1); });
  const long b = fib(n - 2);
  g.wait();
  return a + b;
}

void join(long n) {
  for (long i = 0; i < n; ++i) tern::fiber([] {}).join();
}

void yield(long n) {
  const auto body = [n] {
    for (long i = 0; i < n; ++i) tern::this_fiber::yield();
  };
  tern::fiber a(body), b(body);
  a.join();
  b.join();
}

void wake(long n) {
  tern::semaphore ping(0), pong(0);
  tern::fiber other([&] {
    for (long i = 0; i < n; ++i) {
      ping.acquire();
      pong.release();
    }
  });
  for (long i = 0; i < n; ++i) {
    ping.release();
    pong.acquire();
  }
  other.join();
}

void send(long n) {
  for (long i = 0; i < n; ++i) {
    tern::send<&take>(0, 1);
    if (i % 16 == 15) tern::this_fiber::yield();
  }
  tern::quiesce();
}

void call(long n) {
  for (long i = 0; i < n; ++i)
    if (tern::call<&same>(0, 7).get() != 7) throw std::logic_error("a wrong answer");
}

// What a busy worker records: fibers that take turns, handlers with their messages, regions.
void record_some(int rank, long n) {
  using namespace tern::trace::detail;
  on_track(new_track(rank, 0));
  const std::uint32_t handler = name_number("a handler"), wait = name_number("mutex");
  for (long i = 0; i < n / 7; ++i) {
    const auto number = static_cast<std::uint64_t>(i);
    fiber_enters(number + 1, handler, true);
    sends(rank, number, 100, handler);
    {
      const tern::trace::region r("a region");
      arrives(rank, static_cast<std::uint32_t>(number & 0xffffff));
      handler_begins(rank, static_cast<std::uint32_t>(number & 0xffffff), handler);
    }
    if (i % 2 == 0)
      fiber_ends(number + 1);
    else
      fiber_waits(number + 1, wait, &number);
  }
}

void record(long n) {
  namespace fs = std::filesystem;
  std::string name = (fs::temp_directory_path() / "bench-trace-XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error("cannot make a folder for temporary files in " + name);
  const fs::path folder = name;
  constexpr int ranks = 4;
  {
    const tern::trace::recorder recorder({.folder = folder / "parts", .ranks = ranks, .lossless = true});
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks; ++r) threads.emplace_back(record_some, r, n / ranks);
    for (auto& t : threads) t.join();
  }
  const tern::stopwatch watch;
  const auto done = tern::trace::merge(folder / "parts", folder / "merged.json");
  std::printf("{\"seconds\": %.6f, \"records\": %llu}\n", watch.seconds(),
              static_cast<unsigned long long>(done.records));
  fs::remove_all(folder);
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string what = argv[1];
  const long n = std::atol(argv[2]);
  if (what == "record") {
    record(n);
    return 0;
  }
  const auto loop = what == "join"    ? join
                    : what == "yield" ? yield
                    : what == "wake"  ? wake
                    : what == "send"  ? send
                                      : call;
  setenv("TERN_WORKERS", "1", 1);
  setenv("TERN_LOG_LEVEL", "warning", 1);
  return tern::run(argc, argv, [&] {
    if (what == "fib")
      fib(n);
    else
      loop(n);
  });
}
