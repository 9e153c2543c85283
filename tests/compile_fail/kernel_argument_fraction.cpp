// SPDX-License-Identifier: Apache-2.0
// expect: argument 1 is floating-point and its parameter an integer, so its fraction would be lost
#include <tern/hetero/dialect.hpp>
#include <tern/hetero/hetero_task.hpp>

TERN_KERNELS_BEGIN(steps)
TERN_KERNEL(fill, int with, float factor, TERN_GLOBAL double* v) {
  TERN_REGION { v[item.x] = with * factor; };
}
TERN_KERNELS_END(steps)

int main() {
  tern::hetero_object<double> x(3, 1.0);
#ifdef FINE
  tern::submit(steps::fill, tern::items(3), std::size_t{2}, 0.5, tern::write(x)); // a double for a float
#else
  tern::submit(steps::fill, tern::items(3), 2.5, 0.5, tern::write(x));
#endif
}
