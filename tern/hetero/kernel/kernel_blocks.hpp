// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The blocks of kernels in a file, found by their markers at the beginning of a line, for tools
/// that have the file and not the program. Internal.
///
/// What macros of the file make is not seen: a marker within a macro, or one that `#if` leaves out.

#include <string>
#include <vector>

#include <tern/hetero/kernel.hpp>

namespace tern::hetero::detail {

struct block_in_file {
  std::string file, name;
  int first = 0, last = 0;          ///< lines of the markers
  std::vector<std::string> kernels; ///< their names, in the order of the file; not those that macros make

  /// Points into this one. As with TERN_KERNELS_AT_RUN_TIME, its text is read when it is needed.
  source_block as_source() const { return {name.c_str(), file.c_str(), nullptr, nullptr, first, last}; }
};

/// The names of the kernels in the text of a block, each once, in its order; not those that macros
/// make, but what macros that make some call them.
std::vector<std::string> kernels_in(const std::string& text);

/// \throws error(io) if the file cannot be read; error(invalid_data) for a block that does not end.
std::vector<block_in_file> blocks_in(const std::string& file);

} // namespace tern::hetero::detail
