// SPDX-License-Identifier: Apache-2.0
/// \file
/// Chains of short kernels as tasks: edges come from the objects that they use.

#include "bench/cuda/problems.hpp"
#include "bench/cuda/tern.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include <tern/hetero/dialect.hpp>
#include <tern/hetero/hetero_task.hpp>

TERN_KERNELS_BEGIN(cuda_bench_chains)
TERN_KERNEL(advance, int turns, TERN_GLOBAL uint* x) {
  TERN_REGION {
    uint v = x[item.x];
    for (int k = 0; k < turns; ++k) v = (v ^ (v >> 7)) * 1664525u + 1013904223u;
    x[item.x] = v;
  };
}
TERN_KERNEL(mix, int turns, TERN_GLOBAL const uint* a, TERN_GLOBAL const uint* b, TERN_GLOBAL uint* out) {
  TERN_REGION {
    uint v = a[item.x] + 3 * b[item.x];
    for (int k = 0; k < turns; ++k) v = (v ^ (v >> 7)) * 1664525u + 1013904223u;
    out[item.x] = v;
  };
}
TERN_KERNELS_END(cuda_bench_chains)

namespace tern::bench::cuda {

namespace {

using numbers = tern::hetero_object<unsigned>;
using tern::hetero_task;
using tern::items;
namespace k = cuda_bench_chains;

constexpr auto elements = static_cast<std::int64_t>(short_kernels::elements);

measurement chain(const job& j) {
  const char* const on = device();
  const numbers data(elements, 0u);
  return [=, kernels = j.size] {
    for (unsigned& x : data.host(tern::access_mode::write).get()) x = 0;
    data.prefetch(on);
    tern::wait_all();
    const double taken = seconds([&] {
      for (std::size_t i = 0; i < kernels; ++i) {
        hetero_task t(k::advance, items(elements).group(short_kernels::group), short_kernels::turns,
                      tern::read_write(data));
        t.on(on).submit();
      }
      tern::wait_all();
    });
    short_kernels::check_chain(data.host(tern::access_mode::read).get(), kernels);
    return taken;
  };
}

measurement pairs(const job& j) {
  const char* const on = device();
  const numbers data[2][2]{{numbers(elements, 0u), numbers(elements, 0u)},
                           {numbers(elements, 0u), numbers(elements, 0u)}};
  return [=, steps = j.size / 2] {
    for (unsigned one = 0; one < 2; ++one)
      for (const numbers& o : data[one]) {
        for (unsigned& x : o.host(tern::access_mode::write).get()) x = one;
        o.prefetch(on);
      }
    tern::wait_all();
    const double taken = seconds([&] {
      for (std::size_t i = 0; i < steps; ++i)
        for (std::size_t one = 0; one < 2; ++one) {
          hetero_task t(k::mix, items(elements).group(short_kernels::group), short_kernels::turns,
                        tern::read(data[one][i % 2]), tern::read(data[1 - one][i % 2]),
                        tern::write(data[one][1 - i % 2]));
          t.on(on).submit();
        }
      tern::wait_all();
    });
    for (unsigned one = 0; one < 2; ++one)
      short_kernels::check_pairs(data[one][steps % 2].host(tern::access_mode::read).get(), one, steps);
    return taken;
  };
}

} // namespace

measurement chains(const job& j) {
  if (j.benchmark == "chain") return chain(j);
  if (j.benchmark == "pairs") return pairs(j);
  return {};
}

} // namespace tern::bench::cuda
