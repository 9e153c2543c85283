// SPDX-License-Identifier: Apache-2.0
// Parallel loops and tasks inside one rank. They use all of its workers.
#include <cmath>
#include <cstdio>
#include <functional>
#include <vector>

#include <tern/tern.hpp>

// One tasklet for each call: a tasklet costs a few nanoseconds.
long fib(int n) {
  if (n < 2) return n;
  long a = 0, b = 0;
  tern::task_group g;
  g.run([&a, n] { a = fib(n - 1); }); // may run on another worker
  b = fib(n - 2);                     // runs here
  g.wait();
  return a + b;
}

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    // A loop, and a sum whose last bit does not depend on the number of workers.
    std::vector<double> x(100'000);
    tern::parallel_for(std::size_t{0}, x.size(), [&](std::size_t i) { x[i] = std::sqrt(static_cast<double>(i)); });
    const double sum = tern::parallel_reduce(std::size_t{0}, x.size(), 0.0, [&](std::size_t i) { return x[i]; },
                                             std::plus<>(), {.deterministic = true});

    // A picture in tiles. Some cost much more than others: idle workers steal from busy ones.
    const int width = 160, height = 100;
    std::vector<int> picture(static_cast<std::size_t>(width * height));
    tern::parallel_for(tern::range2<int>({0, height}, {0, width}), [&](int y, int x0) {
      double re = 0, im = 0;
      int steps = 0;
      for (; re * re + im * im < 4 && steps < 200; ++steps) {
        const double next = re * re - im * im + (3.0 * x0 / width - 2.2);
        im = 2 * re * im + (2.4 * y / height - 1.2);
        re = next;
      }
      picture[static_cast<std::size_t>(y) * width + static_cast<std::size_t>(x0)] = steps;
    });

    // Tasks that depend on each other. The graph is built once and run 100 times.
    double left = 1, right = 1, both = 0;
    tern::task_graph step;
    auto a = step.add([&] { left *= 1.01; }, "left"), b = step.add([&] { right *= 0.99; }, "right");
    auto c = step.add([&] { both += left * right; }, "both");
    step.precede(a, c);
    step.precede(b, c);
    for (int i = 0; i < 100; ++i) step.run();

    if (tern::rank() == 0) std::printf("fib %ld, sum %.6f, both %.3f\n", fib(20), sum, both);
    return std::abs(sum - 21081692.746) < 0.01 ? 0 : 1;
  });
}
