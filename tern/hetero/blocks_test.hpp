// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The blocks of kernels in files of the tree, for tests that compile all there are: found by their markers, at the
/// beginning of a line.

#include <fstream>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include <tern/hetero/kernel.hpp>

namespace tern::hetero {

struct block_in_file {
  std::string file, name;
  int first = 0, last = 0;
  std::vector<std::string> kernels; ///< their names, in the order of the file

  /// Points into this one. As with TERN_KERNELS_AT_RUN_TIME, its text is read when it is needed.
  source_block as_source() const { return {name.c_str(), file.c_str(), nullptr, nullptr, first, last}; }
};

/// \return what stands behind the word at the line's beginning, up to a comma or a bracket; empty: it is not there.
inline std::string behind(const std::string& word, const std::string& line) {
  if (!line.starts_with(word)) return {};
  return line.substr(word.size(), line.find_first_of(",)", word.size()) - word.size());
}

/// For the names of tests with one.
inline void PrintTo(const block_in_file& block, std::ostream* out) { *out << block.name; }

inline std::vector<block_in_file> blocks_in(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error("cannot read " + file);
  std::vector<block_in_file> all;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (const std::string block = behind("TERN_KERNELS_BEGIN(", line); !block.empty())
      all.push_back({file, block, number, 0, {}});
    if (all.empty()) continue;
    if (!behind("TERN_KERNELS_END(", line).empty()) all.back().last = number;
    for (const char* word : {"TERN_KERNEL(", "TERN_KERNEL_FIXED("})
      if (const std::string kernel = behind(word, line); !kernel.empty()) all.back().kernels.push_back(kernel);
  }
  return all;
}

} // namespace tern::hetero
