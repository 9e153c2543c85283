// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <tern/task/future.hpp>
#include <tern/task/scheduler.hpp>

int main() {
  tern::scheduler s({.workers = 2});
  return s.run([] {
    auto half = tern::async([] { return 21; });
    std::printf("%d\n", 2 * half.get());
  });
}
