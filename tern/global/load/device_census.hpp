// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What balancing wants to know of devices. Internal.

#include <cstddef>

#include <tern/hetero/hetero_object.hpp>

namespace tern::global::detail {

/// From now on balancing asks this layer. Before the first rank starts.
void count_devices();

/// The bytes of a part of a member are being counted. Counts them for balancing if that has asked
/// and a device alone has them.
void count_resident(hetero::detail::object_state& o, const hetero::detail::box& part, std::size_t bytes) noexcept;

} // namespace tern::global::detail
