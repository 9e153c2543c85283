// SPDX-License-Identifier: Apache-2.0
// A sum over all elements: each group of items adds up its part, and the host adds the groups'
// sums. Norms, dot products, residuals and maxima follow the same pattern.
#include <algorithm>
#include <cstdio>

#include <tern/tern.hpp>

TERN_KERNELS_BEGIN(norms)
TERN_FN double plus(double a, double b) { return a + b; }
TERN_FN double larger(double a, double b) { return a > b ? a : b; }

// Of x - y: the sum of squares, and the largest magnitude. Item 0 of each group stores both.
TERN_KERNEL(distance, int n, TERN_GLOBAL const double* x, TERN_GLOBAL const double* y, TERN_GLOBAL double* squares,
            TERN_GLOBAL double* largest) {
  TERN_GROUP_REDUCE(double, sum, 0.0, plus, i, n, (x[i] - y[i]) * (x[i] - y[i]));
  TERN_GROUP_REDUCE(double, most, 0.0, larger, i, n, fabs(x[i] - y[i]));
  TERN_REGION {
    if (item.local_linear == 0) {
      squares[group.x] = sum;
      largest[group.x] = most;
    }
  };
}
TERN_KERNELS_END(norms)

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    constexpr int n = 100'001, groups = 64, items = 128; // any n: the groups share it
    tern::hetero_object<double> x(n), y(n, 2.0), squares(groups), largest(groups);
    {
      auto to_x = x.host(tern::access_mode::write).get();
      for (int i = 0; i < n; ++i) to_x[i] = i % 5; // differs from y by 2, 1, 0, 1, 2
    }
    tern::submit(norms::distance, tern::items(groups * items).group(items), n, tern::read(x), tern::read(y),
                 tern::write(squares), tern::write(largest));
    double sum = 0, most = 0;
    for (const double part : squares.host(tern::access_mode::read).get()) sum += part;
    for (const double part : largest.host(tern::access_mode::read).get()) most = std::max(most, part);
    if (tern::rank() == 0) std::printf("%.0f, at most %g\n", sum, most);
    return sum == 200'004 && most == 2 ? 0 : 1; // whole numbers: exact in any order
  });
}
