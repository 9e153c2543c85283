// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the dialect's words mean to the devices' compilers. Internal.

#include <cstddef>
#include <string>
#include <string_view>

#include <tern/hetero/kernel.hpp>

namespace tern::hetero::detail {

/// `cuda` is for NVRTC, `cuda_clang` for clang, which reads CUDA as well. `fused`: kernels that are
/// several at a time; in OpenCL the block is to be what `fused_text` makes of it.
enum class language { opencl, opencl_fused, cuda, cuda_fused, cuda_clang, cuda_clang_fused };

/// The definitions that come before every block: OpenCL C 1.2, or CUDA C++.
std::string_view prelude(language l);

/// A whole program: the definitions and the block. Not for `opencl_fused`.
std::string device_source(const source_block& block, language l);

/// What NVRTC knows without being told, defined for clang; it comes before the definitions. So the
/// text of kernels can be compiled where nothing of NVIDIA's is. And what comes after them:
/// functions that clang does not have, by those of device_math.hpp.
std::string_view clang_cuda();
std::string_view clang_cuda_functions();

/// A kernel of CUDA's has at most 48 KiB of a group's memory of its own. What its blocks take
/// beyond that, it is to be given at the end of its dynamic memory: 16 bytes for each byte of this
/// symbol of its module but one. Kernels that macros make have no such symbol: they get what the
/// largest of the module needs.
std::string large_symbol(const kernel_code& code);
constexpr const char* largest_symbol = "tern_large_blocks";

/// What the device's compiler calls the kernel.
std::string entry_name(const kernel_code& code);
/// The same of the one that is several at a time. In CUDA its first parameter is a table of so many
/// bytes, the second the bytes of it that each takes. There, an argument lies at a multiple of 16
/// if its size is one, else of 8.
std::string fused_name(const kernel_code& code);
constexpr std::size_t fused_table_bytes = 2048;

} // namespace tern::hetero::detail
