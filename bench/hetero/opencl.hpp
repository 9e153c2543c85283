// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The parts of OpenCL's contestant.

#include "bench/hetero/contestant.hpp"

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

namespace tern::bench::hetero {

/// \throws std::runtime_error unless it went well.
void must(cl_int code, const char* what);

/// The first platform's default device, as the environment has it. It lives as long as the program.
struct opened {
  cl_device_id device = nullptr;
  cl_context context = nullptr;
  cl_command_queue queue = nullptr;
};
/// \throws not_here
opened first_device();

/// \return the kernel of that name in `text`. \throws std::runtime_error with what the compiler
/// says.
cl_kernel compile(const opened& cl, const std::string& text, const char* options, const char* name);

/// The kernels by hand. \return none if that is not what is meant.
measurement hand_written_kernels(const job& j);

} // namespace tern::bench::hetero
