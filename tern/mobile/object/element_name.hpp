// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What elements of arrays are called, for messages of the rooms below arrays. Internal.

#include <string>

#include <tern/mobile/object_id.hpp>

namespace tern::net {
class node;
}

namespace tern::mobile::detail {

/// "block(3, 7) of 'grid'", or empty. \param here null: on a thread that is no worker of a rank.
using element_namer = std::string (*)(net::node* here, object_id id);
/// Before main.
bool name_elements_by(element_namer f) noexcept;
/// Empty if the object is no element of an array that the rank knows. Does not wait, and throws
/// nothing but std::bad_alloc.
std::string element_name(net::node* here, object_id id);

} // namespace tern::mobile::detail
