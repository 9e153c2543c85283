// SPDX-License-Identifier: Apache-2.0
/// \file
/// Small kernels that follow each other: in one stream, or in two, with events.

#include "bench/cuda/problems.hpp"
#include "bench/cuda/raw.hpp"

#include <array>
#include <vector>

namespace tern::bench::cuda {

namespace {

constexpr const char* turn_text = R"(
extern "C" __global__ void turn(int steps, const unsigned* a, const unsigned* b, unsigned* to) {
  unsigned v = a[threadIdx.x] + b[threadIdx.x];
  for (int i = 0; i < steps; ++i) {
    v ^= v << 13;
    v ^= v >> 17;
    v ^= v << 5;
  }
  to[threadIdx.x] = v;
})";

} // namespace

measurement chains(const job& j) {
  const bool ladder = j.benchmark == "ladder";
  if (!ladder && j.benchmark != "chain") return {};
  const gpu& g = the_gpu();
  const cu::function f = g.compile(turn_text, "turn");
  const std::array<cu::stream, 2> streams{g.stream(), g.stream()};
  const std::array<cu::event, 2> events{g.event(), g.event()};
  constexpr std::size_t bytes = turns::elements * sizeof(unsigned);
  std::array<cu::pointer, 4> all{};
  for (cu::pointer& p : all) p = g.allocate(bytes);
  return [=, &g, times = j.size, wanted = turns::expected(j.size, ladder)] {
    std::vector<unsigned> host(turns::elements, turns::seed);
    for (const cu::pointer p : all) g.must(g.api.MemcpyHtoDAsync(p, host.data(), bytes, streams[0]), "copy");
    g.wait(streams[0]);
    const double taken = seconds([&] {
      for (std::size_t i = 0; i < times; ++i) {
        const cu::pointer *const from = &all[i % 2 * 2], *const to = &all[(i + 1) % 2 * 2];
        for (std::size_t k = 0; k < (ladder ? 2 : 1); ++k) {
          if (ladder && i > 0) g.must(g.api.StreamWaitEvent(streams[k], events[1 - k], 0), "wait for an event");
          g.launch(f, {{1, 1, 1}, {turns::elements, 1, 1}}, streams[k], turns::steps, from[k], from[1 - k], to[k]);
        }
        for (std::size_t k = 0; ladder && k < 2; ++k) g.must(g.api.EventRecord(events[k], streams[k]), "record");
      }
      for (const cu::stream s : streams) g.wait(s);
    });
    g.must(g.api.MemcpyDtoHAsync(host.data(), all[times % 2 * 2], bytes, streams[0]), "copy");
    g.wait(streams[0]);
    turns::check(host, wanted);
    return taken;
  };
}

} // namespace tern::bench::cuda
