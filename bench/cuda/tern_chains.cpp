// SPDX-License-Identifier: Apache-2.0
/// \file
/// Small kernels as tasks that follow each other on the device.

#include "bench/cuda/problems.hpp"
#include "bench/cuda/tern.hpp"

#include <algorithm>
#include <array>

#include <tern/hetero/dialect.hpp>
#include <tern/hetero/hetero_task.hpp>

TERN_KERNELS_BEGIN(cuda_chain_kernels)
// Some steps of a generator of random numbers, one after the other.
TERN_KERNEL(turn, int steps, TERN_GLOBAL const unsigned* a, TERN_GLOBAL const unsigned* b, TERN_GLOBAL unsigned* to) {
  TERN_REGION {
    unsigned v = a[item.x] + b[item.x];
    for (int i = 0; i < steps; ++i) {
      v ^= v << 13;
      v ^= v >> 17;
      v ^= v << 5;
    }
    to[item.x] = v;
  };
}
TERN_KERNELS_END(cuda_chain_kernels)

namespace tern::bench::cuda {

namespace {

using object = tern::hetero_object<unsigned>;

void turn(const char* on, const object& a, const object& b, const object& to) {
  tern::hetero_task t(cuda_chain_kernels::turn, tern::items(turns::elements).group(turns::elements), turns::steps,
                      tern::read(a), tern::read(b), tern::write(to));
  t.on(on).submit();
}

} // namespace

measurement chains(const job& j) {
  const bool ladder = j.benchmark == "ladder";
  if (!ladder && j.benchmark != "chain") return {};
  const char* const on = device();
  // On a ladder both of a step need both of the one before.
  const auto made = [] { return object(static_cast<std::int64_t>(turns::elements), 0u); };
  const std::array<object, 4> all{made(), made(), made(), made()};
  return [=, times = j.size, wanted = turns::expected(j.size, ladder)] {
    for (const object& o : all) {
      const auto host = o.host(tern::access_mode::write).get();
      std::fill(host.begin(), host.end(), turns::seed);
    }
    for (const object& o : all) o.prefetch(on);
    tern::wait_all();
    const double taken = seconds([&] {
      for (std::size_t i = 0; i < times; ++i) {
        const object *const from = &all[i % 2 * 2], *const to = &all[(i + 1) % 2 * 2];
        turn(on, from[0], from[1], to[0]);
        if (ladder) turn(on, from[1], from[0], to[1]);
      }
      tern::wait_all();
    });
    turns::check(all[times % 2 * 2].host(tern::access_mode::read).get(), wanted);
    return taken;
  };
}

} // namespace tern::bench::cuda
