// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tasks of cuBLAS and cuSOLVER, with data that lie on the device.

#include "bench/cuda/factors.hpp"
#include "bench/cuda/problems.hpp"
#include "bench/cuda/tern.hpp"
#include "examples/cuda_libraries.hpp"

#include <cstring>
#include <memory>
#include <vector>

#include <tern/hetero/dialect.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/hetero/variants.hpp>

TERN_KERNELS_BEGIN(cuda_bench_factors)
// Rows from i and columns from j on, of n.
TERN_KERNEL(fill, int n, int rows, int columns, int i, int j, TERN_GLOBAL double* a) {
  TERN_REGION_IN(columns, rows, 1) {
    const int y = i + item.y, x = j + item.x;
    a[item.y * columns + item.x] = 1.0 / (1 + (y > x ? y - x : x - y)) + (y == x ? n : 0);
  };
}
TERN_KERNELS_END(cuda_bench_factors)

namespace tern::bench::cuda {

namespace {

using matrix = tern::hetero_object<double, 2>;
using there = tern::device_view<double, 2>;
using input = tern::device_view<const double, 2>;
using tern::native_queue;
namespace lib = cuda_libraries;

template <class F> auto on_gpu(F f) { return tern::variants(tern::on_queue(tern::hetero::device_kind::cuda, f)); }
int rows(std::int64_t pitch) { return static_cast<int>(pitch); }

measurement product(const job& j) {
  auto p = std::make_shared<hetero::multiplication>(j.size);
  const std::int64_t n = p->n;
  const auto object = [&](const memory<double>& m) {
    const matrix o({n, n});
    std::memcpy(o.host(tern::access_mode::write).get().data(), m.data(), m.size() * sizeof(double));
    return o;
  };
  const auto a = object(p->a), b = object(p->b), c = matrix({n, n});
  const auto run = [=] {
    tern::submit(on_gpu([n](const native_queue& q, input x, input y, there z) {
                   const auto m = static_cast<int>(n);
                   lib::blas::here(q).gemm(lib::plain, lib::plain, m, m, m, 1, y.address(), rows(y.pitch), x.address(),
                                           rows(x.pitch), 0, z.address(), rows(z.pitch));
                 }),
                 tern::read(a), tern::read(b), tern::write(c));
    tern::wait_all();
  };
  run();
  return [=] {
    p->prepare();
    const double taken = seconds(run);
    std::memcpy(p->c.data(), c.host(tern::access_mode::read).get().data(), p->c.size() * sizeof(double));
    p->check();
    return taken;
  };
}

measurement cholesky(const job& j) {
  want_host_memory(2 * j.size * j.size * sizeof(double)); // with the tiles
  auto p = std::make_shared<factored>(j.size);
  const std::size_t tile = j.size >= 4096 ? 4096 : 16, count = j.size / tile;
  const auto n = static_cast<std::int64_t>(tile);
  auto tiles = std::make_shared<std::vector<matrix>>();
  for (std::size_t i = 0; i < count * (count + 1) / 2; ++i) tiles->push_back(matrix({n, n}));
  const auto at = [tiles](std::size_t i, std::size_t k) -> const matrix& { return (*tiles)[i * (i + 1) / 2 + k]; };
  const tern::hetero_object<double> work(n * n);
  const tern::hetero_object<int> info(1);
  const auto m = static_cast<int>(tile);
  const auto factor =
      on_gpu([m](const native_queue& q, there t, tern::device_view<double, 1> w, tern::device_view<int, 1> says) {
        const auto& s = lib::solver::here(q);
        const int room = s.potrf_room(m, t.address(), rows(t.pitch));
        if (room > w.size[0]) throw std::runtime_error("cuSOLVER wants more room than a tile has");
        s.potrf(m, t.address(), rows(t.pitch), w.address(), room, says.address());
      });
  const auto solve = on_gpu([m](const native_queue& q, input l, there t) {
    lib::blas::here(q).trsm(m, m, l.address(), rows(l.pitch), t.address(), rows(t.pitch));
  });
  const auto update = on_gpu([m](const native_queue& q, input a, input b, there c) {
    lib::blas::here(q).gemm(lib::transposed, lib::plain, m, m, m, -1, b.address(), rows(b.pitch), a.address(),
                            rows(a.pitch), 1, c.address(), rows(c.pitch));
  });
  const auto update_diagonal = on_gpu([m](const native_queue& q, input a, there c) {
    lib::blas::here(q).syrk(m, m, -1, a.address(), rows(a.pitch), 1, c.address(), rows(c.pitch));
  });
  const auto run = [=] {
    for (std::size_t k = 0; k < count; ++k) {
      tern::submit(factor, tern::read_write(at(k, k)), tern::write(work), tern::write(info));
      for (std::size_t i = k + 1; i < count; ++i) tern::submit(solve, tern::read(at(k, k)), tern::read_write(at(i, k)));
      for (std::size_t i = k + 1; i < count; ++i) {
        tern::submit(update_diagonal, tern::read(at(i, k)), tern::read_write(at(i, i)));
        for (std::size_t l = k + 1; l < i; ++l)
          tern::submit(update, tern::read(at(i, k)), tern::read(at(l, k)), tern::read_write(at(i, l)));
      }
    }
    tern::wait_all();
  };
  return [=, on = device()] {
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t k = 0; k <= i; ++k) {
        tern::hetero_task t(cuda_bench_factors::fill, tern::items(n, n), static_cast<int>(p->n), m, m,
                            static_cast<int>(i * tile), static_cast<int>(k * tile), tern::write(at(i, k)));
        t.on(on).submit();
      }
    tern::wait_all();
    const double taken = seconds(run);
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t k = 0; k <= i; ++k) {
        const auto host = at(i, k).host(tern::access_mode::read).get();
        for (std::size_t r = 0; r < tile; ++r)
          std::memcpy(&p->l[(i * tile + r) * p->n + k * tile], host.data() + r * tile, tile * sizeof(double));
      }
    p->check();
    return taken;
  };
}

} // namespace

const tern::hetero::source_block& kernels_of_libraries() { return cuda_bench_factors::fill.source(); }

measurement libraries(const job& j) {
  const bool meant = j.benchmark == "cublas" || j.benchmark == "cholesky";
  if (!meant) return {};
  device();
  try {
    return j.benchmark == "cublas" ? product(j) : cholesky(j);
  } catch (const tern::error& e) {
    if (e.code() == tern::errc::not_found) throw not_here(e.message());
    throw;
  }
}

} // namespace tern::bench::cuda
