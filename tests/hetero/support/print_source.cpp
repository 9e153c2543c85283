// SPDX-License-Identifier: Apache-2.0
// Prints a block of a file's kernels as compilers of OpenCL get it (`opencl`), as clang gets it for
// CUDA (`cuda`, `cuda_fused`), as the host's where accesses are checked (`checked`); or the names
// of its kernels.
#include <cstdio>
#include <exception>
#include <string>

#include "tests/hetero/support/blocks.hpp"
#include <tern/hetero/checked/checked.hpp>
#include <tern/hetero/kernel/prelude.hpp>

namespace {

using namespace tern::hetero;

std::string printed(const std::string& wanted, const block_in_file& block) {
  if (wanted == "opencl") return detail::device_source(block.as_source(), detail::language::opencl);
  if (wanted == "checked") return detail::checked_source(block.as_source(), detail::checked_form::parts);
  if (wanted == "cuda") return detail::device_source(block.as_source(), detail::language::cuda_clang);
  if (wanted == "cuda_fused") return detail::device_source(block.as_source(), detail::language::cuda_clang_fused);
  std::string names;
  for (const std::string& kernel : block.kernels) names += kernel + "\n";
  return names;
}

} // namespace

int main(int argc, char** argv) {
  const std::string wanted = argc == 4 ? argv[1] : "";
  if (wanted != "opencl" && wanted != "cuda" && wanted != "cuda_fused" && wanted != "checked" && wanted != "kernels") {
    std::fputs("usage: hetero_print_source opencl|cuda|cuda_fused|checked|kernels FILE BLOCK\n", stderr);
    return 2;
  }
  try {
    for (const block_in_file& block : blocks_in(argv[2]))
      if (block.name == argv[3]) return std::fputs(printed(wanted, block).c_str(), stdout) < 0;
    std::fprintf(stderr, "%s has no block '%s'\n", argv[2], argv[3]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
  }
  return 1;
}
