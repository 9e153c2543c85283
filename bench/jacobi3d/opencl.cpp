// SPDX-License-Identifier: Apache-2.0
/// \file
/// The rival with MPI and OpenCL, as one first writes it: the field stays on the device; a kernel
/// packs each layer, which is copied to the host, sent, received, copied to the device, and
/// unpacked by a kernel.

#include "bench/jacobi3d/mpi.hpp"

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <string>
#include <utility>

namespace {

using namespace tern::bench::jacobi3d;

void must(cl_int code, const char* what) {
  if (code != CL_SUCCESS)
    throw std::runtime_error(std::string(what) + ": error " + std::to_string(code) + " of OpenCL");
}

const char* const text = R"(
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
kernel void sweep(int nx, int ny, int nz, double alpha, double beta, global const double* from, global double* to) {
  const int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
  if (x >= nx || y >= ny || z >= nz) return;
  const int row = nx + 2, plane = row * (ny + 2);
  const int i = (z + 1) * plane + (y + 1) * row + x + 1;
  to[i] = alpha * from[i] + beta * (((((from[i - 1] + from[i + 1]) + from[i - row]) + from[i + row]) +
                                     from[i - plane]) + from[i + plane]);
}
kernel void pack(int first, int fast, int fast_step, int slow_step, global const double* field, global double* layer) {
  const int i = get_global_id(0), k = get_global_id(1);
  layer[k * fast + i] = field[first + i * fast_step + k * slow_step];
}
kernel void unpack(int first, int fast, int fast_step, int slow_step, global double* field, global const double* layer) {
  const int i = get_global_id(0), k = get_global_id(1);
  field[first + i * fast_step + k * slow_step] = layer[k * fast + i];
}
)";

class device {
public:
  device() {
    cl_platform_id platform = nullptr;
    cl_uint found = 0;
    if (clGetPlatformIDs(1, &platform, &found) != CL_SUCCESS || found == 0)
      throw std::runtime_error("no OpenCL platform");
    must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_DEFAULT, 1, &device_, nullptr), "clGetDeviceIDs");
    cl_int e = 0;
    context_ = clCreateContext(nullptr, 1, &device_, nullptr, nullptr, &e);
    must(e, "clCreateContext");
    queue_ = clCreateCommandQueue(context_, device_, 0, &e);
    must(e, "clCreateCommandQueue");
    const char* source = text;
    program_ = clCreateProgramWithSource(context_, 1, &source, nullptr, &e);
    must(e, "clCreateProgramWithSource");
    must(clBuildProgram(program_, 1, &device_, "", nullptr, nullptr), "clBuildProgram");
  }
  cl_kernel kernel(const char* name) const {
    cl_int e = 0;
    cl_kernel const k = clCreateKernel(program_, name, &e);
    must(e, name);
    return k;
  }
  cl_mem memory(std::size_t doubles) const {
    cl_int e = 0;
    cl_mem const m = clCreateBuffer(context_, CL_MEM_READ_WRITE, doubles * sizeof(double), nullptr, &e);
    must(e, "clCreateBuffer");
    return m;
  }
  cl_command_queue queue() const { return queue_; }
  template <class... A>
  void run(cl_kernel k, std::array<std::size_t, 3> items, int dimensions, const A&... values) const {
    cl_uint i = 0;
    (must(clSetKernelArg(k, i++, sizeof values, &values), "clSetKernelArg"), ...);
    must(clEnqueueNDRangeKernel(queue_, k, static_cast<cl_uint>(dimensions), nullptr, items.data(), nullptr, 0, nullptr,
                                nullptr),
         "clEnqueueNDRangeKernel");
  }
  void read(cl_mem from, std::vector<double>& to, bool waits) const {
    must(clEnqueueReadBuffer(queue_, from, waits ? CL_TRUE : CL_FALSE, 0, to.size() * sizeof(double), to.data(), 0,
                             nullptr, nullptr),
         "clEnqueueReadBuffer");
  }
  void write(cl_mem to, const std::vector<double>& from, bool waits) const {
    must(clEnqueueWriteBuffer(queue_, to, waits ? CL_TRUE : CL_FALSE, 0, from.size() * sizeof(double), from.data(), 0,
                              nullptr, nullptr),
         "clEnqueueWriteBuffer");
  }
  void finish() const { must(clFinish(queue_), "clFinish"); }

private:
  cl_device_id device_ = nullptr;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  cl_program program_ = nullptr;
};

void compute(const job& j) {
  const place here(j.n);
  const box& b = here.mine();
  const device cl;
  cl_kernel const sweep = cl.kernel("sweep"), pack = cl.kernel("pack"), unpack = cl.kernel("unpack");
  const auto room = static_cast<std::size_t>(b.room());
  std::vector<double> first(room);
  b.fill(first.data());
  cl_mem now = cl.memory(room), next = cl.memory(room);
  cl.write(now, first, true);
  cl.write(next, first, true);
  auto in = here.layers(), out = here.layers();
  std::array<cl_mem, side_count> layer{};
  for (int s = 0; s < side_count; ++s)
    if (here.has(s)) layer[static_cast<std::size_t>(s)] = cl.memory(out[static_cast<std::size_t>(s)].size());
  const auto copy_layer = [&](cl_kernel how, const layer_place& at, cl_mem with) {
    cl.run(how, {static_cast<std::size_t>(at.fast), static_cast<std::size_t>(at.slow), 1}, 2, cl_int{at.first},
           cl_int{at.fast}, cl_int{at.fast_step}, cl_int{at.slow_step}, now, with);
  };
  const auto size = [&](std::size_t d) { return static_cast<std::size_t>(b.size[d]); };
  const auto iterate = [&](std::int64_t iterations) {
    std::vector<MPI_Request> receives, sends;
    for (std::int64_t k = 0; k < iterations; ++k) {
      receives.clear();
      sends.clear();
      receives.reserve(side_count);
      sends.reserve(side_count);
      here.receive(in, receives);
      for (std::size_t s = 0; s < side_count; ++s)
        if (layer[s]) {
          copy_layer(pack, b.layer(static_cast<int>(s), 0), layer[s]);
          cl.read(layer[s], out[s], false);
        }
      cl.finish();
      for (int s = 0; s < side_count; ++s)
        if (here.has(s)) here.send(s, out[static_cast<std::size_t>(s)], sends);
      MPI_Waitall(static_cast<int>(receives.size()), receives.data(), MPI_STATUSES_IGNORE);
      for (std::size_t s = 0; s < side_count; ++s)
        if (layer[s]) {
          cl.write(layer[s], in[s], false);
          copy_layer(unpack, b.layer(static_cast<int>(s), 1), layer[s]);
        }
      cl.run(sweep, {size(0), size(1), size(2)}, 3, static_cast<cl_int>(b.size[0]), static_cast<cl_int>(b.size[1]),
             static_cast<cl_int>(b.size[2]), alpha, beta, now, next);
      MPI_Waitall(static_cast<int>(sends.size()), sends.data(), MPI_STATUSES_IGNORE);
      cl.finish(); // what has been received may be overwritten from here on
      std::swap(now, next);
    }
  };
  iterate(1); // compiles
  cl.write(now, first, true);
  cl.write(next, first, true);
  here.barrier();
  const double began = tern::bench::seconds();
  iterate(j.iterations);
  const double taken = tern::bench::seconds() - began;
  cl.read(now, first, true);
  here.report(taken, b.hash(first.data()));
}

} // namespace

int main(int argc, char** argv) { return mpi_main(argc, argv, true, compute); }
