// SPDX-License-Identifier: Apache-2.0
/// \file
/// A tiled LU factorization and a tiled product on a simulated device that holds a quarter of the
/// tiles: how much is copied, against the least for the same order of tasks, and how long it takes,
/// against a device that holds all. Time is virtual and the order is the seed's: a run is the same
/// each time.

#include "bench/hetero/memory/replacement.hpp"
#include "bench/hetero/tern.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <tern/hetero/devices.hpp>
#include <tern/hetero/dialect.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/hetero/policy.hpp>
#include <tern/hetero/statistics.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/sim.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::bench::hetero {

namespace {

using tern::hetero::dialect::group_context;
using number = std::uint32_t;

constexpr std::size_t tile_numbers = 1024;
constexpr int kernel_items = 100; // of a microsecond each
// A copy of a tile takes 50 us: half a kernel.
constexpr const char* device_words = "launch=0us,item=1us,latency=2us,bandwidth=85333333,memory=";

/// The order in which tasks have run. One thread runs a simulation.
std::vector<int> performed;

void change(group_context, int task, number* a) {
  performed.push_back(task);
  a[0] = a[0] * 31 + 1;
}
void change_by_one(group_context, int task, const number* x, number* a) {
  performed.push_back(task);
  a[0] = a[0] * 31 + x[0];
}
void change_by_two(group_context, int task, const number* x, const number* y, number* a) {
  performed.push_back(task);
  a[0] = a[0] * 31 + x[0] * y[0];
}
// Without a text: simulated devices run the function itself.
constexpr tern::hetero::kernel change_kernel{"change", &change, nullptr, {0, 0, 0}};
constexpr tern::hetero::kernel change_by_one_kernel{"change_by_one", &change_by_one, nullptr, {0, 0, 0}};
constexpr tern::hetero::kernel change_by_two_kernel{"change_by_two", &change_by_two, nullptr, {0, 0, 0}};

/// Tasks in the order of their submission: what each reads, and at the end what it reads and
/// writes.
struct program {
  std::size_t tiles;
  std::vector<std::vector<std::size_t>> tasks;
};

/// Right-looking.
program lu(std::size_t n) {
  program p{n * n, {}};
  const auto at = [n](std::size_t i, std::size_t j) { return i * n + j; };
  for (std::size_t k = 0; k < n; ++k) {
    p.tasks.push_back({at(k, k)});
    for (std::size_t j = k + 1; j < n; ++j) p.tasks.push_back({at(k, k), at(k, j)});
    for (std::size_t i = k + 1; i < n; ++i) p.tasks.push_back({at(k, k), at(i, k)});
    for (std::size_t i = k + 1; i < n; ++i)
      for (std::size_t j = k + 1; j < n; ++j) p.tasks.push_back({at(i, k), at(k, j), at(i, j)});
  }
  return p;
}

program product(std::size_t n) {
  program p{3 * n * n, {}};
  const auto at = [n](std::size_t matrix, std::size_t i, std::size_t j) { return (matrix * n + i) * n + j; };
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t k = 0; k < n; ++k) p.tasks.push_back({at(0, i, k), at(1, k, j), at(2, i, j)});
  return p;
}

struct outcome {
  double tiles = 0, seconds = 0; ///< copied in either direction; of the tasks
  std::vector<int> order;
};

void submit(const std::vector<tern::hetero_object<number>>& tiles, const std::vector<std::size_t>& uses, int task) {
  const tern::items shape = tern::items(kernel_items).group(kernel_items);
  const auto last = tern::read_write(tiles[uses.back()]);
  if (uses.size() == 1)
    tern::submit(change_kernel, shape, task, last);
  else if (uses.size() == 2)
    tern::submit(change_by_one_kernel, shape, task, tern::read(tiles[uses[0]]), last);
  else
    tern::submit(change_by_two_kernel, shape, task, tern::read(tiles[uses[0]]), tern::read(tiles[uses[1]]), last);
}

void run_tasks(const program& p, outcome& of) {
  std::vector<tern::hetero_object<number>> tiles;
  std::vector<number> expected;
  for (std::size_t i = 0; i < p.tiles; ++i) {
    tiles.emplace_back(static_cast<std::int64_t>(tile_numbers), static_cast<number>(i));
    expected.push_back(static_cast<number>(i));
  }
  const std::int64_t start = tern::detail::clock_now();
  for (std::size_t t = 0; t < p.tasks.size(); ++t) submit(tiles, p.tasks[t], static_cast<int>(t));
  tern::wait_all();
  of.seconds = static_cast<double>(tern::detail::clock_now() - start) * 1e-9;
  const auto copied = tern::hetero::count();
  of.tiles = static_cast<double>(copied.bytes_to_devices + copied.bytes_from_devices) / (tile_numbers * sizeof(number));
  of.order = std::exchange(performed, {});
  for (const auto& uses : p.tasks) { // in the order of submission, whatever the device's was
    number& a = expected[uses.back()];
    a = a * 31 + (uses.size() == 1 ? 1 : uses.size() == 2 ? expected[uses[0]] : expected[uses[0]] * expected[uses[1]]);
  }
  for (std::size_t i = 0; i < p.tiles; ++i)
    if (tiles[i].host(tern::access_mode::read).get()[0] != expected[i])
      throw std::runtime_error("tile " + std::to_string(i) + " is wrong");
}

/// \param room tiles that the device holds.
outcome simulate(const program& p, std::size_t room) {
  outcome of;
  std::exception_ptr failed;
  std::thread([&] { // a world of its own, which no worker of this process is in
    try {
      tern::options opts;
      opts.set(tern::hetero::hetero_devices, "simulated");
      opts.set(tern::hetero::hetero_simulated,
               std::string("1:") + device_words + std::to_string(room * tile_numbers * sizeof(number)));
      opts.set(tern::hetero::hetero_queues, 1);
      opts.set(tern::hetero::hetero_models, "off");
      opts.set(tern::hetero::hetero_policy, "eager");
      tern::sim::simulation world({.seed = 1});
      tern::scheduler s({.workers = 1, .simulation = &world, .opts = &opts});
      s.run([&] { run_tasks(p, of); });
    } catch (...) {
      failed = std::current_exception();
    }
  })
      .join();
  if (failed) std::rethrow_exception(failed);
  return of;
}

double least_tiles(const program& p, const outcome& of, std::size_t room, replacement how) {
  std::vector<tile_uses> in_order;
  for (const int t : of.order) {
    tile_uses uses;
    const auto& all = p.tasks[static_cast<std::size_t>(t)];
    for (const std::size_t tile : all) uses.push_back({tile, true, tile == all.back()});
    in_order.push_back(std::move(uses));
  }
  return static_cast<double>(traffic_of(in_order, room, how).all());
}

} // namespace

measurement bounded_memory(const job& j) {
  const bool is_lu = j.benchmark.starts_with("memory_lu"), is_product = j.benchmark.starts_with("memory_product");
  if (!is_lu && !is_product) return {};
  const program p = is_lu ? lu(j.size) : product(j.size);
  const std::size_t room = p.tiles / 4;
  const std::string what = j.benchmark.substr(is_lu ? 9 : 14);
  if (what.empty()) return [=] { return simulate(p, room).tiles; };
  if (what == "_belady") return [=] { return least_tiles(p, simulate(p, room), room, replacement::furthest); };
  if (what == "_lru") return [=] { return least_tiles(p, simulate(p, room), room, replacement::least_recent); };
  if (what == "_time") return [=] { return simulate(p, room).seconds; };
  if (what == "_unlimited") return [=] { return simulate(p, 2 * p.tiles).seconds; };
  return {};
}

} // namespace tern::bench::hetero
