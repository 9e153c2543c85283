// SPDX-License-Identifier: Apache-2.0
/// \file
/// Launches, graphs, copies, and programs that multiply matrices again and again.

#include "bench/cuda/problems.hpp"
#include "bench/cuda/raw.hpp"

#include <cstring>
#include <memory>
#include <vector>

namespace tern::bench::cuda {

namespace {

constexpr const char* nothing_text = R"(extern "C" __global__ void nothing() {})";
constexpr const char* add_text = R"(extern "C" __global__ void add_one(int* data) {
  data[blockIdx.x * blockDim.x + threadIdx.x] += 1;
})";

measurement one_by_one(const job& j) {
  const gpu& g = the_gpu();
  const cu::function f = g.compile(nothing_text, "nothing");
  const cu::stream s = g.stream();
  const cu::event e = g.event();
  return [=, &g, times = j.size] {
    return seconds([&] {
      for (std::size_t i = 0; i < times; ++i) {
        g.launch(f, {{1, 1, 1}, {1, 1, 1}}, s);
        g.must(g.api.EventRecord(e, s), "record");
        g.wait(e);
      }
    });
  };
}

measurement many(const job& j) {
  const gpu& g = the_gpu();
  const cu::function f = g.compile(nothing_text, "nothing");
  const cu::stream s = g.stream();
  auto events = std::make_shared<std::vector<cu::event>>();
  for (std::size_t i = 0; i < j.size; ++i) events->push_back(g.event()); // one that tells each one's end
  return [=, &g] {
    return seconds([&] {
      for (const cu::event e : *events) {
        g.launch(f, {{1, 1, 1}, {1, 1, 1}}, s);
        g.must(g.api.EventRecord(e, s), "record");
      }
      for (const cu::event e : *events) g.wait(e);
    });
  };
}

measurement graph(const job& j) {
  const gpu& g = the_gpu();
  if (!g.api.has_graphs()) throw not_here("a driver for CUDA 12, for graphs");
  const cu::function f = g.compile(add_text, "add_one");
  const cu::stream s = g.stream();
  const cu::pointer data = g.allocate(sequence::elements * sizeof(int));
  auto host = std::make_shared<std::vector<int>>(sequence::elements, 0);
  cu::graph plan = nullptr;
  g.must(g.api.GraphCreate(&plan, 0), "make a graph");
  cu::graph_node last = nullptr;
  for (int i = 0; i < sequence::kernels; ++i) {
    cu::kernel_node n;
    cu::pointer p = data;
    void* values[] = {&p};
    n.code = f;
    n.groups[0] = sequence::elements / sequence::group;
    n.items[0] = sequence::group;
    n.values = values;
    cu::graph_node made = nullptr;
    g.must(g.api.GraphAddKernelNode(&made, plan, last ? &last : nullptr, last ? 1 : 0, &n), "add to a graph");
    last = made;
  }
  cu::graph_exec exec = nullptr;
  g.must(g.api.GraphInstantiateWithFlags(&exec, plan, 0), "instantiate a graph");
  return [=, &g, rounds = j.size] {
    std::fill(host->begin(), host->end(), 0);
    g.must(g.api.MemcpyHtoDAsync(data, host->data(), host->size() * sizeof(int), s), "copy");
    g.wait(s);
    const double taken = seconds([&] {
      for (std::size_t i = 0; i < rounds; ++i) g.must(g.api.GraphLaunch(exec, s), "launch a graph");
      g.wait(s);
    });
    g.must(g.api.MemcpyDtoHAsync(host->data(), data, host->size() * sizeof(int), s), "copy");
    g.wait(s);
    sequence::check(*host, rounds);
    return taken;
  };
}

/// Page-locked memory and as much on the device.
struct pair {
  explicit pair(std::size_t bytes) : host(bytes), device(the_gpu().allocate(bytes)) {
    the_gpu().lock(host.data(), bytes);
  }
  memory<std::byte> host;
  cu::pointer device;
};

measurement copy(const job& j) {
  const gpu& g = the_gpu();
  const bool to = j.benchmark != "copy_from", from = j.benchmark != "copy_to";
  const auto up = to ? std::make_shared<pair>(j.size) : nullptr, down = from ? std::make_shared<pair>(j.size) : nullptr;
  const cu::stream in = g.stream(), out = g.stream();
  return [=, &g, bytes = j.size] {
    return seconds([&] {
      if (up) g.must(g.api.MemcpyHtoDAsync(up->device, up->host.data(), bytes, in), "copy");
      if (down) g.must(g.api.MemcpyDtoHAsync(down->host.data(), down->device, bytes, out), "copy");
      g.wait(in);
      g.wait(out);
    });
  };
}

/// `size` bytes are read, and as many written.
measurement copy_within(const job& j) {
  const gpu& g = the_gpu();
  const cu::pointer from = g.allocate(j.size), to = g.allocate(j.size);
  const cu::stream s = g.stream();
  return [=, &g, bytes = j.size] {
    return seconds([&] {
      g.must(g.api.MemcpyDtoDAsync(to, from, bytes, s), "copy");
      g.wait(s);
    });
  };
}

gpu::shape shape_of(int n) {
  const auto groups = static_cast<unsigned>(n / naive::group);
  return {{groups, groups, 1}, {naive::group, naive::group, 1}};
}

// Memory is made for each product, and freed after it; copies are from memory as `new` gives it.
// The last result is looked at, where time is not taken.
measurement straightforward(const job& j) {
  const gpu& g = the_gpu();
  const cu::function f = g.compile(naive_text, "multiply");
  const cu::stream s = g.stream();
  auto p = std::make_shared<naive>(j.size);
  return [=, &g] {
    p->prepare();
    const auto product = [&](bool look) {
      const cu::pointer a = g.allocate(p->bytes()), b = g.allocate(p->bytes()), c = g.allocate(p->bytes());
      g.must(g.api.MemcpyHtoDAsync(a, p->a.data(), p->bytes(), s), "copy");
      g.must(g.api.MemcpyHtoDAsync(b, p->b.data(), p->bytes(), s), "copy");
      g.launch(f, shape_of(p->n), s, p->n, a, b, c);
      g.wait(s);
      if (look) g.must(g.api.MemcpyDtoHAsync(p->c.data(), c, p->bytes(), s), "copy");
      g.free(a);
      g.free(b);
      g.free(c);
    };
    const double taken = seconds([&] {
      for (int i = 0; i < naive::times; ++i) product(false);
    });
    product(true);
    p->check();
    return taken;
  };
}

// Two sets of page-locked and of device memory, each with its stream: while one is computed with,
// the other is filled.
measurement skilled(const job& j) {
  struct set {
    explicit set(std::size_t bytes)
        : a(bytes), b(bytes), c(bytes), stream(the_gpu().stream()), done(the_gpu().event()) {}
    pair a, b, c;
    cu::stream stream;
    cu::event done;
    bool used = false;
  };
  const gpu& g = the_gpu();
  const cu::function f = g.compile(naive_text, "multiply");
  auto p = std::make_shared<naive>(j.size);
  auto sets = std::make_shared<std::vector<std::unique_ptr<set>>>();
  for (int i = 0; i < 2; ++i) sets->push_back(std::make_unique<set>(p->bytes()));
  return [=, &g] {
    p->prepare();
    for (const auto& one : *sets) one->used = false;
    const double taken = seconds([&] {
      for (int i = 0; i < naive::times; ++i) {
        set& one = *(*sets)[static_cast<std::size_t>(i % 2)];
        if (one.used) g.wait(one.done);
        std::memcpy(one.a.host.data(), p->a.data(), p->bytes());
        std::memcpy(one.b.host.data(), p->b.data(), p->bytes());
        g.must(g.api.MemcpyHtoDAsync(one.a.device, one.a.host.data(), p->bytes(), one.stream), "copy");
        g.must(g.api.MemcpyHtoDAsync(one.b.device, one.b.host.data(), p->bytes(), one.stream), "copy");
        g.launch(f, shape_of(p->n), one.stream, p->n, one.a.device, one.b.device, one.c.device);
        g.must(g.api.EventRecord(one.done, one.stream), "record");
        one.used = true;
      }
      for (const auto& one : *sets) g.wait(one->stream);
    });
    const set& last = *sets->back();
    g.must(g.api.MemcpyDtoHAsync(p->c.data(), last.c.device, p->bytes(), last.stream), "copy");
    g.wait(last.stream);
    p->check();
    return taken;
  };
}

} // namespace

measurement launches(const job& j) {
  if (j.benchmark == "empty") return one_by_one(j);
  if (j.benchmark == "many") return many(j);
  if (j.benchmark == "graph") return graph(j);
  return {};
}

measurement copies(const job& j) {
  if (j.benchmark == "copy_to" || j.benchmark == "copy_from" || j.benchmark == "copy_both") return copy(j);
  if (j.benchmark == "copy_within") return copy_within(j);
  return {};
}

measurement products(const job& j) {
  if (j.benchmark == "naive") return straightforward(j);
  if (j.benchmark == "skilled") return skilled(j);
  return {};
}

} // namespace tern::bench::cuda
