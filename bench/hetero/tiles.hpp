// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Matrices in tiles, and what tasks do with them by OpenBLAS: the same functions for all
/// contestants. A tile is one piece of memory, column by column. They want
/// openblas_set_num_threads(1).

#include "bench/harness/contestant.hpp"
#include "bench/hetero/memory.hpp"

#include <cstddef>

namespace tern::bench::hetero {

/// A square matrix of `count` × `count` tiles of `tile` × `tile` numbers.
class tiles {
public:
  tiles(std::size_t n, std::size_t edge) : tile(edge), count(n / edge), all_(n * n) {}
  double* at(std::size_t i, std::size_t j) const { return all_.data() + (i * count + j) * tile * tile; }
  double& element(std::size_t i, std::size_t j) const { return at(i / tile, j / tile)[(j % tile) * tile + i % tile]; }
  std::size_t size() const { return count * tile; }
  std::size_t tile, count;

private:
  memory<double> all_;
};

/// c += a b
void gemm(std::size_t tile, const double* a, const double* b, double* c);
/// Steps of Cholesky's factorization, of the lower triangle.
void potrf(std::size_t tile, double* a);
void trsm(std::size_t tile, const double* l, double* a);                        ///< a := a / lᵀ
void syrk(std::size_t tile, const double* a, double* c);                        ///< c -= a aᵀ
void gemm_minus(std::size_t tile, const double* a, const double* b, double* c); ///< c -= a bᵀ

/// "dgemm": c = a b, of `size`, in tiles of 1024.
class dgemm_problem {
public:
  static constexpr std::size_t tile = 1024;
  explicit dgemm_problem(const contest::job& j);
  void prepare();
  void check() const; ///< of c, by a vector
  /// Calls gemm(a tile, b tile, c tile) in an order that is right; k varies fastest.
  template <class Gemm> void submit(Gemm gemm) const {
    for (std::size_t i = 0; i < a.count; ++i)
      for (std::size_t j = 0; j < a.count; ++j)
        for (std::size_t k = 0; k < a.count; ++k) gemm(a.at(i, k), b.at(k, j), c.at(i, j));
  }
  tiles a, b, c;
};

/// "cholesky256", "cholesky64", "cholesky256_disk", "cholesky64_opencl": of a positive definite
/// matrix of `size`, in tiles of so many; its upper tiles are not touched. The last one by
/// opencl_tiles.hpp.
class cholesky_problem {
public:
  static bool is_meant(const std::string& benchmark) { return benchmark.starts_with("cholesky"); }
  explicit cholesky_problem(const contest::job& j);
  void prepare();
  void check() const; ///< by a vector
  /// Calls what `steps` has, on tiles, in an order that is right, that of the "right-looking"
  /// algorithm.
  template <class Steps> void submit(Steps steps) const {
    for (std::size_t k = 0; k < a.count; ++k) {
      steps.potrf(a.at(k, k));
      for (std::size_t i = k + 1; i < a.count; ++i) steps.trsm(a.at(k, k), a.at(i, k));
      for (std::size_t i = k + 1; i < a.count; ++i) {
        for (std::size_t j = k + 1; j < i; ++j) steps.gemm_minus(a.at(i, k), a.at(j, k), a.at(i, j));
        steps.syrk(a.at(i, k), a.at(i, i));
      }
    }
  }
  /// Calls `f` for each that is used.
  template <class F> void each_tile(F f) const {
    for (std::size_t i = 0; i < a.count; ++i)
      for (std::size_t j = 0; j <= i; ++j) f(a.at(i, j));
  }
  tiles a;
};

} // namespace tern::bench::hetero
