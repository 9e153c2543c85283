// SPDX-License-Identifier: Apache-2.0
// expect: lists of objects go to functions of the host: a kernel's parameters are counted
#include <vector>

#include <tern/hetero/dialect.hpp>
#include <tern/hetero/hetero_task.hpp>

TERN_KERNELS_BEGIN(blas)
TERN_KERNEL(scale, double by, TERN_GLOBAL double* v) {
  TERN_REGION { v[item.x] *= by; };
}
TERN_KERNELS_END(blas)

int main() {
  std::vector<tern::hetero_object<double>> x;
  x.emplace_back(3, 1.0);
#ifdef FINE
  tern::submit(blas::scale, tern::items(3), 2.0, tern::read_write(x[0]));
#else
  tern::submit(blas::scale, tern::items(3), 2.0, tern::read_writes(x));
#endif
}
