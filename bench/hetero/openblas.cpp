// SPDX-License-Identifier: Apache-2.0
/// \file
/// "dgemm" with the threads of OpenBLAS, which gets whole matrices.

#include "bench/hetero/contestant.hpp"
#include "bench/hetero/memory.hpp"
#include "bench/hetero/numbers.hpp"

#include <vector>

#include <cblas.h>

namespace {

using namespace tern::bench::hetero;

measurement make(const job& j) {
  if (j.benchmark != "dgemm") unknown(j);
  struct matrices {
    explicit matrices(std::size_t n) : a(n * n), b(n * n), c(n * n) {}
    memory<double> a, b, c;
  };
  const std::size_t n = j.size;
  auto m = std::make_shared<matrices>(n);
  for (std::size_t i = 0; i < n * n; ++i) {
    m->a[i] = number(i);
    m->b[i] = number(n * n + i);
  }
  return [m, n] {
    const auto i = static_cast<int>(n);
    const double taken = seconds([&] {
      cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, i, i, i, 1, m->a.data(), i, m->b.data(), i, 0, m->c.data(),
                  i);
    });
    // The last element, which every thread's part but one does not touch: that it did the work, not
    // that it is right.
    double expected = 0;
    for (std::size_t k = 0; k < n; ++k) expected += m->a[k * n + n - 1] * m->b[(n - 1) * n + k];
    near(m->c[n * n - 1], expected, 1e-9 * static_cast<double>(n), "element", n * n - 1);
    return taken;
  };
}

} // namespace

int main(int argc, char** argv) {
  return contestant_main(argc, argv, [](const job& j) {
    openblas_set_num_threads(j.workers);
    answer_requests(j, make);
  });
}
