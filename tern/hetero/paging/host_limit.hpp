// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the options say of the host's memory for objects, and of the disk beyond it. Internal.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <tern/base/options.hpp>
#include <tern/hetero/paging/host_pager.hpp>

namespace tern::hetero::detail {

/// "DIR" or "DIR:SIZE".
struct disk_place {
  std::string directory;
  std::uint64_t most_bytes = 0; ///< 0: what the disk has
};
/// A size behind the last colon is one; else all is the folder's name.
disk_place disk_place_in(std::string_view text);

/// Of the option hetero-disk, before a job starts: that files can be made there, on a disk.
/// \throws error(invalid_option) naming the folder.
void verify_disk(const std::string& text, const options& all);

/// Nothing: the host's memory is not limited. \param simulated the disk is memory, and every
/// transfer takes 50 us of virtual time.
std::optional<host_pager::settings> host_limit_of(const options& opts, bool simulated);

} // namespace tern::hetero::detail
