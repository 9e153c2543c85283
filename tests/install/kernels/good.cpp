// SPDX-License-Identifier: Apache-2.0
// A kernel that all compilers take; `beyond` makes it read one element too many.
#include <cstdio>
#include <string>

#include <tern/tern.hpp>

TERN_KERNELS_BEGIN(strangers)
TERN_KERNEL(copy_from, int n, int first, TERN_GLOBAL const int* x, TERN_GLOBAL int* y) {
  TERN_REGION_IN(n, 1, 1) { y[item.x] = x[item.x + first]; };
}
TERN_KERNELS_END(strangers)

int main(int argc, char** argv) {
  const int first = argc > 1 && argv[1] == std::string("beyond") ? 1 : 0;
  return tern::run(argc, argv, [first] {
    const tern::hetero_object<int> x(100, 7), y(100, 0);
    tern::submit(strangers::copy_from, tern::items(100), 100, first, tern::read(x), tern::write(y));
    std::printf("%d\n", y.host(tern::access_mode::read).get()[99]);
    return 0;
  });
}
