// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/device/worker/link_probe.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>

#include <tern/task/semaphore.hpp>

namespace tern::hetero::detail {

void link_probe::run(device& d, host_memory& host, const clock& now, const sink& found) {
  constexpr std::size_t part = 8; // of the device's memory
  const std::size_t largest = std::min(most, d.memory_limit() / part);
  if (largest < least) return;
  const auto give_back = [&](std::byte* m) { host.free(m); };
  const std::unique_ptr<std::byte, decltype(give_back)> here(host.allocate(largest), give_back);
  std::memset(here.get(), 0, largest); // its pages are there
  const auto free_there = [&](void* m) { d.free(m, largest); };
  const std::unique_ptr<void, decltype(free_there)> there(d.allocate(largest), free_there);
  if (!there) return;
  semaphore never(0);
  const std::int64_t begin = now();
  const auto copy = [&](direction way, std::size_t bytes) {
    const ticket t = d.copy(way == direction::to_device ? 0 : 1,
                            {.way = way, .host = here.get(), .device = there.get(), .row_bytes = bytes});
    while (t != 0 && !d.done(t)) {
      constexpr std::int64_t shortest = 2'000;
      static_cast<void>(never.try_acquire_for(std::chrono::nanoseconds(std::max(shortest, d.poll_delay()))));
      d.resume(true); // the fiber may have changed threads; and in one round nothing is asked for twice
    }
    found(way, bytes, d.took());
  };
  for (std::size_t bytes = least; bytes <= largest; bytes *= growth) {
    const std::int64_t since = now();
    for (int i = 0; i < times; ++i)
      for (const direction way : {direction::to_device, direction::from_device}) copy(way, bytes);
    const std::int64_t until = now(); // the next ones take `growth` times as long at most
    if (bytes > least && until + static_cast<std::int64_t>(growth) * (until - since) > begin + budget) return;
  }
}

void link_probe::compute(const device& d, const sink& found) {
  for (std::size_t bytes = least; bytes <= most; bytes *= growth)
    for (const direction way : {direction::to_device, direction::from_device})
      if (const auto takes = d.copy_takes(way, bytes))
        for (int i = 0; i < times; ++i) found(way, bytes, *takes);
}

} // namespace tern::hetero::detail
