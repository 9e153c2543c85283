// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tasks of cuBLAS and cuSOLVER, with data that lie on the device.

#include "bench/cuda/problems.hpp"
#include "bench/cuda/tern.hpp"
#include "bench/cuda/tern_factors.hpp"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace tern::bench::cuda {

namespace {

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
    tern::submit(tern::variants(on_gpu([n](const native_queue& q, input x, input y, there z) {
                   const auto m = static_cast<int>(n);
                   lib::blas::here(q).gemm(lib::plain, lib::plain, m, m, m, 1, y.address(), rows(y.pitch), x.address(),
                                           rows(x.pitch), 0, z.address(), rows(z.pitch));
                 })),
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

/// Are some elements of c = a b right? Of the tiles' elements is known how they were filled.
void check_product(const std::vector<matrix>& c, std::size_t count, std::size_t tile) {
  const auto element = [](std::size_t y, std::size_t x) {
    return 1.0 / (1 + (y > x ? static_cast<double>(y - x) : static_cast<double>(x - y))) + (y == x ? 1 : 0);
  };
  for (const std::size_t at : {std::size_t{0}, c.size() / 2, c.size() - 1}) {
    const auto found = c[at].host(tern::access_mode::read).get();
    for (const auto& [row, column] : {std::pair<std::size_t, std::size_t>{0, tile - 1}, {tile / 2, tile / 3}}) {
      double right = 0;
      for (std::size_t i = 0; i < count; ++i)
        for (std::size_t k = 0; k < tile; ++k)
          right += element(row, at / count * count + i + k) * element(tile + k, i * count + at % count + column);
      hetero::near(found(static_cast<std::int64_t>(row), static_cast<std::int64_t>(column)), right, 1e-9 * right,
                   "an element of tile", at);
    }
  }
}

/// The product in tiles, of which the device's memory may hold a part only.
measurement tiled(const job& j) {
  const std::size_t tile = j.size >= 4096 ? 4096 : 16, count = j.size / tile;
  want_host_memory(3 * j.size * j.size * sizeof(double));
  const auto n = static_cast<std::int64_t>(tile);
  struct matrices {
    std::vector<matrix> a, b, c;
  };
  auto all = std::make_shared<matrices>();
  for (auto* const one : {&all->a, &all->b, &all->c})
    for (std::size_t i = 0; i < count * count; ++i) one->push_back(matrix({n, n}));
  const auto m = static_cast<int>(tile);
  // The first product of a tile of c writes it, the others add to it.
  const auto gemm = [m](double beta, const native_queue& q, input x, input y, there z) {
    lib::blas::here(q).gemm(lib::plain, lib::plain, m, m, m, 1, y.address(), rows(y.pitch), x.address(), rows(x.pitch),
                            beta, z.address(), rows(z.pitch));
  };
  const auto make =
      tern::variants(on_gpu([=](const native_queue& q, input x, input y, there z) { gemm(0, q, x, y, z); }));
  const auto add =
      tern::variants(on_gpu([=](const native_queue& q, input x, input y, there z) { gemm(1, q, x, y, z); }));
  const char* const on = device();
  for (std::size_t i = 0; i < count * count; ++i) {
    const auto filled = [&](const matrix& o, int from) {
      tern::hetero_task t(cuda_bench_factors::fill, tern::items(n, n), 1, m, m, from, static_cast<int>(i),
                          tern::write(o));
      t.on(on).submit();
    };
    filled(all->a[i], 0);
    filled(all->b[i], m);
  }
  tern::wait_all();
  return [=] {
    const double taken = seconds([&] {
      for (std::size_t y = 0; y < count; ++y)
        for (std::size_t x = 0; x < count; ++x) {
          tern::submit(make, tern::read(all->a[y * count]), tern::read(all->b[x]), tern::write(all->c[y * count + x]));
          for (std::size_t i = 1; i < count; ++i)
            tern::submit(add, tern::read(all->a[y * count + i]), tern::read(all->b[i * count + x]),
                         tern::read_write(all->c[y * count + x]));
        }
      tern::wait_all();
    });
    check_product(all->c, count, tile);
    return taken;
  };
}

measurement cholesky(const job& j) {
  const std::size_t tile = j.size >= 4096 ? 4096 : 16;
  return factorization(j, tile, steps_on_gpu(static_cast<int>(tile)));
}

} // namespace

const tern::hetero::source_block& kernels_of_libraries() { return cuda_bench_factors::fill.source(); }

measurement libraries(const job& j) {
  const auto meant = [&]() -> measurement (*)(const job&) {
    if (j.benchmark == "cublas") return product;
    if (j.benchmark == "tiles") return tiled;
    if (j.benchmark == "cholesky") return cholesky;
    if (j.benchmark == "mixed") return mixed_cholesky;
    return nullptr;
  }();
  if (!meant) return {};
  device();
  try {
    return meant(j);
  } catch (const tern::error& e) {
    if (e.code() == tern::errc::not_found) throw not_here(e.message());
    throw;
  }
}

} // namespace tern::bench::cuda
