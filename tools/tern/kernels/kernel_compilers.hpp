// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What of this machine compiles kernels for devices: what programs use when they run, else clang,
/// which reads OpenCL C and CUDA C++ as well.

#include <memory>
#include <string>
#include <vector>

#include <tern/base/options.hpp>
#include <tern/hetero/kernel.hpp>

namespace CLI {
class App;
}

namespace tern::tool {

/// Adds `tern kernels ptx` (kernel_ptx.cpp).
void add_kernels_ptx(CLI::App& kernels, int& code);

/// A compiler for one kind of device. In one thread.
class kernel_compiler {
public:
  virtual ~kernel_compiler() = default;
  kernel_compiler() = default;
  kernel_compiler(const kernel_compiler&) = delete;
  kernel_compiler& operator=(const kernel_compiler&) = delete;
  virtual std::string text() const = 0; ///< "NVRTC 12.4"
  /// Compiles a block of kernels, and forgets it. \throws error(invalid_data) with what the
  /// compiler says, as a program does that meets it when it runs; what `text_of` throws;
  /// error(device_failed).
  virtual void compile(const hetero::source_block& block) = 0;
};

/// All for one kind of device.
struct compilers_of_kind {
  std::string kind; ///< "opencl"
  std::vector<std::unique_ptr<kernel_compiler>> all;
  std::string why_none; ///< if there is none
};

/// For OpenCL: its devices, each driver once; else clang. For CUDA: NVRTC, else clang.
std::vector<compilers_of_kind> find_kernel_compilers(const options& opts);

} // namespace tern::tool
