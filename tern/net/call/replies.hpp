// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How answers come back to callers. Internal.

#include <cstdint>
#include <exception>
#include <string>

#include <tern/net/node.hpp>
#include <tern/net/packing/packing.hpp>

namespace tern::net::detail {

/// The number of the handler that takes an answer's value.
std::uint32_t reply_handler();

/// The value for a caller that waits.
template <class... R> void post_answer(node_send& here, int caller, std::uint64_t reply, const R&... result) {
  post_packed(here, caller, {reply_handler(), 0, reply}, {.urgent = true}, result...);
}

} // namespace tern::net::detail
