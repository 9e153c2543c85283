// SPDX-License-Identifier: Apache-2.0
// A first kernel: the product of two matrices, on any device.
#include <cstdio>

#include <tern/tern.hpp>

TERN_KERNELS_BEGIN(blas)
TERN_KERNEL(dgemm, int n, TERN_GLOBAL const double* a, TERN_GLOBAL const double* b, TERN_GLOBAL double* c) {
  TERN_PRIVATE(double, sum);
  TERN_REGION { TERN_MY(sum) = 0; };
  for (int k = 0; k < n; ++k) TERN_REGION_NOSYNC {
      TERN_MY(sum) += a[item.y * n + k] * b[k * n + item.x];
    };
  TERN_REGION { c[item.y * n + item.x] = TERN_MY(sum); };
}
TERN_KERNELS_END(blas)

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    const int n = 256; // a multiple of the group's extents
    tern::hetero_object<double, 2> a({n, n}), b({n, n}), c({n, n});
    {
      auto to_a = a.host(tern::access_mode::write).get(), to_b = b.host(tern::access_mode::write).get();
      for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) to_a(i, j) = (i + 2 * j) % 7, to_b(i, j) = (3 * i + j) % 5;
    } // both accesses are released: tasks may use the objects
    tern::submit(blas::dgemm, tern::items(n, n).group(64, 4), n, tern::read(a), tern::read(b), tern::write(c));
    auto host = c.host(tern::access_mode::read).get(); // waits for the kernel and fetches the data
    int wrong = 0;
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) {
        int sum = 0;
        for (int k = 0; k < n; ++k) sum += (i + 2 * k) % 7 * ((3 * k + j) % 5);
        wrong += host(i, j) != sum;
      }
    if (tern::rank() == 0) std::printf("c(0, 0) = %g, %d wrong\n", host(0, 0), wrong);
    return wrong == 0 ? 0 : 1;
  });
}
