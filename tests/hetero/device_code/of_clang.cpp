// SPDX-License-Identifier: Apache-2.0
// A program into which tern_device_code has put PTX that clang made: it is found by the text, has
// all kernels, and calls nothing that is not there.
#include <cstdio>
#include <string>
#include <string_view>

#include "tests/hetero/support/kernels.hpp"
#include <tern/hetero/kernel/device_code.hpp>

int main() {
  using namespace tern::hetero;
  const source_block& block = test_kernels::axpy.source();
  std::string found;
  for (const bool contracted : {true, false}) {
    const detail::made_code* const made =
        detail::find_made_code(block.name, detail::hash_of_text(block), 90, contracted).code;
    if (!made) return std::puts("there is none"), 1;
    for (const char* kernel : {"nothing", "axpy", "who", "dgemm_tiled"})
      if (made->image.find(".entry tern_kernel_" + std::string(kernel)) == made->image.npos)
        return std::printf("there is no %s\n", kernel), 1;
    if (made->image.find(".extern .func") != made->image.npos) return std::puts("a function is missing"), 1;
    if (made->image.data()[made->image.size()] != '\0') return std::puts("it does not end"), 1;
    if ((made->image.find("add.rn.f64") == made->image.npos) != contracted) return std::puts("contraction is wrong"), 1;
    if (detail::find_made_code(block.name, detail::hash_of_text(block), 60, contracted).code)
      return std::puts("it is for devices that are too old"), 1;
    const detail::made_code* const fused =
        detail::find_made_code(block.name, detail::hash_of_text(block, true), 90, contracted, true).code;
    if (!fused) return std::puts("there is none of kernels that are several at a time"), 1;
    if (fused->image.find(".entry tern_fused_axpy") == fused->image.npos) return std::puts("there is no fused axpy"), 1;
    // Each item would copy the table of all arguments.
    if (fused->image.find("__local_depot") != fused->image.npos) return std::puts("arguments are copied"), 1;
    found += (found.empty() ? "" : ", ") + std::string(contracted ? "contracted" : "not contracted");
  }
  std::printf("PTX for compute capability 7.0: %s\n", found.c_str());
}
