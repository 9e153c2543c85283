// SPDX-License-Identifier: Apache-2.0
// Kernels of which one block becomes PTX when the program is built, and the other cannot.
#include <cstdio>

#include <tern/tern.hpp>

TERN_KERNELS_BEGIN(for_all)
TERN_KERNEL(twice, int n, TERN_GLOBAL const int* x, TERN_GLOBAL int* y) {
  TERN_REGION_IN(n, 1, 1) { y[item.x] = 2 * x[item.x] + (int)exp(0.0 * x[item.x]) - 1; };
}
TERN_KERNELS_END(for_all)

TERN_KERNELS_BEGIN(only_nvrtc)
TERN_KERNEL(error_function, int n, TERN_GLOBAL const double* x, TERN_GLOBAL double* y) {
  TERN_REGION_IN(n, 1, 1) { y[item.x] = erf(x[item.x]); };
}
TERN_KERNELS_END(only_nvrtc)

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    const tern::hetero_object<int> x(100, 4), y(100, 0);
    tern::submit(for_all::twice, tern::items(100), 100, tern::read(x), tern::write(y));
    std::printf("%d\n", y.host(tern::access_mode::read).get()[99]);
    return 0;
  });
}
