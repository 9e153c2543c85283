// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What Tern's contestant and the rivals have in common: how large an operation's values are.

#include <cstddef>

#include "bench/harness/timing.hpp"

namespace tern::bench::collectives {

constexpr std::size_t broadcast_bytes = std::size_t{1} << 20;
constexpr std::size_t allgather_bytes = std::size_t{64} << 10; // of each rank
constexpr std::size_t alltoall_bytes = std::size_t{64} << 10;  // of each rank, in equal parts for all

} // namespace tern::bench::collectives
