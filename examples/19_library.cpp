// SPDX-License-Identifier: Apache-2.0
// NVIDIA's libraries: the factorization of 18_variants. Tasks call cuBLAS and cuSOLVER on a GPU,
// and are functions on the host. The first task on a GPU opens both libraries: the build needs no
// CUDA.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "cuda_libraries.hpp"

#include <tern/tern.hpp>

namespace {

using host_tile = tern::host_view<double, 2>;
using host_input = tern::host_view<const double, 2>;
using tile_there = tern::device_view<double, 2>;
using input_there = tern::device_view<const double, 2>;
using tern::native_queue;

constexpr int size = 256, tile = 64, count = size / tile;

template <class F> auto on_gpu(F f) { return tern::on_queue(tern::hetero::device_kind::cuda, f); }
int rows(std::int64_t pitch) { return static_cast<int>(pitch); }

// Tern stores matrices by rows, the libraries by columns: lower half here, upper half there.

// t becomes l, where t = l l^T. The solver needs a workspace, and stores its status in `info`.
const auto factor = tern::variants(
    [](host_tile t, tern::host_view<double, 1>, tern::host_view<int, 1> info) {
      for (int j = 0; j < tile; ++j) {
        for (int k = 0; k < j; ++k)
          for (int i = j; i < tile; ++i) t(i, j) -= t(i, k) * t(j, k);
        const double d = std::sqrt(t(j, j));
        for (int i = j; i < tile; ++i) t(i, j) /= d;
      }
      info[0] = 0;
    },
    on_gpu([](const native_queue& q, tile_there t, tern::device_view<double, 1> work, tern::device_view<int, 1> info) {
      const auto& s = cuda_libraries::solver::here(q);
      const int room = s.potrf_room(tile, t.address(), rows(t.pitch));
      if (room > work.size[0]) throw tern::error(tern::errc::invalid_argument, "cuSOLVER wants more room");
      s.potrf(tile, t.address(), rows(t.pitch), work.address(), room, info.address());
    }));

// t = t l^-T
const auto solve = tern::variants(
    [](host_input l, host_tile t) {
      for (int i = 0; i < tile; ++i)
        for (int j = 0; j < tile; ++j) {
          for (int k = 0; k < j; ++k) t(i, j) -= t(i, k) * l(j, k);
          t(i, j) /= l(j, j);
        }
    },
    on_gpu([](const native_queue& q, input_there l, tile_there t) {
      cuda_libraries::blas::here(q).trsm(tile, tile, l.address(), rows(l.pitch), t.address(), rows(t.pitch));
    }));

// c -= a b^T
const auto update = tern::variants(
    [](host_input a, host_input b, host_tile c) {
      for (int i = 0; i < tile; ++i)
        for (int j = 0; j < tile; ++j)
          for (int k = 0; k < tile; ++k) c(i, j) -= a(i, k) * b(j, k);
    },
    on_gpu([](const native_queue& q, input_there a, input_there b, tile_there c) {
      using cuda_libraries::plain, cuda_libraries::transposed;
      cuda_libraries::blas::here(q).gemm(transposed, plain, tile, tile, tile, -1, b.address(), rows(b.pitch),
                                         a.address(), rows(a.pitch), 1, c.address(), rows(c.pitch));
    }));
// c -= a a^T, for a tile on the diagonal: half of the work
const auto update_diagonal = tern::variants(
    [](host_input a, host_tile c) {
      for (int i = 0; i < tile; ++i)
        for (int j = 0; j <= i; ++j)
          for (int k = 0; k < tile; ++k) c(i, j) -= a(i, k) * a(j, k);
    },
    on_gpu([](const native_queue& q, input_there a, tile_there c) {
      cuda_libraries::blas::here(q).syrk(tile, tile, -1, a.address(), rows(a.pitch), 1, c.address(), rows(c.pitch));
    }));

} // namespace

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    const auto element = [](int i, int j) { return 1.0 / (1 + std::abs(i - j)) + (i == j ? size : 0); };
    tern::hetero_object<double, 2> a({size, size});
    {
      auto host = a.host(tern::access_mode::write).get();
      for (int i = 0; i < size; ++i)
        for (int j = 0; j < size; ++j) host(i, j) = element(i, j);
    }
    const tern::hetero_object<double> work(std::int64_t{tile} * tile);
    const tern::hetero_object<int> info(count, 0);
    const auto t = a.tiles({tile, tile});
    for (int k = 0; k < count; ++k) {
      tern::submit(factor, tern::read_write(t(k, k)), tern::write(work), tern::write(info.part({k}, {k + 1})));
      for (int i = k + 1; i < count; ++i) tern::submit(solve, tern::read(t(k, k)), tern::read_write(t(i, k)));
      for (int i = k + 1; i < count; ++i) {
        tern::submit(update_diagonal, tern::read(t(i, k)), tern::read_write(t(i, i)));
        for (int j = k + 1; j < i; ++j)
          tern::submit(update, tern::read(t(i, k)), tern::read(t(j, k)), tern::read_write(t(i, j)));
      }
    }
    for (const int failed : info.host(tern::access_mode::read).get())
      if (failed != 0) throw tern::error(tern::errc::invalid_data, "the matrix is not positive definite");
    auto l = a.host(tern::access_mode::read).get();
    double worst = 0;
    for (int i = 0; i < size; ++i)
      for (int j = 0; j <= i; ++j) {
        double sum = 0;
        for (int k = 0; k <= j; ++k) sum += l(i, k) * l(j, k);
        worst = std::max(worst, std::abs(sum - element(i, j)));
      }
    if (tern::rank() == 0) std::printf("largest error %.1e\n", worst);
    return worst < 1e-10 ? 0 : 1;
  });
}
