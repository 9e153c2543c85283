// SPDX-License-Identifier: Apache-2.0
// Programs whose data are larger than the host's memory: results, limits, disks that are full or
// fail, what can never fit.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "child.hpp"
#include "tests/hetero/support/graph_kernels.hpp"
#include "tests/hetero/support/tasks.hpp"
#include "tests/hetero/support/tile_programs.hpp"
#include "tests/task/support/executors.hpp"

namespace tern::hetero {
namespace {

using object = hetero_object<unsigned>;

using folder = test::temporary_on_disk;

constexpr std::int64_t elements = 16 * 1024, bytes = elements * std::int64_t{sizeof(unsigned)}; // 64 KiB
constexpr std::int64_t fit = 8;                                                                 // objects
const std::string limit = std::to_string(fit * bytes);

items over(const object& o) { return items(o.extent(0), 1); }
int size_of(const object& o) { return static_cast<int>(o.extent(0)); }
void fill(const object& o) {
  hetero_task(graph_kernels::fill, over(o), size_of(o), 1, 5u, pitch(o), write(o)).submit();
}
void add(const object& o, unsigned n = 1) {
  hetero_task(graph_kernels::add, over(o), size_of(o), 1, n, pitch(o), read_write(o)).submit();
}
void mix(const object& x, const object& y) {
  hetero_task(graph_kernels::mix, over(x), size_of(x), 1, 1u, pitch(x), read(x), pitch(y), read_write(y)).submit();
}
std::vector<object> objects_of(std::size_t n, std::int64_t size = elements) {
  std::vector<object> all;
  for (std::size_t i = 0; i < n; ++i) {
    all.emplace_back(size, static_cast<unsigned>(i));
    all.back().name("o" + std::to_string(i));
  }
  return all;
}
std::uint64_t sum_of(const object& o) {
  const auto host = o.host(access_mode::read).get();
  return std::accumulate(host.begin(), host.end(), std::uint64_t{0});
}
std::vector<std::uint64_t> sums_of(const std::vector<object>& all) {
  std::vector<std::uint64_t> sums;
  for (const object& o : all) sums.push_back(sum_of(o));
  return sums;
}

TEST(host_limit, sums_over_four_times_the_memory) {
  const folder here;
  for (const int workers : {1, 3})
    on({.workers = workers, .host_memory = limit, .disk = here.path}, [&] {
      constexpr std::size_t n = 4 * fit;
      constexpr std::uint64_t added = 3 * elements * (elements + 1) / 2;
      const auto all = objects_of(n);
      for (int step = 0; step < 3; ++step) {
        for (const object& o : all) add(o);
        wait_all();
        EXPECT_LE(count().host_bytes, fit * bytes);
      }
      for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(sum_of(all[i]), elements * i + added) << i;
      const statistics s = count();
      EXPECT_EQ(s.host_limit, fit * bytes);
      EXPECT_LE(s.host_bytes, fit * bytes);
      EXPECT_GE(s.disk_bytes, (static_cast<std::int64_t>(n) - fit) * bytes);
      EXPECT_GE(s.bytes_to_disk, 3 * (n - fit) * static_cast<std::uint64_t>(bytes));
      EXPECT_GE(s.bytes_from_disk, 3 * (n - fit) * static_cast<std::uint64_t>(bytes));
      EXPECT_EQ(s.bytes_to_disk, s.copies_to_disk * static_cast<std::uint64_t>(bytes));
    });
  EXPECT_TRUE(std::filesystem::is_empty(here.path));
}

// What has not changed since it was read goes without being written.
TEST(host_limit, what_is_only_read_is_written_once) {
  const folder here;
  on({.workers = 2, .host_memory = limit, .disk = here.path}, [&] {
    constexpr std::size_t n = 4 * fit;
    const auto all = objects_of(n);
    for (int step = 0; step < 3; ++step) EXPECT_EQ(sums_of(all), sums_of(all));
    EXPECT_LE(count().copies_to_disk, n);
    EXPECT_GE(count().copies_from_disk, 6 * (n - fit));
  });
}

// What is written anew as a whole need not be read before.
TEST(host_limit, what_is_overwritten_is_not_read) {
  const folder here;
  on({.workers = 2, .host_memory = limit, .disk = here.path}, [&] {
    const auto all = objects_of(3 * fit);
    for (int step = 0; step < 3; ++step)
      for (const object& o : all) fill(o);
    wait_all();
    EXPECT_EQ(count().copies_from_disk, 0u);
    std::uint64_t sum = 0;
    for (unsigned x = 0; x < elements; ++x) sum += graph_kernels::stir(5u, x);
    for (const object& o : all) EXPECT_EQ(sum_of(o), sum);
  });
}

class host_limit_on : public testing::TestWithParam<const char*> {
protected:
  /// The same on a machine with all the memory that it needs, and with a limit.
  static void same(std::size_t objects, const std::string& memory, const std::function<void(std::vector<object>&)>& f) {
    const folder here;
    std::vector<std::uint64_t> expected;
    on({.workers = 1}, [&] {
      auto all = objects_of(objects);
      f(all);
      expected = sums_of(all);
    });
    const std::string which = GetParam();
    machine m{.workers = 2, .devices = which, .host_memory = memory, .disk = here.path};
    if (which.find("simulated") != which.npos)
      m.simulated = "2:memory=" + std::to_string(5 * bytes) + ",latency=1us,launch=1us";
    if (which.find("opencl") != which.npos && !there_is_opencl()) return;
    on(m, [&] {
      auto all = objects_of(objects);
      f(all);
      EXPECT_EQ(sums_of(all), expected);
      EXPECT_GT(count().copies_to_disk, 0u);
    });
  }
};

TEST_P(host_limit_on, a_factorization_is_right) {
  same(36, limit, [](const std::vector<object>& all) {
    tile_programs::factorize(
        all, 6, [](const object& o) { add(o); }, mix);
  });
}
TEST_P(host_limit_on, a_product_is_right) {
  same(48, limit, [](const std::vector<object>& all) { tile_programs::multiply(all, 4, mix); });
}
TEST_P(host_limit_on, random_graphs_are_right) {
  for (unsigned seed = 1; seed <= test_support::some(12u) && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    same(20, std::to_string(3 * bytes), [seed](std::vector<object>& all) {
      std::mt19937 dice(seed);
      for (int i = 0; i < 150; ++i) {
        const std::size_t x = dice() % all.size(), y = (x + 1 + dice() % (all.size() - 1)) % all.size();
        switch (dice() % 12) {
        case 0:
          fill(all[x]);
          break;
        case 1:
          add(all[x]);
          break;
        case 2: {
          const auto host = all[x].host(access_mode::read_write).get();
          host(3) += host(7);
          break;
        }
        case 3: { // the object goes while it is used
          const object gone(elements, dice());
          mix(gone, all[x]);
          break;
        }
        case 4: {
          std::vector<unsigned> out(elements);
          all[x].copy_to(out.data()).get();
          EXPECT_EQ(std::accumulate(out.begin(), out.end(), std::uint64_t{0}), sum_of(all[x]));
          break;
        }
        default:
          mix(all[x], all[y]);
        }
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(, host_limit_on, testing::Values("host", "simulated", "host,simulated", "host,opencl"),
                         [](const auto& p) {
                           std::string name = p.param;
                           std::replace(name.begin(), name.end(), ',', '_');
                           return name;
                         });

} // namespace
} // namespace tern::hetero
