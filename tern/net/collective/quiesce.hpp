// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How all ranks learn together that nothing is in flight. Internal.

#include <source_location>

#include <tern/net/collectives.hpp>

namespace tern::net {

class node;

namespace detail {

/// tern::quiesce, which says what it promises. In a fiber; collective. \param closes the end of the
/// job: afterwards no rank accepts messages but those of collective operations.
void quiesce(node& here, quiescence of, const std::source_location& where, bool closes = false);

} // namespace detail
} // namespace tern::net
