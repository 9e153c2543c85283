// SPDX-License-Identifier: Apache-2.0
/// \file
/// The benchmarks with the standard library's threads, and those that need no more than the
/// operating system.

#include "bench/fiber/shapes.hpp"

#include <future>
#include <latch>
#include <mutex>
#include <new>
#include <thread>

#include <sys/mman.h>

namespace {

using namespace tern::bench::fiber;

double create(std::size_t count) {
  std::size_t done = 0;
  const double taken = seconds([&] {
    for (std::size_t i = 0; i < count; ++i) std::thread([&done] { ++done; }).join();
  });
  require(done == count, "not each thread ran");
  return taken / static_cast<double>(count);
}

double wake(std::size_t count, place where) {
  hops<std::promise<std::uint64_t>> h(count);
  double taken = 0;
  std::thread first([&] {
    bind(where, 0);
    taken = h.first();
  });
  std::thread second([&] {
    bind(where, 1);
    h.second();
  });
  first.join();
  second.join();
  return taken;
}

double mutex(std::size_t count) {
  contention<std::mutex> c(count);
  std::latch here(c.contenders);
  std::vector<std::thread> all;
  for (std::size_t i = 0; i < c.contenders; ++i)
    all.emplace_back([&, i] { c.body(i, [&] { here.arrive_and_wait(); }); });
  for (auto& one : all) one.join();
  return c.taken();
}

/// As many threads as there are workers take handlers from a queue.
template <class Hold> double handle_all(int threads, Hold hold_it) {
  object_set<std::mutex> set;
  std::atomic<std::size_t> next{0};
  const auto body = [&] {
    for (std::size_t i = 0; (i = next.fetch_add(1)) < handlers().size();) set.handle(handlers()[i], hold_it);
  };
  const double taken = seconds([&] {
    std::vector<std::thread> all;
    for (int i = 0; i < threads; ++i) all.emplace_back(body);
    for (auto& one : all) one.join();
  });
  set.check();
  return taken;
}

/// How long it takes to touch `count` fresh pages. \return seconds for all.
double pages(std::size_t count) {
  constexpr std::size_t page = 4096;
  warm_memory(count * page);
  void* const raw =
      mmap(nullptr, count * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) throw std::bad_alloc();
  madvise(raw, count * page, MADV_NOHUGEPAGE);
  volatile char* const data = static_cast<char*>(raw);
  const double taken = seconds([&] {
    for (std::size_t i = 0; i < count; ++i) data[i * page] = 1;
  });
  munmap(raw, count * page);
  return taken;
}

measurement make(const job& j) {
  const std::size_t n = j.size;
  std::string what = j.benchmark;
  const place where = take_place(what);
  if (what == "create") return [=] { return create(n); };
  if (what == "wake") return [=] { return wake(n, where); };
  if (what == "mutex") return [=] { return mutex(n); };
  if (what == "sleepers")
    return [=, threads = j.workers] { return handle_all(threads, [] { std::this_thread::sleep_for(hold); }); };
  if (what == "computers")
    return [=, threads = j.workers] {
      return handle_all(threads,
                        [] { tern::bench::task::spin(std::chrono::duration<double, std::micro>(hold).count()); });
    };
  if (what == "pages") return [=] { return pages(n); };
  unknown(j);
}

} // namespace

int main(int argc, char** argv) {
  return contestant_main(argc, argv, [](const job& j) { tern::bench::task::answer_requests(j, make); });
}
