// SPDX-License-Identifier: Apache-2.0
/// \file
/// What the kernels of the dialect compute (kernels.hpp), in OpenCL C by hand, in groups of the
/// same sizes. Each has two forms: the usual one, and ("…_barrier") one with a barrier at its
/// beginning. The kernel does not need that barrier. PoCL 3.1 exchanges a loop that all items go
/// through with the loop over the items, but only in kernels with a barrier. The items of a step
/// are then vectorised, or their sums go through memory. An expert in PoCL tries both forms.

#include "bench/hetero/opencl.hpp"
#include "bench/hetero/problems.hpp"

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tern::bench::hetero {

namespace {

constexpr const char* kernels = R"(
#define TILE 32

kernel void multiply(int n, global const double* restrict a, global const double* restrict b,
                     global double* restrict c) {
  FIRST
  const int x = get_global_id(0), y = get_global_id(1);
  double sum = 0;
  for (int k = 0; k < n; ++k) sum += a[y * n + k] * b[k * n + x];
  c[y * n + x] = sum;
}

// Four products for each step: a good deal faster than one, or than all 32 unrolled.
kernel __attribute__((reqd_work_group_size(TILE, TILE, 1)))
void tiles(int n, global const double* restrict a, global const double* restrict b,
                            global double* restrict c) {
  local double as[TILE][TILE], bs[TILE][TILE];
  FIRST
  const int x = get_global_id(0), y = get_global_id(1), lx = get_local_id(0), ly = get_local_id(1);
  double sum = 0;
  for (int t = 0; t < n; t += TILE) {
    as[ly][lx] = a[y * n + t + lx];
    bs[ly][lx] = b[(t + ly) * n + x];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < TILE; k += 4)
      sum = sum + as[ly][k] * bs[k][lx] + as[ly][k + 1] * bs[k + 1][lx] + as[ly][k + 2] * bs[k + 2][lx] +
             as[ly][k + 3] * bs[k + 3][lx];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  c[y * n + x] = sum;
}

// An item is a point inside: the first is (1, 1, 1).
kernel void smooth(int n, double centre, double side, global const double* restrict in,
                   global double* restrict out) {
  FIRST
  const int x = get_global_id(0) + 1, y = get_global_id(1) + 1, z = get_global_id(2) + 1;
  if (x >= n - 1 || y >= n - 1 || z >= n - 1) return;
  const int i = (z * n + y) * n + x;
  out[i] = centre * in[i] + side * (in[i - 1] + in[i + 1] + in[i - n] + in[i + n] + in[i - n * n] + in[i + n * n]);
}

kernel void attract(int n, float softening, global const float4* restrict b, global float* restrict ax,
                    global float* restrict ay, global float* restrict az) {
  FIRST
  const int i = get_global_id(0);
  const float3 at = b[i].xyz;
  float3 sum = 0;
  for (int j = 0; j < n; ++j) {
    const float4 other = b[j];
    const float3 d = other.xyz - at;
    const float squared = dot(d, d) + softening;
    sum += other.w / (squared * sqrt(squared)) * d;
  }
  ax[i] = sum.x;
  ay[i] = sum.y;
  az[i] = sum.z;
}

// The sum of each group's part, whose numbers lie side by side. Steps through all of them, as GPUs
// like it, would take twice as long.
kernel void add(int n, global const double* restrict in, global double* restrict out) {
  local double parts[GROUP];
  FIRST
  const int me = get_local_id(0), each = (n + get_num_groups(0) - 1) / get_num_groups(0);
  const int first = get_group_id(0) * each, last = min(n, first + each);
  double sum = 0;
  for (int i = first; i < last; i += GROUP)
    if (i + me < last) sum += in[i + me];
  parts[me] = sum;
  for (int width = GROUP / 2; width > 0; width /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me < width) parts[me] += parts[me + width];
  }
  if (me == 0) out[get_group_id(0)] = parts[0];
}
)";

using sizes = std::array<std::size_t, 3>;

/// A kernel and the problem's memory, in which the device works.
class by_hand {
public:
  static constexpr std::size_t group = 256, groups = 64; ///< of `add`

  by_hand(const std::string& name, bool barrier) : cl_(first_device()) {
    const std::string text = std::string("#define FIRST ") + (barrier ? "barrier(CLK_LOCAL_MEM_FENCE);" : "") +
                             "\n#define GROUP " + std::to_string(group) + kernels;
    kernel_ = compile(cl_, text, "-cl-std=CL1.2", name.c_str());
  }

  template <class T> void next(T value) {
    must(clSetKernelArg(kernel_, arguments_++, sizeof value, &value), "clSetKernelArg");
  }
  template <class T> void next(const memory<T>& m, cl_mem_flags how) {
    cl_int code = 0;
    const std::size_t bytes = m.size() * sizeof(T);
    cl_mem buffer = clCreateBuffer(cl_.context, how | CL_MEM_USE_HOST_PTR, bytes, m.data(), &code);
    must(code, "clCreateBuffer");
    next(buffer);
    if (how != CL_MEM_READ_ONLY) written_.emplace_back(buffer, bytes);
  }
  /// For so many items at least.
  void launch(sizes items, const sizes& of_group) const {
    for (std::size_t d = 0; d < 3; ++d) items[d] = (items[d] + of_group[d] - 1) / of_group[d] * of_group[d];
    must(clEnqueueNDRangeKernel(cl_.queue, kernel_, 3, nullptr, items.data(), of_group.data(), 0, nullptr, nullptr),
         "clEnqueueNDRangeKernel");
    must(clFinish(cl_.queue), "clFinish");
  }
  /// `work` looks at what the kernel writes, or writes it.
  template <class F> void on_host(cl_map_flags how, F work) const {
    std::vector<std::pair<cl_mem, void*>> mapped;
    for (const auto& [buffer, bytes] : written_) {
      cl_int code = 0;
      void* const at = clEnqueueMapBuffer(cl_.queue, buffer, CL_TRUE, how, 0, bytes, 0, nullptr, nullptr, &code);
      must(code, "clEnqueueMapBuffer");
      mapped.emplace_back(buffer, at);
    }
    work();
    for (const auto& [buffer, at] : mapped)
      must(clEnqueueUnmapMemObject(cl_.queue, buffer, at, 0, nullptr, nullptr), "clEnqueueUnmapMemObject");
    must(clFinish(cl_.queue), "clFinish");
  }

private:
  opened cl_; // all of it lives as long as the program
  cl_kernel kernel_ = nullptr;
  cl_uint arguments_ = 0;
  std::vector<std::pair<cl_mem, std::size_t>> written_;
};

struct form {
  std::string name;
  bool barrier;
};

/// `run` launches, and waits.
template <class Problem, class Run>
measurement timed(std::shared_ptr<Problem> p, std::shared_ptr<by_hand> kernel, Run run) {
  run(); // compiles the kernel for groups of that size
  return [=] {
    kernel->on_host(CL_MAP_WRITE, [&] { p->prepare(); });
    const double taken = seconds(run);
    kernel->on_host(CL_MAP_READ, [&] { p->check(); });
    return taken;
  };
}

measurement multiply(const job& j, const form& f, const sizes& group) {
  auto p = std::make_shared<multiplication>(j.size);
  auto k = std::make_shared<by_hand>(f.name, f.barrier);
  k->next(p->n);
  k->next(p->a, CL_MEM_READ_ONLY);
  k->next(p->b, CL_MEM_READ_ONLY);
  k->next(p->c, CL_MEM_WRITE_ONLY);
  return timed(p, k, [k, group, n = j.size] { k->launch({n, n, 1}, group); });
}

measurement smooth(const job& j, const form& f) {
  auto p = std::make_shared<seven_points>(j.size);
  auto k = std::make_shared<by_hand>(f.name, f.barrier);
  k->next(p->n);
  k->next(double{seven_points::centre});
  k->next(double{seven_points::side});
  k->next(p->in, CL_MEM_READ_ONLY);
  k->next(p->out, CL_MEM_WRITE_ONLY);
  return timed(p, k, [k, inside = j.size - 2] { k->launch({inside, inside, inside}, {256, 4, 1}); });
}

measurement attract(const job& j, const form& f) {
  auto p = std::make_shared<pull>(j.size);
  auto k = std::make_shared<by_hand>(f.name, f.barrier);
  k->next(p->n);
  k->next(float{pull::softening});
  k->next(p->bodies, CL_MEM_READ_ONLY);
  k->next(p->ax, CL_MEM_WRITE_ONLY);
  k->next(p->ay, CL_MEM_WRITE_ONLY);
  k->next(p->az, CL_MEM_WRITE_ONLY);
  return timed(p, k, [k, n = j.size] { k->launch({n, 1, 1}, {128, 1, 1}); });
}

measurement add(const job& j, const form& f) {
  auto p = std::make_shared<adding>(j.size);
  auto parts = std::make_shared<memory<double>>(by_hand::groups);
  auto k = std::make_shared<by_hand>(f.name, f.barrier);
  k->next(p->n);
  k->next(p->in, CL_MEM_READ_ONLY);
  k->next(*parts, CL_MEM_WRITE_ONLY);
  return timed(p, k, [p, k, parts] {
    k->launch({by_hand::groups * by_hand::group, 1, 1}, {by_hand::group, 1, 1});
    k->on_host(CL_MAP_READ, [&] {
      for (std::size_t i = 0; i < parts->size(); ++i) p->sum += (*parts)[i];
    });
  });
}

} // namespace

measurement hand_written_kernels(const job& j) {
  const std::string suffix = "_barrier";
  form f{j.benchmark, j.benchmark.ends_with(suffix)};
  if (f.barrier) f.name.resize(f.name.size() - suffix.size());
  if (f.name == "multiply") return multiply(j, f, {256, 4, 1});
  if (f.name == "tiles") return multiply(j, f, {32, 32, 1});
  if (f.name == "smooth") return smooth(j, f);
  if (f.name == "attract") return attract(j, f);
  if (f.name == "add") return add(j, f);
  return {};
}

} // namespace tern::bench::hetero
