// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How much a stress test does.

#include <chrono>
#include <cstdlib>

namespace stress {

constexpr bool sanitized = STRESS_SANITIZED != 0;
/// Sanitized programs are some five to twenty times slower.
constexpr int some(int plain) { return sanitized ? (plain + 4) / 5 : plain; }

/// Calls `once(round)` at least `rounds` times, and until TERN_STRESS_SECONDS are over.
template <class F> void repeat(int rounds, F&& once) {
  const char* asked = std::getenv("TERN_STRESS_SECONDS");
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(asked ? std::atoi(asked) : 0);
  for (int round = 0; round < rounds || std::chrono::steady_clock::now() < end; ++round) once(round);
}

} // namespace stress
