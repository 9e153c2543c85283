// SPDX-License-Identifier: Apache-2.0
/// \file
/// Chains of short kernels: in one stream; and on two streams that follow each other by events.

#include "bench/cuda/problems.hpp"
#include "bench/cuda/raw.hpp"

#include <memory>
#include <vector>

namespace tern::bench::cuda {

namespace {

constexpr const char* chain_text = R"(extern "C" __global__ void advance(int turns, unsigned* x) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned v = x[i];
  for (int k = 0; k < turns; ++k) v = (v ^ (v >> 7)) * 1664525u + 1013904223u;
  x[i] = v;
}
extern "C" __global__ void mix(int turns, const unsigned* a, const unsigned* b, unsigned* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned v = a[i] + 3 * b[i];
  for (int k = 0; k < turns; ++k) v = (v ^ (v >> 7)) * 1664525u + 1013904223u;
  out[i] = v;
})";

constexpr gpu::shape shape{{short_kernels::elements / short_kernels::group, 1, 1}, {short_kernels::group, 1, 1}};

measurement chain(const job& j) {
  const gpu& g = the_gpu();
  const cu::function f = g.compile(chain_text, "advance");
  const cu::stream s = g.stream();
  constexpr std::size_t bytes = short_kernels::elements * sizeof(unsigned);
  const cu::pointer data = g.allocate(bytes);
  auto host = std::make_shared<std::vector<unsigned>>(short_kernels::elements);
  return [=, &g, kernels = j.size] {
    std::fill(host->begin(), host->end(), 0u);
    g.must(g.api.MemcpyHtoDAsync(data, host->data(), bytes, s), "copy");
    g.wait(s);
    const double taken = seconds([&] {
      for (std::size_t i = 0; i < kernels; ++i) g.launch(f, shape, s, short_kernels::turns, data);
      g.wait(s);
    });
    g.must(g.api.MemcpyDtoHAsync(host->data(), data, bytes, s), "copy");
    g.wait(s);
    short_kernels::check_chain(*host, kernels);
    return taken;
  };
}

measurement pairs(const job& j) {
  const gpu& g = the_gpu();
  const cu::function f = g.compile(chain_text, "mix");
  constexpr std::size_t bytes = short_kernels::elements * sizeof(unsigned);
  struct side {
    cu::stream stream;
    cu::event done;
    cu::pointer data[2]; // what a step reads, and what it writes
  };
  auto sides = std::make_shared<std::vector<side>>();
  for (int i = 0; i < 2; ++i) sides->push_back({g.stream(), g.event(), {g.allocate(bytes), g.allocate(bytes)}});
  auto host = std::make_shared<std::vector<unsigned>>(short_kernels::elements);
  return [=, &g, steps = j.size / 2] {
    for (unsigned one = 0; one < 2; ++one) {
      std::fill(host->begin(), host->end(), one);
      g.must(g.api.MemcpyHtoDAsync((*sides)[one].data[0], host->data(), bytes, (*sides)[one].stream), "copy");
      g.wait((*sides)[one].stream);
    }
    const double taken = seconds([&] {
      for (std::size_t i = 0; i < steps; ++i) {
        for (std::size_t one = 0; one < 2; ++one) {
          side &mine = (*sides)[one], &other = (*sides)[1 - one];
          g.launch(f, shape, mine.stream, short_kernels::turns, mine.data[i % 2], other.data[i % 2],
                   mine.data[1 - i % 2]);
        }
        for (side& one : *sides) g.must(g.api.EventRecord(one.done, one.stream), "record");
        for (std::size_t one = 0; one < 2; ++one)
          g.must(g.api.StreamWaitEvent((*sides)[one].stream, (*sides)[1 - one].done, 0), "order");
      }
      for (const side& one : *sides) g.wait(one.stream);
    });
    for (unsigned one = 0; one < 2; ++one) {
      g.must(g.api.MemcpyDtoHAsync(host->data(), (*sides)[one].data[steps % 2], bytes, (*sides)[one].stream), "copy");
      g.wait((*sides)[one].stream);
      short_kernels::check_pairs(*host, one, steps);
    }
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
