// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tests which rank gets which objects, without any messages.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/balance/policies/shared/assignment.hpp>
#include <tern/balance/policies/shared/graph_partition.hpp>
#include <tern/balance/policies/shared/random.hpp>
#include <tern/balance/policies/shared/round.hpp>
#include <tern/balance/workload.hpp>
#include <tern/base/error.hpp>

namespace tern::balance::detail {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr double infinity = std::numeric_limits<double>::infinity();

// Objects by rank; each rank has so many workers, which do one load in a second.
assignment_problem problem(const std::vector<std::vector<float>>& loads, int workers = 1) {
  assignment_problem p;
  p.first.push_back(0);
  for (const std::vector<float>& rank : loads) {
    p.load.insert(p.load.end(), rank.begin(), rank.end());
    p.first.push_back(static_cast<std::uint32_t>(p.load.size()));
    p.fixed.push_back(0);
    p.speed.push_back(workers);
    p.workers.push_back(workers);
  }
  p.first_fixed.assign(loads.size() + 1, 0);
  return p;
}

void fix(assignment_problem& p, std::size_t rank, const std::vector<float>& parts) {
  p.fixed[rank] = std::accumulate(parts.begin(), parts.end(), 0.0);
  p.fixed_parts.insert(p.fixed_parts.begin() + p.first_fixed[rank + 1], parts.begin(), parts.end());
  for (std::size_t r = rank + 1; r < p.first_fixed.size(); ++r)
    p.first_fixed[r] += static_cast<std::uint32_t>(parts.size());
}

assignment_problem problem_of(const synthetic& s) {
  const workload w = make(s);
  std::vector<std::vector<float>> loads(static_cast<std::size_t>(w.ranks));
  for (const workload::object& x : w.objects)
    loads[static_cast<std::size_t>(x.rank)].push_back(static_cast<float>(x.seconds[0]));
  return problem(loads, w.workers);
}

double latest(const assignment_problem& p, const std::vector<std::int32_t>& where) {
  const std::vector<double> ends = ends_of(p, where);
  return *std::max_element(ends.begin(), ends.end());
}

// The largest sum of a rank's loads, for its speed.
double fullest(const assignment_problem& p, const std::vector<std::int32_t>& where) {
  std::vector<double> loads = p.fixed;
  for (std::size_t i = 0; i < where.size(); ++i) loads[static_cast<std::size_t>(where[i])] += p.load[i];
  double most = 0;
  for (std::size_t r = 0; r < loads.size(); ++r) most = std::max(most, loads[r] / p.speed[r]);
  return most;
}

std::ptrdiff_t moves(const assignment_problem& p, const std::vector<std::int32_t>& where) {
  const std::vector<std::int32_t> now = p.now();
  return std::inner_product(now.begin(), now.end(), where.begin(), std::ptrdiff_t{0}, std::plus<>(),
                            std::not_equal_to<>());
}

std::vector<std::int32_t> refined(const assignment_problem& p, double exact = 0.003) {
  std::vector<std::int32_t> where = p.now();
  assign_refine(p, exact, where);
  return where;
}

TEST(tree, is_the_same_for_all) {
  for (const int arity : {2, 3, 8})
    for (const int size : {1, 2, 3, 9, 10, 64, 1000}) {
      std::vector<int> seen(static_cast<std::size_t>(size));
      for (int rank = 0; rank < size; ++rank) {
        const tree_view view = view_tree(rank, size, arity);
        EXPECT_LE(view.children.size(), static_cast<std::size_t>(arity));
        EXPECT_EQ(view.parent < 0, rank == 0);
        int next = rank + 1;
        for (std::size_t i = 0; i < view.children.size(); ++i) {
          const branch& b = view.children[i];
          EXPECT_EQ(b.first, next);
          EXPECT_LT(b.first, b.last);
          next = b.last;
          EXPECT_EQ(view_tree(b.first, size, arity).parent, rank);
          EXPECT_EQ(view.place_of(b.first), i + 1);
          ++seen[static_cast<std::size_t>(b.first)];
        }
        EXPECT_THROW((void)view.place_of(rank), error);
      }
      EXPECT_EQ(std::accumulate(seen.begin(), seen.end(), 0), size - 1);
    }
}

TEST(winner_tree, knows_the_largest) {
  random_numbers random(1);
  for (const std::size_t size : {1u, 2u, 5u, 64u, 100u}) {
    winner_tree t(size);
    std::vector<double> values(size, -infinity);
    for (int i = 0; i < 1000; ++i) {
      const std::size_t at = random.below(size);
      values[at] = random.below(8) == 0 ? -infinity : static_cast<double>(random.below(20));
      t.set(at, values[at]);
      ASSERT_EQ(t.top(), static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin()));
    }
  }
}

TEST(assign, level_leaves_out_what_is_fixed_above_it) {
  assignment_problem p = problem({{4, 2}, {}, {}}, 2);
  EXPECT_DOUBLE_EQ(level_of(p), 1);
  fix(p, 1, {9, 9}); // ends after 9 seconds, whatever the others do
  EXPECT_DOUBLE_EQ(level_of(p), 1.5);
  fix(p, 2, {2});
  EXPECT_DOUBLE_EQ(level_of(p), 2);
  p.speed = {0, 0, 0};
  EXPECT_EQ(level_of(p), infinity);
  EXPECT_EQ(level_of(problem({{}, {}})), 0);
  p.speed = {1, 1, 4}; // half as quick, and twice
  EXPECT_DOUBLE_EQ(level_of(p), 8 / 5.);
  EXPECT_DOUBLE_EQ(grain_of(p), 3 * 2);
}

TEST(assign, ranks_end_with_their_last_worker) {
  assignment_problem p = problem({{3, 3, 3}, {1, 2, 3}, {}}, 2);
  EXPECT_THAT(ends_of(p, p.now()), ElementsAre(6, 3, 0));
  fix(p, 1, {4});
  fix(p, 2, {5, 1});
  EXPECT_THAT(ends_of(p, p.now()), ElementsAre(6, 5, 5)); // 4 + 1 and 2 + 3
  p.speed[0] = 1;
  EXPECT_EQ(ends_of(p, p.now())[0], 12);
  p.speed[0] = 0;
  EXPECT_EQ(ends_of(p, p.now())[0], infinity);
  const assignment_problem many = problem({std::vector<float>(1000, 1)}, 3);
  EXPECT_DOUBLE_EQ(ends_of(many, many.now())[0], 1000 / 3.);
}

TEST(assign, greedy_deals_out_evenly) {
  for (const char* placement : {"literature", "clustered"}) {
    const assignment_problem p = problem_of({.placement = placement, .ranks = 40, .workers = 15});
    const std::vector<std::int32_t> where = assign_greedy(p, 0.1);
    EXPECT_LT(latest(p, where), 1.02 * level_of(p)) << placement;
    EXPECT_LT(moves(p, where), 0.6 * static_cast<double>(where.size())) << placement;
    EXPECT_EQ(where, assign_greedy(p, 0.1));
  }
}

TEST(assign, refine_is_nearly_perfect_with_few_moves) {
  for (const char* placement : {"literature", "clustered"}) {
    const assignment_problem p = problem_of({.placement = placement, .ranks = 40, .workers = 15});
    const std::vector<std::int32_t> where = refined(p), dealt = assign_greedy(p, 0.1);
    EXPECT_LT(latest(p, where), 1.02 * level_of(p)) << placement;
    EXPECT_LT(moves(p, where), moves(p, dealt) / 2) << placement;
    EXPECT_EQ(where, refined(p));
  }
  // Where sizes allow, loads are the same to half a percent.
  for (const char* placement : {"literature", "pareto"}) {
    const assignment_problem p = problem_of({.placement = placement, .ranks = 40, .workers = 15, .per_worker = 65});
    EXPECT_LT(fullest(p, refined(p)), 1.005 * level_of(p)) << placement;
  }
}

TEST(assign, refine_leaves_alone_what_is_even) {
  const assignment_problem even = problem({{5, 5}, {4, 6}, {10}});
  EXPECT_EQ(refined(even), even.now());
  const assignment_problem coarse = problem({{8}, {3}, {3}});
  EXPECT_EQ(refined(coarse), coarse.now());
  // One exchange, and nothing else.
  const assignment_problem swap = problem({{7, 5}, {5, 3}, {10}});
  EXPECT_LE(moves(swap, refined(swap)), 2);
  EXPECT_EQ(latest(swap, refined(swap)), 10);
}

TEST(assign, ranks_of_unequal_speed) {
  synthetic s{.placement = "literature", .ranks = 20, .workers = 4};
  assignment_problem p = problem_of(s);
  for (std::size_t r = 0; r < p.ranks(); ++r) p.speed[r] *= r % 4 == 0 ? 0.25 : 1 + 0.01 * static_cast<double>(r);
  p.speed[7] = 0;
  p.workers[8] = 2;
  for (const std::vector<std::int32_t>& where : {refined(p), assign_greedy(p, 0.1)}) {
    EXPECT_THAT(where, testing::Not(testing::Contains(7)));
    EXPECT_LT(latest(p, where), 1.25 * level_of(p)); // one object takes a slow rank a tenth of that
    EXPECT_LT(fullest(p, where), 1.06 * level_of(p));
  }
}

TEST(assign, degenerate_problems) {
  using ranks = std::vector<std::vector<float>>;
  for (const ranks& loads :
       {ranks{{}}, ranks{{}, {}}, ranks{{0, 0}, {0}}, ranks{{1, 0, 2}}, ranks{{1e-30F}, {1e30F}, {}}}) {
    assignment_problem p = problem(loads);
    EXPECT_EQ(assign_greedy(p, 1).size(), p.load.size());
    EXPECT_EQ(refined(p).size(), p.load.size());
    EXPECT_EQ(refined(p, 0).size(), p.load.size());
    p.speed.assign(p.ranks(), 0);
    EXPECT_EQ(assign_greedy(p, 0), p.now());
    EXPECT_EQ(refined(p), p.now());
  }
  random_numbers random(5);
  for (int i = 0; i < 300; ++i) { // whatever it is, nothing gets worse
    ranks loads(1 + random.below(6));
    for (auto& rank : loads)
      for (std::uint64_t n = random.below(8); n > 0; --n)
        rank.push_back(static_cast<float>(random.below(3) == 0 ? random.below(3) : random.below(1000)));
    assignment_problem p = problem(loads, 1 + static_cast<int>(random.below(3)));
    if (random.below(2) == 0) fix(p, random.below(loads.size()), {300, 200});
    for (double& speed : p.speed) speed *= 1 + static_cast<double>(random.below(3));
    EXPECT_LE(latest(p, refined(p)), latest(p, p.now()));
  }
}

// Cutting -------------------------------------------------------------------------------------------------------------

// A torus of objects that all talk to their four neighbours, dealt out by chance.
struct torus {
  assignment_problem p;
  talk_report talk;
  explicit torus(int ranks, int width = 24) {
    const auto n = static_cast<std::uint32_t>(width * width);
    random_numbers random(3);
    std::vector<std::uint32_t> at(n);
    std::iota(at.begin(), at.end(), 0u);
    for (std::uint32_t i = n; i > 1; --i) std::swap(at[i - 1], at[random.below(i)]);
    const auto each = n / static_cast<std::uint32_t>(ranks);
    p = problem(std::vector<std::vector<float>>(static_cast<std::size_t>(ranks), std::vector<float>(each, 1)));
    const auto w = static_cast<std::uint32_t>(width);
    for (const std::uint32_t i : std::span(at).first(each * static_cast<std::uint32_t>(ranks))) {
      talk.ids.push_back(i + 1);
      talk.cost.push_back(100);
      talk.stays.push_back(0);
      talk.contacts.push_back(4);
      for (const std::uint32_t other : {(i + 1) % n, (i + n - 1) % n, (i + w) % n, (i + n - w) % n}) {
        talk.with.push_back(other + 1);
        talk.bytes.push_back(1000);
        talk.messages.push_back(1);
      }
    }
  }
};

TEST(cut, brings_together_what_talks) {
  const torus t(8);
  const talk_graph g = graph_of(t.talk, 1e-6, 1e-3);
  ASSERT_EQ(g.with.size(), 4 * t.p.load.size());
  EXPECT_THAT(g.seconds, Each(2e-3F));
  std::vector<std::int32_t> where = cut(t.p, g, t.talk.cost, t.talk.stays, 1);
  ASSERT_EQ(where.size(), t.p.load.size());
  EXPECT_LT(talk_of(t.p, g, where), 0.3 * talk_of(t.p, g, t.p.now()));
  EXPECT_LT(fullest(t.p, where), 1.05 * level_of(t.p));
  even_out(t.p, g, t.talk.stays, 0.003, where);
  EXPECT_LT(talk_of(t.p, g, where), 0.3 * talk_of(t.p, g, t.p.now()));
  EXPECT_LT(fullest(t.p, where), 1.01 * level_of(t.p));
  EXPECT_EQ(cut(t.p, g, t.talk.cost, t.talk.stays, 1), cut(t.p, g, t.talk.cost, t.talk.stays, 1));
  // What has come apart is mended, and nothing else is touched.
  std::vector<std::int32_t> apart = where;
  for (std::size_t i = 0; i + 7 < apart.size(); i += 14) std::swap(apart[i], apart[i + 7]);
  std::vector<std::int32_t> mended = apart;
  even_out(t.p, g, t.talk.stays, 0.02, mended);
  EXPECT_LT(talk_of(t.p, g, mended), talk_of(t.p, g, where) + 0.3 * (talk_of(t.p, g, apart) - talk_of(t.p, g, where)));
  EXPECT_LT(fullest(t.p, mended), 1.03 * level_of(t.p));
  // Parts go where most of them is already.
  assignment_problem there = t.p;
  std::vector<std::uint32_t> order(where.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](auto a, auto b) { return std::pair(where[a], a) < std::pair(where[b], b); });
  talk_report sorted;
  for (const std::uint32_t i : order) {
    sorted.ids.push_back(t.talk.ids[i]);
    sorted.contacts.push_back(4);
    for (std::size_t c = 4 * std::size_t{i}; c < 4 * std::size_t{i} + 4; ++c) {
      sorted.with.push_back(t.talk.with[c]);
      sorted.bytes.push_back(t.talk.bytes[c]);
      sorted.messages.push_back(t.talk.messages[c]);
    }
  }
  const talk_graph again = graph_of(sorted, 1e-6, 1e-3);
  EXPECT_LT(moves(there, cut(there, again, t.talk.cost, t.talk.stays, 2)), moves(t.p, where) * 3 / 4);
}

TEST(cut, knows_speeds_and_what_stays) {
  torus t(4);
  t.p.speed = {1, 0, 3, 2};
  for (std::size_t i = 0; i < 10; ++i) t.talk.stays[i] = 1; // on rank 0
  const talk_graph g = graph_of(t.talk, 1e-6, 0);
  std::vector<std::int32_t> where = cut(t.p, g, t.talk.cost, t.talk.stays, 1);
  ASSERT_EQ(where.size(), t.p.load.size());
  even_out(t.p, g, t.talk.stays, 0.003, where);
  EXPECT_THAT(std::vector(where.begin(), where.begin() + 10), Each(0));
  EXPECT_THAT(where, testing::Not(testing::Contains(1)));
  EXPECT_LT(fullest(t.p, where), 1.02 * level_of(t.p)); // rank 1: 0 / 0, which is less than anything
}

TEST(cut, gives_up_where_there_is_nothing_to_cut) {
  const auto nothing = [](const assignment_problem& p, const talk_report& talk) {
    return cut(p, graph_of(talk, 1, 1), talk.cost, talk.stays, 1);
  };
  EXPECT_THAT(nothing(problem({{}}), {}), IsEmpty());
  EXPECT_THAT(nothing(problem({{}, {}}), {}), IsEmpty());
  const torus one(1), many(144);
  EXPECT_THAT(nothing(one.p, one.talk), IsEmpty());
  EXPECT_EQ(nothing(many.p, many.talk).size(), many.p.load.size());
  const torus too_many(288);
  EXPECT_THAT(nothing(too_many.p, too_many.talk), IsEmpty());
  torus silent(4), strange(4);
  std::fill(silent.talk.bytes.begin(), silent.talk.bytes.end(), 0.0F);
  std::fill(silent.talk.messages.begin(), silent.talk.messages.end(), 0.0F);
  EXPECT_THAT(nothing(silent.p, silent.talk), IsEmpty());
  for (std::uint64_t& with : strange.talk.with) with += 1'000'000; // no rank has reported them
  EXPECT_THAT(nothing(strange.p, strange.talk), IsEmpty());
}

TEST(cut, any_weights) {
  random_numbers random(9);
  for (int i = 0; i < 60; ++i) {
    torus t(2 + static_cast<int>(random.below(30)), 16);
    const std::uint64_t kind = random.below(4);
    for (float& load : t.p.load)
      load = kind == 0 ? 0 : random.below(kind == 1 ? 2 : 100) == 0 ? 1e6F : static_cast<float>(random.below(10));
    for (float& bytes : t.talk.bytes) bytes = static_cast<float>(random.below(50) == 0 ? 1e12 : random.below(3));
    for (std::uint8_t& stays : t.talk.stays) stays = random.below(10) == 0;
    const talk_graph g = graph_of(t.talk, 1e-9, 0);
    std::vector<std::int32_t> where = cut(t.p, g, t.talk.cost, t.talk.stays, random.next());
    if (where.empty()) where = t.p.now();
    even_out(t.p, g, t.talk.stays, 0.003, where);
    const std::vector<std::int32_t> now = t.p.now();
    for (std::size_t k = 0; k < where.size(); ++k) {
      ASSERT_GE(where[k], 0);
      ASSERT_LT(static_cast<std::size_t>(where[k]), t.p.ranks());
      ASSERT_TRUE(!t.talk.stays[k] || where[k] == now[k]);
    }
  }
}

} // namespace
} // namespace tern::balance::detail
