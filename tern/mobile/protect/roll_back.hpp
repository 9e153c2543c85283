// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A job goes back to a copy. Internal.

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <tern/mobile/protect.hpp>
#include <tern/mobile/protect/copy_shelf.hpp>
#include <tern/net/node.hpp>

namespace tern::mobile::detail {

/// A rank and the buddy that had its copy, if both have been lost since. The same on all ranks.
std::optional<std::pair<std::int32_t, std::int32_t>> lost_with_buddy(const job_copy& copy,
                                                                     const std::vector<std::int32_t>& living);

/// Forgets all objects, arrays, names and messages of the calling rank, and puts it back to the
/// copy; the objects of ranks that do not live any more are spread over the others by their bytes,
/// and so are their homes. Collective among `living`, which are the world's ranks. One fiber.
/// \pre nothing runs or is under way on any of them; `lost_with_buddy` gives nothing.
/// \throws on all ranks what an object's unpacking throws; error(rank_lost) if another one dies:
/// then it is to be called again, with fewer.
void roll_back(net::node& here, const job_copy& to, const std::vector<std::int32_t>& living, protected_steps& what);

} // namespace tern::mobile::detail
