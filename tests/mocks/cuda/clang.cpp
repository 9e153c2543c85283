// SPDX-License-Identifier: Apache-2.0
// A program that is called as clang is by `tern kernels ptx`, and makes PTX that the mock driver
// loads, by the mock NVRTC. It reads the program from its standard input. What is for clang alone
// is left out: the definitions before those of CUDA, and functions that NVRTC has itself.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include <dlfcn.h>

#include <tern/hetero/device/cuda/nvrtc.hpp>

namespace {

namespace nvrtc = tern::hetero::detail::nvrtc;
using table = tern::hetero::detail::nvrtc_api;

template <class F> F* find(F* table::*, const char* name) {
  static void* const library = dlopen(MOCK_NVRTC, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<F*>(dlsym(library, name));
}

std::string for_nvrtc(std::string text) {
  text.erase(0, text.find("#ifdef __NVCC_DIAG_PRAGMA_SUPPORT__")); // where CUDA's definitions begin
  const std::size_t math = text.find("// A sum of two numbers"),
                    block = text.find("#pragma clang force_cuda_host_device");
  if (math != text.npos && block != text.npos) text.erase(math, block - math);
  return text;
}

} // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  std::string to;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--version") return std::puts("mock clang version 14.0.0") < 0;
    if (words[i] == "-o" && i + 1 < words.size()) to = words[i + 1];
  }
  const std::string text = for_nvrtc({std::istreambuf_iterator<char>(std::cin), {}});
  nvrtc::program p = nullptr;
  std::size_t size = 0;
  const char* const options[] = {"--gpu-architecture=compute_75", "--device-as-default-execution-space"};
  find(&table::CreateProgram, "nvrtcCreateProgram")(&p, text.c_str(), "kernels.cu", 0, nullptr, nullptr);
  const bool compiled = find(&table::CompileProgram, "nvrtcCompileProgram")(p, 2, options) == nvrtc::success;
  const auto size_of = compiled ? find(&table::GetPTXSize, "nvrtcGetPTXSize")
                                : find(&table::GetProgramLogSize, "nvrtcGetProgramLogSize");
  const auto get = compiled ? find(&table::GetPTX, "nvrtcGetPTX") : find(&table::GetProgramLog, "nvrtcGetProgramLog");
  std::string made;
  if (size_of(p, &size) == nvrtc::success) made.resize(size);
  get(p, made.data());
  find(&table::DestroyProgram, "nvrtcDestroyProgram")(&p);
  made.resize(made.find_last_not_of('\0') + 1);
  if (compiled) return (std::ofstream(to, std::ios::binary) << made).flush() ? 0 : 1;
  std::fputs(made.c_str(), stderr);
  return 1;
}
