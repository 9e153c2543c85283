// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which rank keeps the copy of which. Internal.

#include <cstdint>
#include <vector>

namespace tern::mobile::detail {

/// The buddy of each rank. Ranks that are first on their hosts, in the hosts' order, come before
/// those that are second, and so on, in a ring; each one's buddy is the next of another host, or if
/// all are on one host the next. So ranks of one host have different buddies, if hosts have the
/// same number of ranks.
/// \param ranks ascending. \param hosts by rank of the job: one number for those of one host.
/// \return for each of `ranks` its buddy; of one rank alone, itself.
std::vector<std::int32_t> buddies_of(const std::vector<std::int32_t>& ranks, const std::vector<std::int32_t>& hosts);

} // namespace tern::mobile::detail
