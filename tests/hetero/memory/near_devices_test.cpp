// SPDX-License-Identifier: Apache-2.0
// What one device has no room for goes to another one that is near.
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/graph_kernels.hpp"
#include "tests/hetero/support/tasks.hpp"
#include "tests/task/support/executors.hpp"
#include <tern/task/sim.hpp>

namespace tern::hetero {
namespace {

using testing::HasSubstr;
using object = hetero_object<unsigned, 2>;

constexpr int columns = 64;
constexpr std::size_t object_bytes = columns * sizeof(unsigned);

items one_row() { return items(columns, 1); }
void add_on(const object& o, const char* device) {
  hetero_task(graph_kernels::add, one_row(), columns, 1, 1u, pitch(o), read_write(o)).on(device).submit();
}
std::vector<object> objects_of_a_row(std::size_t n) {
  std::vector<object> all;
  for (std::size_t i = 0; i < n; ++i) all.emplace_back(extents<2>{1, columns}, static_cast<unsigned>(i));
  return all;
}
unsigned sum_of(const object& o) {
  const auto host = o.host(access_mode::read).get();
  unsigned sum = 0;
  for (int x = 0; x < columns; ++x) sum = sum * 31 + host(0, x);
  return sum;
}

/// \param more words of the devices.
std::string devices(std::size_t first_holds, std::size_t second_holds, const std::string& more = {}) {
  return "2:bandwidth=100M,peer-bandwidth=1G,memory=" + std::to_string(first_holds * object_bytes) +
         ",memory=" + std::to_string(second_holds * object_bytes) + "@1" + more;
}
template <class F>
void simulate_near(const std::string& simulated, const F& f, std::uint64_t seed = 1, int workers = 2) {
  options opts;
  opts.set(hetero_devices, "simulated");
  opts.set(hetero_simulated, simulated);
  opts.set(hetero_policy, "random");
  sim::simulation world({.seed = seed});
  scheduler s({.workers = workers, .simulation = &world, .opts = &opts});
  EXPECT_EQ(s.run([&] {
    f();
    expect_nothing_left();
  }),
            0u);
}

constexpr std::size_t objects = 12;

/// Changes each, twice, on the first device. \return what is in them.
std::vector<unsigned> change_all_on_first(std::vector<std::string>* failed = nullptr) {
  const auto all = objects_of_a_row(objects);
  for (int i = 0; i < 2; ++i)
    for (const object& o : all) add_on(o, "simulated0");
  try {
    wait_all();
  } catch (const error& e) {
    if (!failed) throw;
  }
  std::vector<unsigned> sums;
  for (const object& o : all) {
    unsigned& sum = sums.emplace_back(0);
    try {
      sum = sum_of(o);
    } catch (const error& e) {
      if (!failed) throw;
      failed->emplace_back(e.what());
    }
  }
  return sums;
}
std::vector<unsigned> expected_sums() {
  std::vector<unsigned> expected;
  simulate_near(devices(2 * objects, 1), [&] { expected = change_all_on_first(); });
  return expected;
}

TEST(near_devices, keep_what_has_no_room) {
  const auto expected = expected_sums();
  simulate_near(devices(4, 32), [&] {
    const auto all = objects_of_a_row(objects);
    for (int i = 0; i < 2; ++i)
      for (const object& o : all) add_on(o, "simulated0");
    wait_all();
    const statistics s = count();
    EXPECT_EQ(s.bytes_from_devices, 0u);
    EXPECT_EQ(s.bytes_to_devices, objects * object_bytes) << "each once";
    EXPECT_GE(s.bytes_between_devices, (objects - 4) * object_bytes);
    for (std::size_t i = 0; i < objects; ++i) EXPECT_EQ(sum_of(all[i]), expected[i]) << i;
  });
}

TEST(near_devices, keep_nothing_unless_a_quarter_stays_free) {
  const auto expected = expected_sums();
  simulate_near(devices(4, 8), [&] {
    EXPECT_EQ(change_all_on_first(), expected);
    EXPECT_GT(count().bytes_from_devices, 0u);
    EXPECT_LE(count().devices[2].memory_bytes, static_cast<std::int64_t>(6 * object_bytes));
  });
}

TEST(near_devices, whose_links_are_slower_than_home_keep_nothing) {
  const auto expected = expected_sums();
  simulate_near("2:bandwidth=2G,peer-bandwidth=1G,memory=1k,memory=1M@1", [&] {
    EXPECT_EQ(change_all_on_first(), expected);
    EXPECT_EQ(count().copies_between_devices, 0u);
    EXPECT_GT(count().bytes_from_devices, 0u);
  });
}

TEST(near_devices, that_fail_are_passed_by) {
  const auto expected = expected_sums();
  for (int nth = 1; nth < 8; ++nth)
    simulate_near(devices(4, 32, ",fail-copy=" + std::to_string(nth) + "@1"),
                  [&] { EXPECT_EQ(change_all_on_first(), expected) << nth; });
}

// What only it had is lost, and says so; the rest is right, and no task waits for ever.
TEST(near_devices, that_are_lost_lose_what_they_kept_alone) {
  const auto expected = expected_sums();
  std::size_t lost = 0;
  for (int nth = 1; nth < 16; ++nth)
    simulate_near(devices(4, 32, ",lose=" + std::to_string(nth) + "@1"), [&] {
      std::vector<std::string> failed;
      const auto sums = change_all_on_first(&failed);
      for (const std::string& why : failed) EXPECT_THAT(why, HasSubstr("lost")) << nth;
      std::size_t right = 0;
      for (std::size_t i = 0; i < objects; ++i) right += sums[i] == expected[i] ? 1 : 0;
      EXPECT_EQ(right + failed.size(), objects) << nth;
      lost += failed.size();
    });
  EXPECT_GT(lost, 0u);
}

std::vector<unsigned> graph_by_lot(std::uint64_t seed) {
  const auto all = objects_of_a_row(objects);
  std::mt19937 dice(static_cast<unsigned>(seed));
  for (int i = 0; i < 150; ++i) {
    const object &x = all[dice() % objects], &y = all[dice() % objects];
    if (&x == &y)
      x.wont_use();
    else
      hetero_task(graph_kernels::mix, one_row(), columns, 1, 1u, pitch(x), read(x), pitch(y), read_write(y)).submit();
  }
  wait_all();
  std::vector<unsigned> sums;
  for (const object& o : all) sums.push_back(sum_of(o));
  return sums;
}
std::vector<unsigned> graph_on_host(std::uint64_t seed) {
  std::vector<unsigned> sums;
  on({.workers = 1}, [&] { sums = graph_by_lot(seed); });
  return sums;
}

// As tasks run anywhere, each device keeps for the other, and both have little.
TEST(near_devices, graphs_by_lot_give_the_same) {
  std::uint64_t between = 0;
  for (std::uint64_t seed = 0; seed < test_support::some<std::uint64_t>(100) && !HasFailure(); ++seed) {
    const auto expected = graph_on_host(seed);
    simulate_near(
        devices(3 + seed % 3, 6 + seed % 7),
        [&] {
          EXPECT_EQ(graph_by_lot(seed), expected) << seed;
          between += count().copies_between_devices;
        },
        seed, 1 + static_cast<int>(seed % 3));
  }
  EXPECT_GT(between, 0u);
}

TEST(near_devices, graphs_by_lot_give_the_same_in_real_time) {
  for (std::uint64_t seed = 0; seed < 20 && !HasFailure(); ++seed) {
    const auto expected = graph_on_host(seed);
    on({.workers = 3,
        .devices = "simulated",
        .simulated = devices(3 + seed % 3, 6 + seed % 7),
        .policy = "random",
        .threads = seed % 2 == 0},
       [&] { EXPECT_EQ(graph_by_lot(seed), expected) << seed; });
  }
}

} // namespace
} // namespace tern::hetero
