// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What kernels must give that are several in one launch, on any kind of device.

#include <cstddef>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "tests/hetero/support/kernels.hpp"
#include "tests/hetero/support/opencl.hpp"

namespace tern::hetero::detail {

/// Products of tiles and turned groups, several in one launch each, give what the host gives.
/// \param run `run(launches)` does that. Their memory begins where addresses on all devices may.
template <class Device, class Run> void expect_barriers_and_memory_of_groups(Device& d, Run&& run) {
  constexpr std::size_t n = 7, tile = 16, each = tile * tile, numbers = 96, row = 128; // of numbers, aligned
  std::vector<double> a(each * n), b(each * n), c(each * n), expected(each * n);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<double>(i % 17) - 8;
    b[i] = static_cast<double>(i % 13) - 6;
  }
  std::vector<int> in(row * n), out(row * n), turned(row * n);
  std::iota(in.begin(), in.end(), 0);
  const grid one_tile{{1, 1, 1}, {16, 16, 1}}, three{{3, 1, 1}, {32, 1, 1}};
  static_assert(numbers == 3 * 32);
  for (std::size_t i = 0; i < n; ++i) {
    on_host(k::dgemm_tiled, one_tile, 16, &a[each * i], &b[each * i], &expected[each * i]);
    on_host(k::reverse_groups, three, &in[row * i], &turned[row * i]);
  }
  {
    given on_a(d, a), on_b(d, b), on_c(d, c);
    given on_in(d, in), on_out(d, out);
    const int size = 16;
    std::vector<std::vector<argument>> arguments;
    std::vector<launch_request> products, turns;
    for (std::size_t i = 0; i < n; ++i) {
      arguments.push_back(
          {by_value(size), on_a.as_argument(each * i), on_b.as_argument(each * i), on_c.as_argument(each * i)});
      products.push_back({&code_of<k::dgemm_tiled>(), one_tile, 0, arguments.back()});
      arguments.push_back({on_in.as_argument(row * i), on_out.as_argument(row * i)});
      turns.push_back({&code_of<k::reverse_groups>(), three, 32 * sizeof(int), arguments.back()});
    }
    run(products);
    run(turns);
    on_c.fetch();
    on_out.fetch();
  }
  EXPECT_EQ(c, expected);
  EXPECT_EQ(out, turned);
}

} // namespace tern::hetero::detail
