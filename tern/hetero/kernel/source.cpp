// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/hetero/kernel.hpp>

namespace tern::hetero {
namespace {

// Where the block's file may be now: where the compiler found it, then the folders of
// TERN_KERNEL_PATH.
std::vector<std::filesystem::path> places(const std::filesystem::path& file) {
  std::vector<std::filesystem::path> all{file};
  if (const char* const path = std::getenv("TERN_KERNEL_PATH")) {
    std::istringstream folders{path};
    for (std::string folder; std::getline(folders, folder, ':');)
      if (!folder.empty()) {
        if (file.is_relative()) all.push_back(folder / file);
        all.push_back(folder / file.filename());
      }
  }
  return all;
}

std::string read(const source_block& block) {
  for (const std::filesystem::path& place : places(block.file)) {
    std::ifstream in(place, std::ios::binary);
    if (!in) continue;
    std::ostringstream all;
    all << in.rdbuf();
    if (in && all) return std::move(all).str();
  }
  throw error(errc::io, "the kernels '" + std::string(block.name) + "' cannot be read from " + block.file,
              "give the folder of that file in TERN_KERNEL_PATH, or compile it without TERN_KERNELS_AT_RUN_TIME");
}

} // namespace

std::string text_of(const source_block& block) {
  const std::string now = block.begin ? std::string() : read(block);
  std::string_view rest = block.begin ? std::string_view(block.begin, block.end) : std::string_view(now);
  const char* first = nullptr;
  int line = 1;
  while (line < block.last) {
    if (line == block.first + 1) first = rest.data();
    const std::size_t end = rest.find('\n');
    if (end == rest.npos)
      throw error(errc::invalid_data,
                  "the file " + std::string(block.file) + " of the kernels '" + block.name + "' has " +
                      std::to_string(line) + " lines, but when it was compiled they stood in lines " +
                      std::to_string(block.first) + " to " + std::to_string(block.last),
                  "it has changed: compile it again");
    rest.remove_prefix(end + 1);
    ++line;
  }
  if (!first) first = rest.data(); // nothing between the markers
  std::string text = "#line " + std::to_string(block.first + 1) + " \"" + block.file + "\"\n";
  return text.append(first, rest.data());
}

} // namespace tern::hetero
