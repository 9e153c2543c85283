// SPDX-License-Identifier: Apache-2.0
/// \file
/// Small tasks of one object each, submitted in one call or one by one.

#include "bench/hetero/tern.hpp"

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <tuple>
#include <vector>

#include <tern/hetero/batch.hpp>
#include <tern/hetero/dialect.hpp>
#include <tern/hetero/statistics.hpp>

TERN_KERNELS_BEGIN(bench_batches)
TERN_KERNEL(count, TERN_GLOBAL uint* data) {
  TERN_REGION { data[item.x] += 1; };
}
TERN_KERNELS_END(bench_batches)

namespace tern::bench::hetero {

measurement batches(const job& j) {
  if (!j.benchmark.starts_with("batch")) return {};
  using object = tern::hetero_object<unsigned>;
  auto memory = std::make_shared<std::vector<unsigned>>(j.size);
  auto objects = std::make_shared<std::vector<object>>();
  for (unsigned& one : *memory) objects->push_back(object::adopt(&one, {1}));
  const bool on_host = tern::hetero::count().devices.size() == 1;
  auto rounds = std::make_shared<unsigned>(0);
  const bool together = j.benchmark == "batch";
  return [=] {
    const double taken = seconds([&] {
      if (together)
        tern::submit_batch(bench_batches::count, tern::items(1), objects->size(),
                           [&](std::size_t i) { return std::tuple(tern::read_write((*objects)[i])); });
      else
        for (const object& o : *objects) tern::submit(bench_batches::count, tern::items(1), tern::read_write(o));
      tern::wait_all();
    });
    ++*rounds;
    if (!on_host)
      for (const object& o : *objects) o.host(tern::access_mode::read).get();
    for (const unsigned one : *memory)
      if (one != *rounds) throw std::runtime_error("a task has left no trace");
    return taken;
  };
}

} // namespace tern::bench::hetero
