// SPDX-License-Identifier: Apache-2.0
/// \file
/// "empty": `size` times clEnqueueNDRangeKernel with nothing to do, and clFinish. "chain": small
/// kernels in one queue, and one clFinish. On the first platform's default device, as the
/// environment has it. And kernels (opencl_kernels.cpp).

#include "bench/hetero/opencl.hpp"

namespace tern::bench::hetero {

void must(cl_int code, const char* what) {
  if (code != CL_SUCCESS) throw std::runtime_error(std::string(what) + ": OpenCL error " + std::to_string(code));
}

opened first_device() {
  cl_platform_id platform = nullptr;
  opened cl;
  if (clGetPlatformIDs(1, &platform, nullptr) != CL_SUCCESS) throw not_here("an OpenCL platform (pocl-opencl-icd)");
  if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_DEFAULT, 1, &cl.device, nullptr) != CL_SUCCESS)
    throw not_here("an OpenCL device");
  cl_int code = 0;
  cl.context = clCreateContext(nullptr, 1, &cl.device, nullptr, nullptr, &code);
  must(code, "clCreateContext");
  cl.queue = clCreateCommandQueue(cl.context, cl.device, 0, &code);
  must(code, "clCreateCommandQueue");
  return cl;
}

cl_kernel compile(const opened& cl, const std::string& text, const char* options, const char* name) {
  cl_int code = 0;
  const char* const begin = text.c_str();
  cl_program program = clCreateProgramWithSource(cl.context, 1, const_cast<const char**>(&begin), nullptr, &code);
  must(code, "clCreateProgramWithSource");
  if (clBuildProgram(program, 1, &cl.device, options, nullptr, nullptr) != CL_SUCCESS) {
    std::string log(4096, ' ');
    std::size_t size = 0;
    clGetProgramBuildInfo(program, cl.device, CL_PROGRAM_BUILD_LOG, log.size(), log.data(), &size);
    throw std::runtime_error("the kernels do not compile: " + log.substr(0, log.find('\n'))); // an answer is one line
  }
  cl_kernel kernel = clCreateKernel(program, name, &code);
  must(code, "clCreateKernel");
  return kernel;
}

namespace {

measurement launch_nothing(const job& j) {
  const opened cl = first_device();
  cl_kernel kernel = compile(cl, "kernel void nothing(void) {}", "", "nothing");
  return [cl, kernel, times = j.size] {
    return seconds([&] {
      const std::size_t one = 1;
      for (std::size_t i = 0; i < times; ++i) {
        must(clEnqueueNDRangeKernel(cl.queue, kernel, 1, nullptr, &one, &one, 0, nullptr, nullptr), "launch");
        must(clFinish(cl.queue), "clFinish");
      }
    });
  };
}

/// All in one queue, in order, and one wait for all.
measurement launch_chain(const job& j) {
  const opened cl = first_device();
  cl_kernel kernel = compile(cl,
                             "kernel void stir(global uint* data) { uint v = data[get_global_id(0)];"
                             " for (int i = 0; i < 4000; ++i) v = v * 1664525u + 1013904223u;"
                             " data[get_global_id(0)] = v; }",
                             "", "stir");
  cl_int code = 0;
  static constexpr std::size_t items = 1;
  cl_mem data = clCreateBuffer(cl.context, CL_MEM_READ_WRITE, items * sizeof(cl_uint), nullptr, &code);
  must(code, "clCreateBuffer");
  must(clSetKernelArg(kernel, 0, sizeof data, &data), "clSetKernelArg");
  const auto run = [cl, kernel](std::size_t times) {
    for (std::size_t i = 0; i < times; ++i)
      must(clEnqueueNDRangeKernel(cl.queue, kernel, 1, nullptr, &items, &items, 0, nullptr, nullptr), "launch");
    must(clFinish(cl.queue), "clFinish");
  };
  run(10);
  return [run, times = j.size] { return seconds([&] { run(times); }); };
}

measurement make(const job& j) {
  if (j.benchmark == "empty") return launch_nothing(j);
  if (j.benchmark == "chain") return launch_chain(j);
  if (auto kernels = hand_written_kernels(j)) return kernels;
  unknown(j);
}

} // namespace

} // namespace tern::bench::hetero

int main(int argc, char** argv) {
  using namespace tern::bench::hetero;
  return contestant_main(argc, argv, [](const job& j) { answer_requests(j, make); });
}
