// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What Tern's contestant and the rivals have in common: what is one batch.

#include <algorithm>
#include <cstddef>

#include "bench/harness/timing.hpp"

namespace tern::bench::net {

/// How many messages of that size a sender of bandwidth sends until it waits for the receiver.
inline std::size_t window(std::size_t size) {
  return std::clamp((std::size_t{16} << 20) / std::max<std::size_t>(size, 1), std::size_t{2}, std::size_t{64});
}
constexpr std::size_t burst = 64; ///< of a stream: messages until the sender lets others run, or completes its requests

constexpr double stream_batch = 5e-3; // seconds

} // namespace tern::bench::net
