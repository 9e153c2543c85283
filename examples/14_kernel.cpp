// SPDX-License-Identifier: Apache-2.0
// A first kernel: the product of two matrices, on whatever device there is.
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
    const int n = 256; // a multiple of the groups' sizes
    tern::hetero_object<double, 2> a({n, n}, 2.0), b({n, n}, 0.5), c({n, n});
    tern::submit(blas::dgemm, tern::items(n, n).group(64, 4), n, tern::read(a), tern::read(b), tern::write(c));
    auto host = c.host(tern::access_mode::read).get(); // waits for the kernel, brings the data here
    if (tern::rank() == 0) std::printf("c(0, 0) = %g\n", host(0, 0));
    return host(n - 1, n - 1) == n ? 0 : 1;
  });
}
