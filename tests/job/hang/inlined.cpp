// SPDX-License-Identifier: Apache-2.0
/// \file
/// Waits for ever in a function that is inlined into another one that is inlined. Optimised, with
/// debug information. Prints the lines of the calls.
#include <cstdio>

#include <tern/net/runtime.hpp>
#include <tern/task/semaphore.hpp>

namespace {

tern::semaphore never(0);
constexpr int calls_begin = __LINE__;
[[gnu::always_inline]] inline void wait_for_row() {
  never.acquire();
  std::puts("it came");
}
[[gnu::always_inline]] inline void exchange_rows(int n) {
  for (int i = 0; i < n; ++i) wait_for_row();
}
[[gnu::noinline]] void solve(int n) {
  exchange_rows(n);
  std::puts("solved");
}

} // namespace

int main(int argc, char** argv) {
  std::printf("lines %d %d %d\n", calls_begin + 2, calls_begin + 6, calls_begin + 9);
  return tern::run(argc, argv, [&] { solve(argc); });
}
