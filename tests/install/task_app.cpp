// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <functional>
#include <tern/task/future.hpp>
#include <tern/task/parallel.hpp>
#include <tern/task/scheduler.hpp>

int main() {
  tern::scheduler s({.workers = 2});
  return s.run([] {
    auto half = tern::async([] { return 21; });
    tern::task_group g;
    int sum = 0;
    g.run([&] {
      sum = tern::parallel_reduce(
          1, 7, 0, [](int i) { return i; }, std::plus<>());
    });
    g.wait();
    std::printf("%d\n", half.get() + sum);
  });
}
