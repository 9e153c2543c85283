// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Objects that tests of ranks send around: their elements are numbers that follow each other.

#include <cstdint>

#include <tern/hetero/dialect.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/net/runtime.hpp>

TERN_KERNELS_BEGIN(rank_data_kernels)
TERN_KERNEL(count_from, int n, int first, TERN_GLOBAL int* out) {
  TERN_REGION_IN(n, 1, 1) { out[item.x] = first + item.x; };
}
TERN_KERNEL(add, int n, int what, TERN_GLOBAL int* x) {
  TERN_REGION_IN(n, 1, 1) { x[item.x] += what; };
}
TERN_KERNELS_END(rank_data_kernels)

namespace tern::test {

inline int right() { return (rank() + 1) % size(); }
inline int left() { return (rank() + size() - 1) % size(); }

/// Elements first, first + 1, …, written by a kernel, wherever a policy puts it.
inline hetero_object<int> counted(int n, int first) {
  hetero_object<int> x(n);
  submit(rank_data_kernels::count_from, items(n), n, first, write(x));
  return x;
}
inline void add_to(const hetero_object<int>& x, int what) {
  const int n = static_cast<int>(x.count());
  submit(rank_data_kernels::add, items(n), n, what, read_write(x));
}
/// What the elements of `counted` add up to.
inline std::int64_t sum_from(std::int64_t n, std::int64_t first) { return n * first + n * (n - 1) / 2; }
/// Waits for them.
inline std::int64_t sum_of(const hetero_view<int>& x) {
  const auto v = x.host(access_mode::read).get();
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < v.size(); ++i) sum += v(i);
  return sum;
}

} // namespace tern::test
