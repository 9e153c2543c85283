// SPDX-License-Identifier: Apache-2.0
// expect: read() goes with a parameter to const
#include <tern/hetero/dialect.hpp>
#include <tern/hetero/hetero_task.hpp>

TERN_KERNELS_BEGIN(blas)
TERN_KERNEL(scale, double by, TERN_GLOBAL double* v) {
  TERN_REGION { v[item.x] *= by; };
}
TERN_KERNELS_END(blas)

int main() {
  tern::hetero_object<double> x(3, 1.0);
  [[maybe_unused]] tern::hetero_object<float> y(3, 1.0F);
  [[maybe_unused]] double plain = 0;
#ifdef FINE
  tern::submit(blas::scale, tern::items(3), 2.0, tern::read_write(x));
#else
  tern::submit(blas::scale, tern::items(3), 2.0, tern::read(x));
#endif
}
