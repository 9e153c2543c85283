// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What Tern's side and the rivals have in common: how two ranks repeat an operation, and how large its values are.

#include <cstddef>
#include <stdexcept>
#include <string>

#include "bench/side.hpp"

namespace tern::bench::collectives {

constexpr std::size_t broadcast_bytes = std::size_t{1} << 20;
constexpr std::size_t allgather_bytes = std::size_t{64} << 10; // of each rank
constexpr std::size_t alltoall_bytes = std::size_t{64} << 10;  // of each rank, in equal parts for all

/// Does `once(i)` n times for i = 0, 1, …. \return seconds.
template <class Once> double timed(long n, Once once) {
  const double began = seconds();
  for (long i = 0; i < n; ++i) once(i);
  return seconds() - began;
}

/// On rank 0 microseconds for one time of what `repeat(n)` does n times on all ranks, and measures; 0 elsewhere.
/// `tell(n)` gives rank 0's number to all.
template <class Tell, class Repeat> double measured(int rank, double most, Tell tell, Repeat repeat) {
  if (rank == 0) {
    const auto batch = [&](long n) {
      tell(n);
      return repeat(n);
    };
    const double each = per_item(most, latency_batch, 1, batch);
    tell(0L);
    return each * 1e6;
  }
  while (const long n = tell(0L)) repeat(n);
  return 0;
}

inline void check(bool right, const char* what) {
  if (!right) throw std::runtime_error(std::string(what) + " brought something else");
}

} // namespace tern::bench::collectives
