// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the dialect's words mean to the devices' compilers. Internal.

#include <cstddef>
#include <string>
#include <string_view>

#include <tern/hetero/kernel.hpp>

namespace tern::hetero::detail {

/// `cuda_fused`: kernels that are several at a time.
enum class language { opencl, cuda, cuda_fused };

/// The definitions that come before every block: OpenCL C 1.2, or CUDA C++ as NVRTC compiles it.
std::string_view prelude(language l);

/// A whole program: the definitions and the block.
std::string device_source(const source_block& block, language l);

/// What NVRTC knows without being told, declared for clang, which reads CUDA as well: it comes
/// before the definitions. So the text of kernels can be checked where nothing of NVIDIA's is.
std::string_view clang_cuda();

/// What the device's compiler calls the kernel.
std::string entry_name(const kernel_code& code);
/// The same of the one that is several at a time; its first parameter is a table of so many bytes,
/// the second the bytes of it that each takes. There, an argument lies at a multiple of 16 if its
/// size is one, else of 8.
std::string fused_name(const kernel_code& code);
constexpr std::size_t fused_table_bytes = 2048;

} // namespace tern::hetero::detail
