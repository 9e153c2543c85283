// SPDX-License-Identifier: Apache-2.0
// main() of a fuzz target in ordinary builds: runs through files, and those of folders, in the
// order of their names. Each name is printed before its file is run, so that the last one printed
// is the one that fails.
#include "fuzz.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    if (!fs::is_directory(argv[i])) {
      files.emplace_back(argv[i]);
      continue;
    }
    const auto first = files.size();
    for (const auto& each : fs::recursive_directory_iterator(argv[i]))
      if (each.is_regular_file()) files.push_back(each.path());
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(first), files.end());
  }
  for (const auto& each : files) {
    std::printf("%s\n", each.c_str());
    std::fflush(stdout);
    std::ifstream file(each, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    if (!file) {
      std::fprintf(stderr, "cannot read %s\n", each.c_str());
      return 1;
    }
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
  std::printf("%zu inputs\n", files.size());
  if (files.empty()) std::fputs("no inputs: name files or folders\n", stderr);
  return files.empty() ? 1 : 0;
}
