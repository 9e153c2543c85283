// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/kernel/kernel_blocks.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include <tern/base/error.hpp>

namespace tern::hetero::detail {
namespace {

constexpr std::string_view blanks = " \t";

/// What stands in brackets behind the word at the line's beginning, up to a comma; empty: it is not
/// there.
std::string behind(std::string_view word, std::string_view line) {
  line.remove_prefix(std::min(line.size(), line.find_first_not_of(blanks)));
  if (!line.starts_with(word)) return {};
  line.remove_prefix(word.size());
  line.remove_prefix(std::min(line.size(), line.find_first_not_of(blanks)));
  if (!line.starts_with('(')) return {};
  line.remove_prefix(1);
  line = line.substr(0, line.find_first_of(",)"));
  const std::size_t first = line.find_first_not_of(blanks);
  if (first == line.npos) return {};
  return std::string(line.substr(first, line.find_last_not_of(blanks) + 1 - first));
}

void add_kernel(std::string_view line, std::vector<std::string>& to) {
  for (const char* word : {"TERN_KERNEL", "TERN_KERNEL_FIXED"})
    if (std::string kernel = behind(word, line); !kernel.empty() && std::find(to.begin(), to.end(), kernel) == to.end())
      to.push_back(std::move(kernel)); // a macro that makes kernels may call its parameter as another one's is called
}

} // namespace

std::vector<std::string> kernels_in(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) add_kernel(line, all);
  return all;
}

std::vector<block_in_file> blocks_in(const std::string& file) {
  std::error_code none;
  std::ifstream in(file);
  if (!in || std::filesystem::is_directory(file, none))
    throw error(errc::io, "cannot read " + file + ": " + (in ? "it is a folder" : std::strerror(errno)));
  std::vector<block_in_file> all;
  bool open = false;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (const std::string block = behind("TERN_KERNELS_BEGIN", line); !block.empty()) {
      if (open) break;
      all.push_back({file, block, number, 0, {}});
      open = true;
    }
    if (!open) continue;
    if (!behind("TERN_KERNELS_END", line).empty()) {
      all.back().last = number;
      open = false;
    }
    add_kernel(line, all.back().kernels);
  }
  if (open)
    throw error(errc::invalid_data,
                file + ":" + std::to_string(all.back().first) + ": the kernels '" + all.back().name +
                    "' do not end: there is no TERN_KERNELS_END(" + all.back().name + ") below",
                "each marker begins a line");
  return all;
}

} // namespace tern::hetero::detail
