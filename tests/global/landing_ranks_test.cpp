// SPDX-License-Identifier: Apache-2.0
// Programs that would stand still, or fill a rank's memory, if data came when they like: with
// TERN_GLOBAL_LANDING=16M there is room for a few of the objects.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include <tern/global/pointer.hpp>
#include <tern/global/travel.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/fiber/sanitizer.hpp>
#include <tern/task/future.hpp>

#include "rank_test.hpp"
#include "tests/global/support/rank_data.hpp"

namespace landing_test {

using tern::exported;
using tern::global_ptr;
using tern::hetero_object;
using tern::rank;
using tern::size;
using tern::test::counted;
using tern::test::left;
using tern::test::right;
using tern::test::sum_from;
using tern::test::sum_of;

constexpr int large = 1 << 20; // elements: 4 MiB, of which four have room

struct seen {
  std::atomic<std::int64_t> handled{0}, wrong{0};
};
const tern::rank_local<seen> here;

/// Nothing is left, and no more was to come at a time than there was room for, and one object.
void end(std::uint64_t largest) {
  tern::quiesce();
  tern::wait_all();
  const auto t = tern::global::count_transfers();
  TERN_EXPECT_EQ(t.departing, 0u);
  TERN_EXPECT_EQ(t.arriving, 0u);
  const char* const budget = std::getenv("TERN_GLOBAL_LANDING");
  if (budget && std::string_view(budget) == "16M") TERN_EXPECT(t.landing_peak <= (std::uint64_t{16} << 20) + largest);
  TERN_EXPECT_EQ(here->wrong.load(), 0);
  tern::barrier();
  here->handled = 0;
  tern::barrier();
}

void take(std::int64_t first, hetero_object<int> x) {
  if (sum_of(x) != sum_from(x.count(), first)) ++here->wrong;
  ++here->handled;
}

TERN_RANK_TEST(puts_in_opposite_directions_within_a_budget) {
  if (tern::size() > 16) return; // simulated, it takes ten seconds and more; more ranks show nothing else
  std::vector<hetero_object<int>> objects;
  std::vector<exported<int>> entries;
  std::vector<std::vector<global_ptr<int>>> there;
  for (int i = 0; i < 6; ++i) {
    objects.push_back(counted(large, i));
    entries.emplace_back(objects.back());
    there.push_back(tern::broadcast(tern::gather(entries.back().ptr())));
  }
  tern::barrier();
  for (std::size_t i = 0; i < objects.size(); ++i) // each source is another's target
    tern::put(objects[i], there[i][static_cast<std::size_t>(right())]);
  tern::fence().get();
  tern::barrier();
  for (int i = 0; i < 6; ++i) TERN_EXPECT_EQ(sum_of(objects[static_cast<std::size_t>(i)]), sum_from(large, i));
  tern::barrier();
  end(large * sizeof(int));
}

TERN_RANK_TEST(rings_of_gets_within_a_budget) {
  constexpr int rounds = 5;
  std::vector<hetero_object<int>> objects{counted(large, rank())};
  std::vector<exported<int>> entries;
  for (int k = 0; k < rounds; ++k) { // what came last goes on, before it has come
    entries.emplace_back(objects.back());
    const auto there = tern::broadcast(tern::gather(entries.back().ptr()));
    objects.push_back(tern::get(there[static_cast<std::size_t>(right())]));
  }
  TERN_EXPECT_EQ(sum_of(objects.back()), sum_from(large, (rank() + rounds) % size()));
  tern::barrier(); // all have what they got
  end(large * sizeof(int));
}

// The first to be announced are the last to be there.
TERN_RANK_TEST(data_sent_long_before_they_are_computed) {
  if (tern::size() > 16) return; // simulated, it takes ten seconds and more; more ranks show nothing else
  tern::promise<void> gate;
  tern::shared_future<void> open = gate.get_future().share();
  constexpr int late = tern::detail::sanitized ? 5 : 8, ready = late; // four have room
  for (int i = 0; i < late; ++i) {
    hetero_object<int> x(large);
    tern::submit(
        [open, i](tern::host_view<int, 1> v) {
          open.get();
          for (int k = 0; k < large; ++k) v[k] = i + k;
        },
        tern::write(x));
    tern::send<&take>(right(), i, std::move(x));
  }
  std::vector<tern::future<void>> before;
  for (int i = 0; i < ready; ++i) before.push_back(tern::call<&take>(right(), 100 + i, counted(large, 100 + i)));
  for (auto& f : before) f.get(); // those that are there do not wait for the others
  gate.set_value();
  tern::quiesce();
  TERN_EXPECT_EQ(here->handled.load(), late + ready);
  end(large * sizeof(int));
}

TERN_RANK_TEST(a_thousand_senders_to_one_rank) {
  constexpr int senders = tern::detail::sanitized ? 200 : 1000, n = 16 << 10; // 64 KiB each
  std::vector<tern::future<void>> all;
  for (int i = rank(); i < senders; i += size())
    all.push_back(tern::async([i] { tern::send<&take>(0, i, counted(n, i)); }));
  for (auto& f : all) f.get();
  tern::quiesce();
  if (rank() == 0) TERN_EXPECT_EQ(here->handled.load(), senders);
  end(large * sizeof(int)); // what the tests before have had
}

} // namespace landing_test
