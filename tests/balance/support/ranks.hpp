// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// For tests of balancing on ranks.

#include <chrono>

#include <tern/net/node.hpp>
#include <tern/task/sim.hpp>

namespace balance_test {

/// So much work, wherever.
inline void compute(std::chrono::microseconds time) {
  if (tern::net::node::here().simulated()) return tern::sim::charge(std::chrono::duration<double>(time).count());
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

} // namespace balance_test
