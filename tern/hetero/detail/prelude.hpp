// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the dialect's words mean to the devices' compilers. Internal.

#include <string>
#include <string_view>

#include <tern/hetero/kernel.hpp>

namespace tern::hetero::detail {

enum class language { opencl, cuda };

/// The definitions that come before every block: OpenCL C 1.2, or CUDA C++ as NVRTC compiles it.
std::string_view prelude(language l);

/// A whole program: the definitions and the block.
std::string device_source(const source_block& block, language l);

/// What the device's compiler calls the kernel.
std::string entry_name(const kernel_code& code);

} // namespace tern::hetero::detail
