// SPDX-License-Identifier: Apache-2.0
/// \file
/// cuBLAS and cuSOLVER by themselves.

#include "bench/cuda/factors.hpp"
#include "bench/cuda/problems.hpp"
#include "bench/cuda/raw.hpp"
#include "examples/cuda_libraries.hpp"

#include <memory>

namespace tern::bench::cuda {

namespace {

constexpr const char* fill_text = R"(extern "C" __global__ void fill(int n, double* a) {
  const size_t i = blockIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j < n) a[i * n + j] = 1.0 / (1 + (i > j ? i - j : j - i)) + (i == j ? n : 0);
})";

tern::native_queue queue_of(cu::stream s) {
  cu::context now = nullptr;
  the_gpu().must(the_gpu().api.CtxGetCurrent(&now), "find the context");
  return {tern::hetero::device_kind::cuda, "cuda0", s, now, nullptr};
}

measurement product(const job& j) {
  const gpu& g = the_gpu();
  auto p = std::make_shared<hetero::multiplication>(j.size);
  const std::size_t bytes = j.size * j.size * sizeof(double);
  const cu::stream s = g.stream();
  const cu::pointer a = g.allocate(bytes), b = g.allocate(bytes), c = g.allocate(bytes);
  g.must(g.api.MemcpyHtoDAsync(a, p->a.data(), bytes, s), "copy");
  g.must(g.api.MemcpyHtoDAsync(b, p->b.data(), bytes, s), "copy");
  g.wait(s);
  const auto at = [](cu::pointer x) { return reinterpret_cast<double*>(x); };
  const auto run = [=, &g, n = p->n] { // by columns it is c^T = b^T a^T
    using cuda_libraries::plain;
    cuda_libraries::blas::here(queue_of(s)).gemm(plain, plain, n, n, n, 1, at(b), n, at(a), n, 0, at(c), n);
    g.wait(s);
  };
  run();
  return [=, &g] {
    p->prepare();
    const double taken = seconds(run);
    g.must(g.api.MemcpyDtoHAsync(p->c.data(), c, bytes, s), "copy");
    g.wait(s);
    p->check();
    return taken;
  };
}

measurement cholesky(const job& j) {
  const gpu& g = the_gpu();
  want_host_memory(j.size * j.size * sizeof(double));
  auto p = std::make_shared<factored>(j.size);
  const auto n = static_cast<int>(j.size);
  const std::size_t bytes = j.size * j.size * sizeof(double);
  const cu::stream s = g.stream();
  const cu::function fill = g.compile(fill_text, "fill");
  const cu::pointer a = g.allocate(bytes), info = g.allocate(sizeof(int));
  auto* const at = reinterpret_cast<double*>(a);
  const int room = cuda_libraries::solver::here(queue_of(s)).potrf_room(n, at, n);
  const cu::pointer work = g.allocate(static_cast<std::size_t>(room) * sizeof(double));
  return [=, &g] {
    g.launch(fill, {{(static_cast<unsigned>(n) + 255) / 256, static_cast<unsigned>(n), 1}, {256, 1, 1}}, s, n, a);
    g.wait(s);
    const double taken = seconds([&] {
      cuda_libraries::solver::here(queue_of(s))
          .potrf(n, at, n, reinterpret_cast<double*>(work), room, reinterpret_cast<int*>(info));
      g.wait(s);
    });
    g.must(g.api.MemcpyDtoHAsync(p->l.data(), a, bytes, s), "copy");
    g.wait(s);
    p->check();
    return taken;
  };
}

} // namespace

measurement libraries(const job& j) {
  try {
    if (j.benchmark == "cublas") return product(j);
    if (j.benchmark == "cholesky") return cholesky(j);
  } catch (const tern::error& e) {
    if (e.code() == tern::errc::not_found) throw not_here(e.message());
    throw;
  }
  return {};
}

} // namespace tern::bench::cuda
