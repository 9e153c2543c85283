// SPDX-License-Identifier: Apache-2.0
/// \file
/// On simulated devices: how much is copied, and whether several share the work.

#include "bench/hetero/simulated/random_graph.hpp"
#include "bench/hetero/tern.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <tern/hetero/dialect.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/hetero/statistics.hpp>

TERN_KERNELS_BEGIN(bench_parts)
TERN_KERNEL(fill, int nx, int ny, int py, TERN_GLOBAL int* y) {
  TERN_REGION_IN(nx, ny, 1) { y[item.y * py + item.x] = item.x; };
}
TERN_KERNEL(add, int nx, int ny, int py, TERN_GLOBAL int* y) {
  TERN_REGION_IN(nx, ny, 1) { y[item.y * py + item.x] += 1; };
}
TERN_KERNEL(mix, int nx, int ny, TERN_GLOBAL const int* x, int py, TERN_GLOBAL int* y) {
  TERN_REGION_IN(nx, ny, 1) { y[item.y * py + item.x] += x[item.x]; };
}
TERN_KERNELS_END(bench_parts)

namespace tern::bench::hetero {

namespace {

using object = tern::hetero_object<int, 2>;
using tern::hetero_task;
namespace k = bench_parts;

/// A graph is run, of another seed each time. \return rows that were copied, or ("…_least") that
/// had to be.
measurement copies(const job& j) {
  const bool views = j.benchmark.starts_with("copies_views"), least = j.benchmark.ends_with("_least");
  auto seed = std::make_shared<std::uint64_t>(0);
  return [=] {
    const random_graph graph(++*seed, views);
    if (least) return static_cast<double>(graph.least_rows());
    const auto bytes = [] {
      const auto now = tern::hetero::count();
      return now.bytes_to_devices + now.bytes_from_devices + now.bytes_between_devices;
    };
    const std::uint64_t before = bytes();
    std::vector<object> objects;
    for (int i = 0; i < random_graph::objects; ++i)
      objects.emplace_back(tern::extents<2>{random_graph::rows, random_graph::columns}, i);
    const char* const places[] = {"host", "simulated0", "simulated1", "simulated2"};
    for (const random_graph::task& t : graph.all()) {
      const auto view = [&](const random_graph::part& p) {
        return objects[static_cast<std::size_t>(p.object)].rows(p.first, p.last);
      };
      const auto a = view(t.a), b = view(t.b);
      const auto nx = static_cast<int>(b.extent(1)), ny = static_cast<int>(b.extent(0));
      const tern::items shape(nx, ny);
      const auto go = [&](hetero_task&& one) { one.on(places[t.place]).submit(); };
      if (t.what == random_graph::task::fill)
        go(hetero_task(k::fill, shape, nx, ny, tern::pitch(b), tern::write(b)));
      else if (t.what == random_graph::task::add)
        go(hetero_task(k::add, shape, nx, ny, tern::pitch(b), tern::read_write(b)));
      else
        go(hetero_task(k::mix, shape, nx, ny, tern::read(a), tern::pitch(b), tern::read_write(b)));
    }
    tern::wait_all();
    return static_cast<double>(bytes() - before) / (random_graph::columns * sizeof(int));
  };
}

/// Tasks that have nothing to do with each other, wherever there is time.
measurement independent(const job& j) {
  auto objects = std::make_shared<std::vector<object>>();
  for (std::size_t i = 0; i < j.size; ++i) objects->emplace_back(tern::extents<2>{16, 16}, 0);
  auto rounds = std::make_shared<int>(0);
  return [=] {
    for (const object& o : *objects) o.host(tern::access_mode::read_write).get();
    const double taken = seconds([&] {
      for (const object& o : *objects)
        tern::submit(k::add, tern::items(16, 16), 16, 16, tern::pitch(o), tern::read_write(o));
      tern::wait_all();
    });
    ++*rounds;
    for (const object& o : *objects)
      if (o.host(tern::access_mode::read).get()(15, 15) != *rounds)
        throw std::runtime_error("a task has left no trace");
    return taken;
  };
}

/// Small tasks that a policy places: all on the host ("placed_host"), or on the devices that there
/// are. \return seconds a task.
measurement placed(const job& j) {
  constexpr std::size_t many = 1024;
  const bool on_host = j.benchmark == "placed_host";
  auto objects = std::make_shared<std::vector<object>>();
  for (std::size_t i = 0; i < many; ++i) objects->emplace_back(tern::extents<2>{4, 4}, 0);
  auto rounds = std::make_shared<int>(0);
  const auto run = [=, n = j.size] {
    for (std::size_t i = 0; i < n; ++i) {
      const object& o = (*objects)[i % many];
      hetero_task t(k::add, tern::items(4, 4), 4, 4, tern::pitch(o), tern::read_write(o));
      if (on_host) t.on("host"); // and so by the policy
      t.submit();
    }
    tern::wait_all();
    *rounds += static_cast<int>(n / many);
  };
  run(); // what models and tries cost at first is not meant
  return [=, n = j.size] {
    const double taken = seconds(run);
    for (std::size_t i = n % many; i < many; ++i) // those that all rounds have had
      if ((*objects)[i].host(tern::access_mode::read).get()(3, 3) != *rounds)
        throw std::runtime_error("a task has left no trace");
    return taken / static_cast<double>(n);
  };
}

/// A chain of kernels of 200 us, each launched when the one before it has ended, while all workers
/// compute. \return what a launch takes beside its kernel, in milliseconds.
measurement launches_while_busy(const job& j) {
  constexpr double kernel = 200e-6; // as the device's words say (main.cpp)
  auto data = std::make_shared<object>(tern::extents<2>{4, 4}, 0);
  data->prefetch("simulated0");
  tern::wait_all();
  return [data, n = j.size, others = j.workers - 1] {
    std::atomic<int> begun{0};
    std::atomic<bool> over{false};
    for (int i = 0; i < others; ++i)
      tern::submit([&begun, &over] {
        begun.fetch_add(1);
        while (!over.load()) {
        }
      });
    while (begun.load() < others) {
    }
    const double taken = seconds([&] {
      for (std::size_t i = 1; i <= n; ++i) {
        hetero_task t(k::add, tern::items(4, 4), 4, 4, tern::pitch(*data), tern::read_write(*data));
        t.on("simulated0").submit();
        if (i < n) continue;
        while (t.status() != tern::task_status::done) { // this worker computes, too
        }
      }
    });
    over = true;
    tern::wait_all();
    return (taken / static_cast<double>(n) - kernel) * 1e3;
  };
}

} // namespace

measurement simulated_devices(const job& j) {
  if (j.benchmark == "placed_host" || j.benchmark == "placed_devices") return placed(j);
  if (j.benchmark.starts_with("copies")) return copies(j);
  if (j.benchmark == "independent") return independent(j);
  if (j.benchmark == "launches_while_busy") return launches_while_busy(j);
  return {};
}

} // namespace tern::bench::hetero
