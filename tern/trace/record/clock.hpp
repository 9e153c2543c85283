// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The processor's own counter, which stamps records: reading it takes a few nanoseconds, the
/// system's clock thirty.

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#elif !defined(__aarch64__)
#include <chrono>
#endif

namespace tern::trace::detail {

inline std::uint64_t counter() noexcept {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  std::uint64_t t = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(t));
  return t;
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

/// Does it advance at one speed, on all cores alike, also while they sleep?
inline bool counter_is_steady() noexcept {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
#else
  return true;
#endif
}

} // namespace tern::trace::detail
