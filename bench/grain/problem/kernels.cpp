// SPDX-License-Identifier: Apache-2.0
#include "bench/grain/problem/kernels.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <numeric>
#include <thread>
#include <vector>

#include "bench/harness/timing.hpp"

namespace tern::bench::grain {
namespace {

constexpr std::size_t scratch_bytes = std::size_t{32} << 20; // of a thread
constexpr std::size_t line = 64 / sizeof(double);

/// Keeps the compiler from leaving out what made the value.
template <class T> void used(const T& value) { asm volatile("" : : "g"(&value) : "memory"); }

void multiply_and_add(long iterations) noexcept {
  std::array<double, 16> a;
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = 1 + 0x1p-10 * static_cast<double>(i);
  for (long n = 0; n < iterations; ++n)
    for (double& x : a) x = x * 0.5 + 0.75; // stays near 1.5: no denormal numbers
  used(a);
}

void stream(long iterations) noexcept {
  thread_local std::vector<double> scratch(scratch_bytes / sizeof(double));
  thread_local std::size_t at = 0;
  for (long n = 0; n < iterations; ++n) {
    for (std::size_t i = 0; i < line; ++i) scratch[at + i] += 1;
    at = at + line == scratch.size() ? 0 : at + line;
  }
}

/// Seconds for an iteration on the calling thread.
double best_of_some(kernel what) {
  constexpr int times = 20;
  constexpr double each = 0.5e-3;
  long n = 1024;
  compute(what, n); // touches memory
  while (timed(1, [&](long) { compute(what, n); }) < each) n *= 2;
  double best = 1;
  for (int i = 0; i < times; ++i)
    best = std::min(best, timed(1, [&](long) { compute(what, n); }) / static_cast<double>(n));
  return best;
}

} // namespace

// Not inlined: the addresses of thread_local variables do not get into a fiber's code.
[[gnu::noinline]] void compute(kernel what, long iterations) noexcept {
  if (what == kernel::compute)
    multiply_and_add(iterations);
  else
    stream(iterations);
}

double calibrate(kernel what, int threads) {
  std::vector<double> found(static_cast<std::size_t>(threads));
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < found.size(); ++i)
    others.emplace_back([&found, what, i] { found[i] = best_of_some(what); });
  found[0] = best_of_some(what);
  for (auto& one : others) one.join();
  return std::accumulate(found.begin(), found.end(), 0.0) / threads;
}

} // namespace tern::bench::grain
