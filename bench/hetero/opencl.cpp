// SPDX-License-Identifier: Apache-2.0
/// \file
/// "empty": `size` times clEnqueueNDRangeKernel with nothing to do, and clFinish. On the first platform's default
/// device, as the environment has it.

#include "bench/hetero/side.hpp"

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

namespace {

using namespace tern::bench::hetero;

void must(cl_int code, const char* what) {
  if (code != CL_SUCCESS) throw std::runtime_error(std::string(what) + ": OpenCL error " + std::to_string(code));
}

measurement make(const job& j) {
  if (j.benchmark != "empty") unknown(j);
  cl_platform_id platform = nullptr;
  cl_device_id device = nullptr;
  if (clGetPlatformIDs(1, &platform, nullptr) != CL_SUCCESS) throw not_here("an OpenCL platform (pocl-opencl-icd)");
  if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_DEFAULT, 1, &device, nullptr) != CL_SUCCESS)
    throw not_here("an OpenCL device");
  cl_int code = 0;
  // They live as long as the program.
  cl_context context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &code);
  must(code, "clCreateContext");
  cl_command_queue queue = clCreateCommandQueue(context, device, 0, &code);
  must(code, "clCreateCommandQueue");
  const char* text = "kernel void nothing(void) {}";
  cl_program program = clCreateProgramWithSource(context, 1, &text, nullptr, &code);
  must(code, "clCreateProgramWithSource");
  must(clBuildProgram(program, 1, &device, "", nullptr, nullptr), "clBuildProgram");
  cl_kernel kernel = clCreateKernel(program, "nothing", &code);
  must(code, "clCreateKernel");
  return [queue, kernel, times = j.size] {
    return seconds([&] {
      const std::size_t one = 1;
      for (std::size_t i = 0; i < times; ++i) {
        must(clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &one, &one, 0, nullptr, nullptr), "launch");
        must(clFinish(queue), "clFinish");
      }
    });
  };
}

} // namespace

int main(int argc, char** argv) {
  return side_main(argc, argv, [](const job& j) { serve(j, make); });
}
