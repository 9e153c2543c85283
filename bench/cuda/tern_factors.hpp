// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Cholesky's factorization in tiles: tasks in the "right-looking" order, and their steps by cuBLAS
/// and cuSOLVER. Tiles are stored by rows; the libraries read them by columns.

#include "bench/cuda/factors.hpp"
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

using matrix = tern::hetero_object<double, 2>;
using there = tern::device_view<double, 2>;
using input = tern::device_view<const double, 2>;
using tern::native_queue;
namespace lib = cuda_libraries;

inline int rows(std::int64_t pitch) { return static_cast<int>(pitch); }
template <class F> auto on_gpu(F f) { return tern::on_queue(tern::hetero::device_kind::cuda, f); }

/// Steps of tiles of m × m numbers, by NVIDIA's libraries.
inline auto factor_there(int m) {
  return on_gpu([m](const native_queue& q, there t, tern::device_view<double, 1> w, tern::device_view<int, 1> says) {
    const auto& s = lib::solver::here(q);
    const int room = s.potrf_room(m, t.address(), rows(t.pitch));
    if (room > w.size[0]) throw std::runtime_error("cuSOLVER wants more room than a tile has");
    s.potrf(m, t.address(), rows(t.pitch), w.address(), room, says.address());
  });
}
inline auto solve_there(int m) {
  return on_gpu([m](const native_queue& q, input l, there t) {
    lib::blas::here(q).trsm(m, m, l.address(), rows(l.pitch), t.address(), rows(t.pitch));
  });
}
inline auto update_there(int m) {
  return on_gpu([m](const native_queue& q, input a, input b, there c) {
    lib::blas::here(q).gemm(lib::transposed, lib::plain, m, m, m, -1, b.address(), rows(b.pitch), a.address(),
                            rows(a.pitch), 1, c.address(), rows(c.pitch));
  });
}
inline auto update_diagonal_there(int m) {
  return on_gpu([m](const native_queue& q, input a, there c) {
    lib::blas::here(q).syrk(m, m, -1, a.address(), rows(a.pitch), 1, c.address(), rows(c.pitch));
  });
}

/// What the four kinds of tasks do: `variants` each.
template <class Factor, class Solve, class Update, class Diagonal> struct steps {
  Factor factor;
  Solve solve;
  Update update;
  Diagonal update_diagonal;
};
inline auto steps_on_gpu(int m) {
  return steps{tern::variants(factor_there(m)), tern::variants(solve_there(m)), tern::variants(update_there(m)),
               tern::variants(update_diagonal_there(m))};
}

/// \param step what is done to tiles of `tile` × `tile` numbers.
template <class Steps> measurement factorization(const job& j, std::size_t tile, const Steps& step) {
  want_host_memory(2 * j.size * j.size * sizeof(double)); // with the tiles
  auto p = std::make_shared<factored>(j.size);
  const std::size_t count = j.size / tile;
  const auto n = static_cast<std::int64_t>(tile);
  auto tiles = std::make_shared<std::vector<matrix>>();
  for (std::size_t i = 0; i < count * (count + 1) / 2; ++i) tiles->push_back(matrix({n, n}));
  const auto at = [tiles](std::size_t i, std::size_t k) -> const matrix& { return (*tiles)[i * (i + 1) / 2 + k]; };
  const tern::hetero_object<double> work(n * n);
  const tern::hetero_object<int> info(1);
  const auto m = static_cast<int>(tile);
  const auto run = [=] {
    for (std::size_t k = 0; k < count; ++k) {
      tern::submit(step.factor, tern::read_write(at(k, k)), tern::write(work), tern::write(info));
      for (std::size_t i = k + 1; i < count; ++i)
        tern::submit(step.solve, tern::read(at(k, k)), tern::read_write(at(i, k)));
      for (std::size_t i = k + 1; i < count; ++i) {
        tern::submit(step.update_diagonal, tern::read(at(i, k)), tern::read_write(at(i, i)));
        for (std::size_t l = k + 1; l < i; ++l)
          tern::submit(step.update, tern::read(at(i, k)), tern::read(at(l, k)), tern::read_write(at(i, l)));
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

/// On the host as well, by OpenBLAS. \throws not_here without it
measurement mixed_cholesky(const job& j);

} // namespace tern::bench::cuda
