// SPDX-License-Identifier: Apache-2.0
// Prints the tests' kernels as `opencl` or `cuda` compilers get them.
#include <cstdio>
#include <string_view>

#include <tern/hetero/detail/prelude.hpp>
#include <tern/hetero/kernels_test.hpp>

int main(int argc, char** argv) {
  using namespace tern::hetero;
  const std::string_view wanted = argc == 2 ? argv[1] : "";
  if (wanted != "opencl" && wanted != "cuda") {
    std::fputs("usage: hetero_print_source opencl|cuda\n", stderr);
    return 2;
  }
  const auto language = wanted == "opencl" ? detail::language::opencl : detail::language::cuda;
  std::fputs(detail::device_source(test_kernels::axpy.source(), language).c_str(), stdout);
  return 0;
}
