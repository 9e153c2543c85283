// SPDX-License-Identifier: Apache-2.0
#include "bench/fiber/shapes.hpp"

#include <algorithm>
#include <random>

#include <sched.h>
#include <sys/mman.h>

namespace tern::bench::fiber {

std::vector<int> cpus() {
  std::vector<int> list;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &allowed)) list.push_back(cpu);
  return list;
}

place take_place(std::string& benchmark) {
  for (const auto& [suffix, where] : {std::pair{"_apart", place::apart}, std::pair{"_together", place::together}})
    if (benchmark.ends_with(suffix)) {
      benchmark.resize(benchmark.size() - std::string(suffix).size());
      return where;
    }
  return place::anywhere;
}

void bind(place where, int half) {
  static const std::vector<int> all = cpus(); // before the first thread is bound
  const std::size_t which = where == place::apart ? static_cast<std::size_t>(half) : 0;
  if (where == place::anywhere || which >= all.size()) return;
  cpu_set_t wanted;
  CPU_ZERO(&wanted);
  CPU_SET(all[which], &wanted);
  sched_setaffinity(0, sizeof wanted, &wanted);
}

std::uint32_t rounds_for(std::chrono::nanoseconds time) {
  static const double round = [] {
    constexpr std::uint32_t many = 20'000;
    double least = 1;
    for (int i = 0; i < 200; ++i) {
      volatile std::uint64_t result = 0;
      least = std::min(least, seconds([&] { result = task::work(result, many); }) / many);
    }
    return least;
  }();
  return static_cast<std::uint32_t>(std::chrono::duration<double>(time).count() / round + 0.5);
}

void warm_memory(std::size_t bytes) {
  void* const raw = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return;
  madvise(raw, bytes, MADV_HUGEPAGE);
  for (std::size_t at = 0; at < bytes; at += 4096) static_cast<volatile char*>(raw)[at] = 1;
  munmap(raw, bytes);
}

void yielders::set_flags(int me) {
  if (me == 0) {
    volatile double three = 3;
    [[maybe_unused]] volatile double third = 1.0 / three;
  } else {
    std::feclearexcept(FE_ALL_EXCEPT);
  }
  require((std::fetestexcept(FE_INEXACT) != 0) == (me == 0), "the floating-point flags are not as they should be");
}

const std::vector<handler>& handlers() {
  static const std::vector<handler> all = [] {
    std::vector<handler> list;
    for (std::size_t o = 0; o < objects; ++o)
      for (std::size_t i = 0; i < handlers_each; ++i) list.push_back({o, i % 2 == 0});
    std::mt19937_64 random(1);
    for (std::size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[random() % i]);
    return list;
  }();
  return all;
}

void check_fib(int n, std::uint64_t value) {
  std::uint64_t a = 0, b = 1;
  for (int i = 0; i < n; ++i) a = std::exchange(b, a + b);
  require(value == a, "the Fibonacci number");
}

} // namespace tern::bench::fiber
