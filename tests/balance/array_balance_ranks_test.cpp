// SPDX-License-Identifier: Apache-2.0
// What policies know of arrays, phases of one array, and the policy `curve`.
#include <tern/balance/balance.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <tern/balance/policy.hpp>
#include <tern/base/error.hpp>
#include <tern/mobile/array.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/node.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>

#include "rank_test.hpp"
#include "tests/balance/support/ranks.hpp"

namespace balance_test {

using namespace std::chrono_literals;
using tern::rank;
using tern::size;
using tern::balance::array_place;
using tern::balance::object_info;
using tern::balance::policy;
using tern::balance::policy_context;
using tern::balance::registered_policy;
using tern::balance::trigger;

/// Work that the place decides.
struct site {
  explicit site(const tern::indices<2>& at) : row(at[0]), column(at[1]) {}
  site() = default;
  template <class A> void serialize(A& ar) { ar(row, column); }
  void upper_half() { compute(row < 4 ? 2ms : 20us); }
  void lower_half() { compute(row < 4 ? 20us : 2ms); }
  void work() { compute(500us); }
  int where() const { return rank(); }
  std::int64_t row = 0, column = 0;
};
using cells = tern::mobile_array<site, 2>;

/// What the policy saw when a phase ended.
struct sight {
  std::set<std::uint64_t> arrays;
  std::size_t objects = 0, strangers = 0, lonely = 0, wrong = 0;
};
const tern::rank_local<sight> seen_of_arrays;

class watcher : public policy {
public:
  watcher(policy_context& h, tern::balance::parameters&) : policy(h) {}
  void dist_balance(trigger why) override {
    if (why != trigger::phase) return;
    sight& s = *seen_of_arrays = {};
    for (const object_info& o : here.objects()) {
      ++s.objects;
      const auto at = here.element(o.id);
      if (!at) {
        ++s.strangers;
        s.lonely += here.neighbours(o.id).empty();
        continue;
      }
      s.arrays.insert(at->array);
      // Each neighbour of 8 x 8 is one step away, is on the rank that it is said to be on at home,
      // and there are as many as there must be.
      const auto with = here.neighbours(o.id);
      std::size_t due = 0;
      for (const std::size_t d : {0, 1}) due += (at->index[d] > 0) + (at->index[d] < at->size[d] - 1);
      s.wrong += with.size() != due || at->dimensions != 2 || at->size[0] != 8 || at->size[1] != 8;
      for (const auto& one : with) {
        const auto other = here.element(one.with);
        s.wrong += !other || other->array != at->array ||
                   std::abs(other->index[0] - at->index[0]) + std::abs(other->index[1] - at->index[1]) != 1 ||
                   one.where < 0 || one.where >= here.size();
      }
    }
  }
};
const registered_policy<watcher> the_watcher("test-watcher", "looks at arrays");

cells everywhere(const char* name) {
  cells a;
  if (rank() == 0) a = cells({.name = name}, {8, 8});
  return tern::broadcast(a, 0);
}
void end(const cells& a) {
  tern::barrier();
  if (rank() == 0) tern::destroy(a).get();
  tern::barrier();
}
void everywhere_use(const std::string& name) {
  if (rank() == 0) tern::balance::use(name).get();
  tern::barrier();
}

TERN_RANK_TEST(policies_see_places_and_neighbours) {
  const cells grid = everywhere("grid"), other = everywhere("other");
  const auto alone = tern::create<site>();
  everywhere_use("test-watcher");
  tern::balance::phase();
  const sight all = *seen_of_arrays;
  TERN_EXPECT_EQ(all.strangers, 1u);
  TERN_EXPECT_EQ(all.lonely, 1u);
  TERN_EXPECT_EQ(all.wrong, 0u);
  TERN_EXPECT_EQ(tern::allreduce(all.objects, std::plus<>()), 128u + static_cast<std::size_t>(size()));
  tern::balance::phase(grid);
  const sight one = *seen_of_arrays;
  TERN_EXPECT_EQ(one.strangers, 0u);
  TERN_EXPECT_EQ(one.wrong, 0u);
  TERN_EXPECT(one.arrays.size() <= 1);
  TERN_EXPECT_EQ(tern::allreduce(one.objects, std::plus<>()), 64u);
  if (!one.arrays.empty()) TERN_EXPECT_EQ(*one.arrays.begin(), grid.id());
  tern::balance::phase(); // and all again
  TERN_EXPECT_EQ(seen_of_arrays->strangers, 1u);
  everywhere_use("none");
  tern::destroy(alone).get();
  end(grid);
  end(other);
}

/// By rank: how many of the halves' elements it has.
std::vector<int> places(const cells& of, bool upper) {
  std::vector<int> by_rank(static_cast<std::size_t>(size()));
  for (std::int64_t i = upper ? 0 : 4; i < (upper ? 4 : 8); ++i)
    for (std::int64_t j = 0; j < 8; ++j) ++by_rank[static_cast<std::size_t>(tern::call<&site::where>(of(i, j)).get())];
  return by_rank;
}

/// At first one half of the ranks has all that is heavy. Elsewhere than in simulations times are
/// measured, also when the machine does other things.
bool is_share(int heavy) {
  const char* const how = std::getenv("TERN_SIM");                                      // NOLINT(concurrency-mt-unsafe)
  if (how && std::string_view(how).find("slow") != std::string_view::npos) return true; // slow ranks get less
  const double share = 32.0 / size();
  const double exact = tern::net::node::here().simulated() ? 2 : 6 + share * 3 / 4;
  return std::abs(heavy - share) <= exact;
}

// Two arrays in turn, whose loads add up to the same everywhere: each is evened out by itself.
TERN_RANK_TEST(arrays_that_take_turns_are_each_evened_out) {
  const cells first = everywhere("first"), second = everywhere("second");
  everywhere_use("greedy:inside=no");
  for (int step = 0; step < 3; ++step) {
    if (rank() == 0) tern::send<&site::upper_half>(first);
    tern::balance::phase(first);
    if (rank() == 0) tern::send<&site::lower_half>(second);
    tern::balance::phase(second);
  }
  if (rank() == 0) {
    const auto heavy_of_first = places(first, true), heavy_of_second = places(second, false);
    for (int r = 0; r < size(); ++r) {
      TERN_EXPECT(is_share(heavy_of_first[static_cast<std::size_t>(r)]));
      TERN_EXPECT(is_share(heavy_of_second[static_cast<std::size_t>(r)]));
    }
  }
  tern::barrier();
  everywhere_use("none");
  end(first);
  end(second);
}

TERN_RANK_TEST(the_curve_keeps_neighbours_together) {
  const cells grid = everywhere("grid");
  everywhere_use("curve:inside=no");
  for (int step = 0; step < 3; ++step) {
    if (rank() == 0) tern::send<&site::upper_half>(grid);
    tern::balance::phase(grid);
  }
  if (rank() == 0) {
    const auto heavy = places(grid, true);
    int cut = 0;
    for (std::int64_t i = 0; i < 8; ++i)
      for (std::int64_t j = 0; j < 8; ++j) {
        const int own = tern::call<&site::where>(grid(i, j)).get();
        cut += i + 1 < 8 && tern::call<&site::where>(grid(i + 1, j)).get() != own;
        cut += j + 1 < 8 && tern::call<&site::where>(grid(i, j + 1)).get() != own;
      }
    for (const int n : heavy) TERN_EXPECT(is_share(n));
    // Of 112 pairs; at random, half of them would be on two ranks, or three quarters on four.
    TERN_EXPECT(cut <= (size() == 1 ? 0 : size() == 2 ? 24 : size() <= 4 ? 44 : 112));
  }
  tern::barrier();
  everywhere_use("none");
  end(grid);
}

TERN_RANK_TEST(a_phase_needs_an_array) {
  TERN_EXPECT_ERROR(tern::balance::phase(cells()), tern::errc::invalid_argument, "array");
  const cells gone = everywhere("gone");
  end(gone);
  TERN_EXPECT_ERROR(tern::balance::phase(gone), tern::errc::not_found, "has been destroyed");
  tern::barrier();
}

} // namespace balance_test
