// SPDX-License-Identifier: Apache-2.0
// Global pointers, on every transport and several kinds of devices.
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <tern/global/pointer.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/hetero/recorded.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>

#include "rank_test.hpp"
#include "tests/global/support/rank_data.hpp"

namespace pointer_test {

using tern::access_mode;
using tern::accumulation;
using tern::exported;
using tern::global_ptr;
using tern::hetero_object;
using tern::rank;
using tern::size;
using tern::test::add_to;
using tern::test::counted;
using tern::test::left;
using tern::test::right;
using tern::test::sum_from;
using tern::test::sum_of;

constexpr int small = 100, medium = 4000, large = 300000; // elements

/// What a rank lets the others reach, and theirs.
struct opened {
  hetero_object<int> object;
  exported<int> entry;
  std::vector<global_ptr<int>> all;
  explicit opened(const hetero_object<int>& x) : object(x), entry(x), all(tern::broadcast(tern::gather(entry.ptr()))) {}
};

struct seen {
  std::atomic<std::int64_t> handled{0}, sum{0};
  std::optional<hetero_object<int>> object; // that handlers look at
};
const tern::rank_local<seen> here;

/// All that was announced is over, and nothing is left of it.
void end() {
  tern::quiesce();
  const auto n = tern::global::count_pointers();
  TERN_EXPECT_EQ(n.announced, n.finished);
  TERN_EXPECT_EQ(n.serving, 0u);
  const auto t = tern::global::count_transfers();
  TERN_EXPECT_EQ(t.departing, 0u);
  TERN_EXPECT_EQ(t.arriving, 0u);
  tern::barrier();
  here->handled = 0;
  here->sum = 0;
  here->object.reset();
  tern::wait_all();
  tern::barrier();
}

TERN_RANK_TEST(puts_of_each_size) {
  for (const int n : {1, small, medium, large}) {
    const opened mine(hetero_object<int>(n, -1));
    tern::barrier();
    const hetero_object<int> x = counted(n, rank());
    const tern::transfer t = tern::put(x, mine.all[static_cast<std::size_t>(right())]);
    add_to(x, 5); // waits until the data have left
    t.done().get();
    TERN_EXPECT_EQ(sum_of(x), sum_from(n, rank() + 5));
    tern::barrier(); // all are done
    TERN_EXPECT_EQ(sum_of(mine.object), sum_from(n, left()));
    tern::barrier();
  }
  end();
}

TERN_RANK_TEST(gets_of_each_size) {
  for (const int n : {1, small, medium, large}) {
    const opened mine(counted(n, rank()));
    tern::barrier();
    const auto& there = mine.all[static_cast<std::size_t>(right())];
    const hetero_object<int> fresh = tern::get(there);
    hetero_object<int> target(n, 0);
    const tern::transfer t = tern::get(there, target);
    add_to(target, 3); // waits for the data
    TERN_EXPECT_EQ(sum_of(fresh), sum_from(n, right()));
    TERN_EXPECT_EQ(sum_of(target), sum_from(n, right() + 3));
    t.done().get();
    tern::barrier();
  }
  end();
}

TERN_RANK_TEST(parts_are_narrowed) {
  hetero_object<double, 2> board({6, 8}, 0.0);
  const exported<double, 2> entry(board.part({1, 1}, {6, 8})); // of 5 x 7
  const auto all = tern::broadcast(tern::gather(entry.ptr()));
  hetero_object<double, 2> x({2, 3}, 1.0 + rank());
  const auto there = all[static_cast<std::size_t>(right())].part({1, 2}, {4, 5}).rows(1, 3);
  TERN_EXPECT_EQ(there.extent(0), 2);
  TERN_EXPECT_EQ(there.count(), 6);
  tern::put(x, there).done().get();
  tern::put(x.part({0, 0}, {1, 1}), all[static_cast<std::size_t>(right())].part({4, 6}, {5, 7})).done().get();
  tern::barrier();
  auto v = board.host(access_mode::read).get();
  for (std::int64_t i = 0; i < 6; ++i)
    for (std::int64_t j = 0; j < 8; ++j) {
      const bool inside = (i >= 3 && i < 5 && j >= 3 && j < 6) || (i == 5 && j == 7);
      TERN_EXPECT_EQ(v(i, j), inside ? 1.0 + left() : 0.0);
    }
  v.release();
  tern::barrier();
  hetero_object<double, 2> back({2, 3});
  tern::get(there, back).done().get();
  TERN_EXPECT_EQ(back.host(access_mode::read).get()(1, 2), 1.0 + rank());
  end();
}

void look() {
  ++here->handled;
  here->sum += sum_of(*here->object);
}
// O2: what a later message submits sees the put; O4: so does what it notifies.
TERN_RANK_TEST(messages_come_behind_puts) {
  for (const int n : {small, medium, large}) {
    const opened mine(hetero_object<int>(n, 0));
    here->object = mine.object;
    tern::barrier();
    const auto& there = mine.all[static_cast<std::size_t>(right())];
    tern::put(counted(n, 1), there);
    tern::send<&look>(right());
    tern::put(counted(n, 2), there, tern::notify<&look>());
    tern::quiesce();
    TERN_EXPECT_EQ(here->handled.load(), 2);
    // The second put may have come before the first handler looked.
    TERN_EXPECT(here->sum == sum_from(n, 1) + sum_from(n, 2) || here->sum == 2 * sum_from(n, 2));
    here->handled = 0;
    here->sum = 0;
    tern::barrier();
  }
  end();
}

// Each source is the other's target. If a request waited for its writer they would wait for ever.
TERN_RANK_TEST(puts_in_opposite_directions) {
  for (const int n : {small, medium, large}) {
    const opened mine(counted(n, 100 * rank()));
    tern::barrier();
    for (int i = 0; i < 10; ++i) tern::put(mine.object, mine.all[static_cast<std::size_t>(right())]);
    tern::fence().get();
    tern::barrier();
    const std::int64_t sum = sum_of(mine.object);
    bool found = false;
    for (int r = 0; r < size(); ++r) found = found || sum == sum_from(n, 100 * r);
    TERN_EXPECT(found);
    tern::barrier();
  }
  end();
}

TERN_RANK_TEST(sums_of_all_ranks) {
  for (const int n : {small, large}) {
    const opened mine(hetero_object<int>(n, 1000));
    tern::barrier();
    const auto& first = mine.all[0];
    for (int i = 0; i < 5; ++i) tern::accumulate(counted(n, 1), first, accumulation::plus);
    tern::accumulate(counted(n, 1), first, accumulation::plus, tern::in_order);
    tern::fence(0).get();
    tern::barrier();
    if (rank() == 0) TERN_EXPECT_EQ(sum_of(mine.object), n * 1000 + 6 * size() * sum_from(n, 1));
    tern::barrier();
  }
  hetero_object<float> low(3, 5.0f), high(3, 5.0f);
  const exported<float> e(low), f(high);
  const auto lows = tern::broadcast(tern::gather(e.ptr())), highs = tern::broadcast(tern::gather(f.ptr()));
  for (int r = 0; r < size(); ++r) {
    const hetero_object<float> x(3, 4.0f - static_cast<float>(rank())), y(3, 6.0f + static_cast<float>(rank()));
    tern::accumulate(x, lows[static_cast<std::size_t>(r)], accumulation::min);
    tern::accumulate(y, lows[static_cast<std::size_t>(r)], accumulation::min);
    tern::accumulate(x, highs[static_cast<std::size_t>(r)], accumulation::max);
    tern::accumulate(y, highs[static_cast<std::size_t>(r)], accumulation::max);
  }
  tern::fence().get();
  tern::barrier();
  TERN_EXPECT_EQ(low.host(access_mode::read).get()(2), 5.0f - static_cast<float>(size()));
  TERN_EXPECT_EQ(high.host(access_mode::read).get()(0), 5.0f + static_cast<float>(size()));
  tern::barrier();
  end();
}

// A counter of all ranks: each of its values is given out once.
TERN_RANK_TEST(fetched_sums_differ) {
  hetero_object<std::int64_t> counter(1, 0);
  const exported<std::int64_t> entry(counter);
  const auto first = tern::broadcast(tern::gather(entry.ptr()))[0];
  const hetero_object<std::int64_t> one(1, 1);
  std::vector<hetero_object<std::int64_t>> got;
  for (int i = 0; i < 20; ++i) got.push_back(tern::fetch_accumulate(one, first, accumulation::plus));
  std::int64_t last = -1, sum = 0;
  for (const auto& x : got) {
    const std::int64_t v = x.host(access_mode::read).get()(0);
    TERN_EXPECT(v > last); // in the order of one fiber's calls
    last = v;
    sum += v;
  }
  const std::int64_t all = tern::allreduce(sum, std::plus<>()), n = 20 * size();
  TERN_EXPECT_EQ(all, n * (n - 1) / 2);
  end();
}

TERN_RANK_TEST(data_need_not_exist) {
  for (const int n : {small, large}) {
    const opened mine(hetero_object<int>(n, 0));
    tern::promise<void> gate;
    auto open = gate.get_future();
    hetero_object<int> x(n);
    tern::submit(
        [&open](tern::host_view<int, 1> v) {
          open.get();
          for (int& e : v) e = 9;
        },
        tern::write(x));
    tern::barrier();
    const tern::transfer t = tern::put(std::move(x), mine.all[static_cast<std::size_t>(right())]);
    TERN_EXPECT(!t.done().ready());
    gate.set_value();
    t.done().get();
    tern::barrier();
    TERN_EXPECT_EQ(sum_of(mine.object), 9 * n);
    tern::barrier();
  }
  end();
}

TERN_RANK_TEST(fences_and_quiescence) {
  const opened mine(hetero_object<int>(medium, 0));
  tern::barrier();
  tern::fence().get(); // nothing to wait for
  for (int r = 0; r < size(); ++r)
    tern::accumulate(counted(medium, 0), mine.all[static_cast<std::size_t>(r)], accumulation::plus);
  tern::quiesce(); // is a fence
  TERN_EXPECT(tern::fence().ready());
  TERN_EXPECT_EQ(sum_of(mine.object), size() * sum_from(medium, 0));
  TERN_EXPECT_ERROR(tern::fence(size()), tern::errc::invalid_argument, "there is no rank " + std::to_string(size()));
  TERN_EXPECT_ERROR(tern::fence(-1), tern::errc::invalid_argument, "fence: there is no rank -1");
  end();
}

TERN_RANK_TEST(exports_end) {
  std::optional<opened> mine(std::in_place, hetero_object<int>(small, 3));
  mine->object.name("short-lived");
  const auto all = mine->all;
  const std::size_t there = static_cast<std::size_t>(right());
  mine.reset();
  tern::barrier();
  const hetero_object<int> x(small, 1);
  const std::string where = "pointer_ranks_test.cpp:";
  TERN_EXPECT_ERROR(tern::put(x, all[there]).done().get(), tern::errc::not_found, "is not exported any more");
  TERN_EXPECT_ERROR(tern::put(x, all[there]).done().get(), tern::errc::not_found,
                    "hetero_object<int> of 100 of rank " + std::to_string(right()) + ", exported at ");
  TERN_EXPECT_ERROR(tern::put(x, all[there]).done().get(), tern::errc::not_found, where);
  TERN_EXPECT_ERROR(tern::accumulate(x, all[there], accumulation::min).done().get(), tern::errc::not_found, where);
  hetero_object<int> y(small, 2);
  TERN_EXPECT_ERROR(tern::get(all[there], y).done().get(), tern::errc::not_found, where);
  TERN_EXPECT_ERROR(sum_of(tern::get(all[there])), tern::errc::not_found, where);
  TERN_EXPECT_ERROR(sum_of(tern::fetch_accumulate(x, all[there], accumulation::plus)), tern::errc::not_found, where);
  // A fence tells what no done has told; once.
  tern::put(x, all[there]);
  TERN_EXPECT_ERROR(tern::fence(right()).get(), tern::errc::not_found, where);
  tern::fence(right()).get();
  tern::quiesce();
  for (;;) try { // what waits for these gets has failed
      tern::wait_all();
      break;
    } catch (const tern::error& e) {
      TERN_EXPECT(e.code() == tern::errc::not_found);
    }
  add_to(x, 1); // nothing holds it
  TERN_EXPECT_EQ(sum_of(x), 2 * small);
  end();
}

TERN_RANK_TEST(what_does_not_fit_is_refused) {
  const opened mine(hetero_object<int>(small, 3));
  tern::barrier();
  const auto p = mine.all[static_cast<std::size_t>(right())];
  const std::string named = "global_ptr<int> to 100 of rank " + std::to_string(right());
  const hetero_object<int> x(small - 1, 1);
  TERN_EXPECT_ERROR(tern::put(x, p), tern::errc::invalid_argument,
                    "put: hetero_object<int> of 99 and a " + named + " differ in shape");
  TERN_EXPECT_ERROR(tern::get(p, x), tern::errc::invalid_argument, "get: hetero_object<int> of 99 and a " + named);
  TERN_EXPECT_ERROR(tern::accumulate(x, p, accumulation::plus), tern::errc::invalid_argument, "differ in shape");
  const hetero_object<float> f(small, 1);
  TERN_EXPECT_ERROR(tern::put(f, p), tern::errc::invalid_argument,
                    "put: hetero_object<float> of 100 and a " + named + " have elements of different types");
  const hetero_object<int, 2> square({10, 10}, 1);
  TERN_EXPECT_ERROR(tern::put(square, p), tern::errc::invalid_argument, "or different dimensions");
  const hetero_object<int> good(small, 1);
  TERN_EXPECT_ERROR(tern::put(good, global_ptr<int>()), tern::errc::invalid_argument, "global_ptr<int> to nothing");
  TERN_EXPECT_ERROR(tern::get(global_ptr<int>()), tern::errc::invalid_argument, "get: a global_ptr<int> to nothing");
  TERN_EXPECT_ERROR(p.part({5}, {101}), tern::errc::invalid_argument, "there is no part [5, 101) in dimension 0");
  TERN_EXPECT_ERROR(tern::transfer().done(), tern::errc::invalid_state, "no transfer in this handle");
  tern::recorded step("step");
  step.submit([&] {
    add_to(good, 1);
    TERN_EXPECT_ERROR(tern::put(good, p), tern::errc::invalid_state, "step");
    TERN_EXPECT_ERROR(tern::get(p, good), tern::errc::invalid_state, "step");
  });
  tern::wait_all();
  end();
}

TERN_RANK_TEST(failures_of_sources) {
  const opened mine(hetero_object<int>(medium, 8));
  tern::barrier();
  hetero_object<int> x(medium, 0);
  tern::submit([](tern::host_view<int, 1>) { throw tern::error(tern::errc::io, "the disk is wet"); },
               tern::read_write(x));
  const auto& there = mine.all[static_cast<std::size_t>(right())];
  TERN_EXPECT_ERROR(tern::put(x, there).done().get(), tern::errc::io, "the disk is wet");
  TERN_EXPECT_ERROR(tern::accumulate(x, there, accumulation::plus).done().get(), tern::errc::io,
                    "rank " + std::to_string(rank()));
  tern::quiesce();
  // What reads it needs what did not come, until it is written anew.
  TERN_EXPECT_ERROR(sum_of(mine.object), tern::errc::io, "the disk is wet");
  tern::barrier();
  tern::put(counted(medium, 1), there).done().get();
  tern::barrier();
  TERN_EXPECT_EQ(sum_of(mine.object), sum_from(medium, 1));
  for (;;) try {
      tern::wait_all();
      break;
    } catch (const tern::error& e) {
      TERN_EXPECT(std::string(e.what()).find("the disk is wet") != std::string::npos);
    }
  end();
}

TERN_RANK_TEST(pointers_are_values) {
  static_assert(sizeof(global_ptr<double, 3>) == 32);
  const opened mine(hetero_object<int>(small, 0));
  const std::set<global_ptr<int>> ordered(mine.all.begin(), mine.all.end());
  std::unordered_set<global_ptr<int>> hashed(mine.all.begin(), mine.all.end());
  TERN_EXPECT_EQ(ordered.size(), static_cast<std::size_t>(size()));
  TERN_EXPECT_EQ(hashed.size(), static_cast<std::size_t>(size()));
  hashed.insert(mine.all[0].rows(0, 7));
  TERN_EXPECT_EQ(hashed.size(), static_cast<std::size_t>(size()) + 1);
  TERN_EXPECT(mine.all[0].part({0}, {small}) == mine.all[0]);
  for (int r = 0; r < size(); ++r) TERN_EXPECT_EQ(mine.all[static_cast<std::size_t>(r)].owner(), r);
  end();
}

// A task may put into what it is the one to write: its rank's own objects are no other case.
TERN_RANK_TEST(within_a_rank) {
  hetero_object<int> x = counted(medium, 0), y(medium, 0);
  const exported<int> to(y), from(x);
  tern::put(x.part({0}, {10}), from.ptr().part({5}, {15})).done().get(); // they overlap: reads before it writes
  TERN_EXPECT_EQ(sum_of(x.part({5}, {15})), sum_from(10, 0));
  tern::put(x, to.ptr());
  tern::accumulate(x, to.ptr(), accumulation::plus);
  tern::fence(rank()).get();
  TERN_EXPECT_EQ(sum_of(y), 2 * sum_of(x));
  end();
}

// An object to which tasks add is one whose order takes a lock.
TERN_RANK_TEST(behind_reductions) {
  hetero_object<double> sum(16, 1.0);
  const exported<double> entry(sum);
  const auto all = tern::broadcast(tern::gather(entry.ptr()));
  for (int i = 0; i < 20; ++i)
    tern::submit(
        [](tern::host_view<double, 1> v) {
          for (double& e : v) e += 1;
        },
        tern::reduce(sum, std::plus<>(), 0.0));
  tern::barrier();
  tern::accumulate(hetero_object<double>(16, 100.0), all[static_cast<std::size_t>(right())], accumulation::plus);
  tern::quiesce();
  TERN_EXPECT_EQ(sum.host(access_mode::read).get()(3), 121.0);
  end();
}

} // namespace pointer_test
