// SPDX-License-Identifier: Apache-2.0
#include "bench/hetero/tiles.hpp"

#include "bench/hetero/numbers.hpp"

#include <stdexcept>
#include <string>
#include <vector>

#include <cblas.h>

// OpenBLAS has LAPACK, but its headers come in another package.
extern "C" void dpotrf_(const char* triangle, const int* n, double* a, const int* stride, int* problem);

namespace tern::bench::hetero {

namespace {

using numbers = std::vector<double>;

numbers a_vector(std::size_t n) {
  numbers x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = number(~i);
  return x;
}

numbers times(const tiles& m, const numbers& x) {
  numbers y(x.size());
  for (std::size_t j = 0; j < m.size(); ++j)
    for (std::size_t i = 0; i < m.size(); ++i) y[i] += m.element(i, j) * x[j];
  return y;
}

void compare(const numbers& found, const numbers& expected) {
  for (std::size_t i = 0; i < found.size(); ++i)
    near(found[i], expected[i], 1e-9 * static_cast<double>(found.size()), "element", i);
}

/// The matrix to be factored: its diagonal is larger than what else stands in a row.
double element(std::size_t n, std::size_t i, std::size_t j) {
  return i == j ? static_cast<double>(n) : number(i > j ? i * n + j : j * n + i);
}

std::size_t tile_of(const std::string& benchmark) {
  if (benchmark == "cholesky64" || benchmark == "cholesky64_opencl") return 64;
  if (benchmark == "cholesky256" || benchmark == "cholesky256_disk") return 256;
  throw std::invalid_argument("no tiles for " + benchmark);
}

} // namespace

void gemm(std::size_t tile, const double* a, const double* b, double* c) {
  const auto n = static_cast<int>(tile);
  cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, a, n, b, n, 1, c, n);
}

void potrf(std::size_t tile, double* a) {
  const auto n = static_cast<int>(tile);
  int problem = 0; // check() sees it
  dpotrf_("L", &n, a, &n, &problem);
}

void trsm(std::size_t tile, const double* l, double* a) {
  const auto n = static_cast<int>(tile);
  cblas_dtrsm(CblasColMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, n, n, 1, l, n, a, n);
}

void syrk(std::size_t tile, const double* a, double* c) {
  const auto n = static_cast<int>(tile);
  cblas_dsyrk(CblasColMajor, CblasLower, CblasNoTrans, n, n, -1, a, n, 1, c, n);
}

void gemm_minus(std::size_t tile, const double* a, const double* b, double* c) {
  const auto n = static_cast<int>(tile);
  cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, n, n, n, -1, a, n, b, n, 1, c, n);
}

dgemm_problem::dgemm_problem(const contest::job& j) : a(j.size, tile), b(j.size, tile), c(j.size, tile) {
  const std::size_t n = a.size();
  if (n != j.size) throw std::invalid_argument("the size is a multiple of " + std::to_string(tile));
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t i = 0; i < n; ++i) {
      a.element(i, k) = number(i * n + k);
      b.element(i, k) = number((i + n) * n + k);
    }
}

void dgemm_problem::prepare() {
  for (std::size_t i = 0; i < a.size() * a.size(); ++i) c.at(0, 0)[i] = 0;
}

void dgemm_problem::check() const {
  const numbers x = a_vector(a.size());
  compare(times(c, x), times(a, times(b, x)));
}

cholesky_problem::cholesky_problem(const contest::job& j) : a(j.size, tile_of(j.benchmark)) {
  if (a.size() != j.size) throw std::invalid_argument("the size is a multiple of " + std::to_string(a.tile));
}

void cholesky_problem::prepare() {
  const std::size_t n = a.size();
  for (std::size_t j = 0; j < n; ++j)
    for (std::size_t i = j / a.tile * a.tile; i < n; ++i) a.element(i, j) = element(n, i, j);
}

void cholesky_problem::check() const {
  const std::size_t n = a.size();
  const numbers x = a_vector(n);
  numbers transposed(n), found(n), expected(n); // lᵀ x, l lᵀ x, a x
  for (std::size_t j = 0; j < n; ++j)
    for (std::size_t i = j; i < n; ++i) transposed[j] += a.element(i, j) * x[i];
  for (std::size_t j = 0; j < n; ++j)
    for (std::size_t i = j; i < n; ++i) {
      const double one = element(n, i, j);
      found[i] += a.element(i, j) * transposed[j];
      expected[i] += one * x[j];
      if (i != j) expected[j] += one * x[i];
    }
  compare(found, expected);
}

} // namespace tern::bench::hetero
