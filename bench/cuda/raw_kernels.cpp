// SPDX-License-Identifier: Apache-2.0
/// \file
/// A stencil, a sum and n bodies, written for GPUs: neighbours that lie one after the other are
/// read together; what several threads need lies in shared memory; sums go through the lanes of a
/// warp.

#include "bench/cuda/problems.hpp"
#include "bench/cuda/raw.hpp"

#include <memory>
#include <vector>

namespace tern::bench::cuda {

namespace {

// Each thread goes up a column, and keeps the points above and below itself.
constexpr const char* smooth_text = R"(extern "C" __global__ void __launch_bounds__(256)
smooth(int n, double centre, double side, const double* __restrict__ in, double* __restrict__ out, int deep) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x + 1, y = blockIdx.y * blockDim.y + threadIdx.y + 1;
  if (x >= n - 1 || y >= n - 1) return;
  const size_t slice = (size_t)n * n;
  const int first = blockIdx.z * deep + 1, last = min(first + deep, n - 1);
  size_t i = first * slice + (size_t)y * n + x;
  double below = in[i - slice], here = in[i];
  for (int z = first; z < last; ++z, i += slice) {
    const double above = in[i + slice];
    out[i] = centre * here + side * (in[i - 1] + in[i + 1] + in[i - n] + in[i + n] + below + above);
    below = here;
    here = above;
  }
})";

constexpr const char* add_text = R"(extern "C" __global__ void __launch_bounds__(512)
add(int n, const double2* __restrict__ in, double* __restrict__ out) {
  double sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    const double2 two = in[i];
    sum += two.x + two.y;
  }
  __shared__ double parts[32];
  for (int half = 16; half > 0; half /= 2) sum += __shfl_down_sync(~0u, sum, half);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0;
    for (int half = 16; half > 0; half /= 2) sum += __shfl_down_sync(~0u, sum, half);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
  }
})";

constexpr const char* attract_text = R"(extern "C" __global__ void __launch_bounds__(256)
attract(int n, float softening, const float4* __restrict__ b, float* __restrict__ ax, float* __restrict__ ay,
        float* __restrict__ az) {
  __shared__ float4 others[256];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float4 me = i < n ? b[i] : make_float4(0, 0, 0, 0);
  float x = 0, y = 0, z = 0;
  for (int first = 0; first < n; first += 256) {
    const int mine = first + threadIdx.x;
    others[threadIdx.x] = mine < n ? b[mine] : make_float4(0, 0, 0, 0);
    __syncthreads();
#pragma unroll 16
    for (int j = 0; j < 256; ++j) {
      const float4 o = others[j];
      const float dx = o.x - me.x, dy = o.y - me.y, dz = o.z - me.z;
      const float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + softening);
      const float strength = o.w * inverse * inverse * inverse;
      x += strength * dx;
      y += strength * dy;
      z += strength * dz;
    }
    __syncthreads();
  }
  if (i < n) ax[i] = x, ay[i] = y, az[i] = z;
})";

/// What a problem has on the host, on the device.
template <class T> cu::pointer on_device(const memory<T>& m, bool filled, cu::stream s) {
  const gpu& g = the_gpu();
  const cu::pointer p = g.allocate(m.size() * sizeof(T));
  if (filled) g.must(g.api.MemcpyHtoDAsync(p, m.data(), m.size() * sizeof(T), s), "copy");
  return p;
}
template <class T> void fetch(const memory<T>& m, cu::pointer from, cu::stream s) {
  const gpu& g = the_gpu();
  g.must(g.api.MemcpyDtoHAsync(m.data(), from, m.size() * sizeof(T), s), "copy");
}
unsigned ceiling(int n, int by) { return static_cast<unsigned>((n + by - 1) / by); }

measurement smooth(const job& j) {
  const gpu& g = the_gpu();
  auto p = std::make_shared<hetero::seven_points>(j.size);
  const cu::function f = g.compile(smooth_text, "smooth");
  const cu::stream s = g.stream();
  const cu::pointer in = on_device(p->in, true, s), out = on_device(p->out, false, s);
  return [=, &g, n = p->n] {
    p->prepare();
    constexpr int deep = 64;
    const double taken = seconds([&] {
      g.launch(f, {{ceiling(n - 2, 64), ceiling(n - 2, 4), ceiling(n - 2, deep)}, {64, 4, 1}}, s, n,
               hetero::seven_points::centre, hetero::seven_points::side, in, out, deep);
      g.wait(s);
    });
    fetch(p->out, out, s);
    g.wait(s);
    p->check();
    return taken;
  };
}

measurement add(const job& j) {
  const gpu& g = the_gpu();
  if (j.size % 2 != 0) throw std::invalid_argument("the sum is of an even number of numbers");
  auto p = std::make_shared<hetero::adding>(j.size);
  const cu::function f = g.compile(add_text, "add");
  const cu::stream s = g.stream();
  constexpr unsigned groups = 1024, items = 512;
  auto parts = std::make_shared<memory<double>>(groups);
  g.lock(parts->data(), groups * sizeof(double));
  const cu::pointer in = on_device(p->in, true, s), out = g.allocate(groups * sizeof(double));
  return [=, &g, n = p->n] {
    p->prepare();
    const double taken = seconds([&] {
      g.launch(f, {{groups, 1, 1}, {items, 1, 1}}, s, n / 2, in, out);
      fetch(*parts, out, s);
      g.wait(s);
      for (unsigned i = 0; i < groups; ++i) p->sum += (*parts)[i];
    });
    p->check();
    return taken;
  };
}

measurement attract(const job& j) {
  const gpu& g = the_gpu();
  auto p = std::make_shared<hetero::pull>(j.size);
  const cu::function f = g.compile(attract_text, "attract");
  const cu::stream s = g.stream();
  const cu::pointer b = on_device(p->bodies, true, s), x = on_device(p->ax, false, s), y = on_device(p->ay, false, s),
                    z = on_device(p->az, false, s);
  return [=, &g, n = p->n] {
    p->prepare();
    const double taken = seconds([&] {
      g.launch(f, {{ceiling(n, 256), 1, 1}, {256, 1, 1}}, s, n, hetero::pull::softening, b, x, y, z);
      g.wait(s);
    });
    fetch(p->ax, x, s);
    fetch(p->ay, y, s);
    fetch(p->az, z, s);
    g.wait(s);
    p->check();
    return taken;
  };
}

} // namespace

measurement kernels(const job& j) {
  if (j.benchmark == "smooth") return smooth(j);
  if (j.benchmark == "add") return add(j);
  if (j.benchmark == "attract") return attract(j);
  return {};
}

} // namespace tern::bench::cuda
