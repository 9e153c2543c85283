// SPDX-License-Identifier: Apache-2.0
// Operations on views of mobile objects, on every transport and several kinds of devices.
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <tern/global/moving_target.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/hetero/recorded.hpp>
#include <tern/mobile/hold.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/epoch.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber/sanitizer.hpp>
#include <tern/task/future.hpp>

#include "rank_test.hpp"
#include "tests/global/support/rank_data.hpp"

namespace moving_target_test {

using tern::access_mode;
using tern::accumulation;
using tern::hetero_object;
using tern::hetero_view;
using tern::mobile_ptr;
using tern::rank;
using tern::size;
using tern::test::add_to;
using tern::test::counted;
using tern::test::left;
using tern::test::right;
using tern::test::sum_from;
using tern::test::sum_of;

constexpr int small = 100, medium = 4000, large = 300000; // elements

/// Two sides of one object, and a board.
class block {
public:
  block() = default;
  explicit block(int n) : n_(n), ghosts_(2 * n, 0), board_({6, 8}, 0.0), sum_(4, 1.0) {}

  hetero_view<int> ghost(int side) const {
    if (side > 1) throw tern::error(tern::errc::invalid_argument, "there is no side " + std::to_string(side));
    return ghosts_.part({side * n_}, {(side + 1) * n_});
  }
  hetero_object<int> ghosts() const { return ghosts_; }
  hetero_view<double, 2> tile(const std::string& name, std::int64_t row) {
    names_ += name;
    return board_.rows(row, row + 2);
  }
  hetero_object<double> sum() const { return sum_; }
  hetero_object<int> nothing() const { return {}; }
  void look(int side) {
    ++looked_;
    seen_ += sum_of(ghost(side));
  }
  std::int64_t seen() const { return seen_; }
  int looked() const { return looked_; }
  std::string names() const { return names_; }
  int where() const { return rank(); }
  std::int64_t of_side(int side) const { return sum_of(ghost(side)); }
  double of_board() const {
    const auto v = board_.host(access_mode::read).get();
    double all = 0;
    for (std::int64_t i = 0; i < 6; ++i)
      for (std::int64_t j = 0; j < 8; ++j) all += v(i, j);
    return all;
  }
  void fail_a_task() {
    tern::submit([](tern::host_view<int, 1>) { throw tern::error(tern::errc::io, "the disk is wet"); },
                 tern::read_write(ghosts_));
  }
  template <class A> void serialize(A& ar) { ar(n_, ghosts_, board_, sum_, seen_, looked_, names_); }

private:
  int n_ = 0;
  hetero_object<int> ghosts_;
  hetero_object<double, 2> board_;
  hetero_object<double> sum_;
  std::int64_t seen_ = 0;
  int looked_ = 0;
  std::string names_;
};
using pointer = mobile_ptr<block>;

/// A free function may name the view, too.
hetero_view<int> first_of(const block& of, int n) { return of.ghosts().part({0}, {n}); }

void wait_for_tasks(const std::string& expected) {
  for (;;) try {
      return tern::wait_all();
    } catch (const tern::error& e) {
      TERN_EXPECT(std::string(e.what()).find(expected) != std::string::npos);
    }
}

/// All that was asked for is over, and nothing is left of it.
void end() {
  tern::quiesce();
  const auto n = tern::global::count_pointers();
  TERN_EXPECT_EQ(n.announced, n.finished);
  TERN_EXPECT_EQ(n.serving, 0u);
  const auto t = tern::global::count_transfers();
  TERN_EXPECT_EQ(t.departing, 0u);
  TERN_EXPECT_EQ(t.arriving, 0u);
  wait_for_tasks("the disk is wet");
  tern::barrier();
}

std::vector<pointer> blocks_of_all(int n) { return tern::broadcast(tern::gather(tern::create<block>(n))); }
pointer of_rank(const std::vector<pointer>& all, int r) { return all[static_cast<std::size_t>(r)]; }

TERN_RANK_TEST(puts_of_each_size) {
  for (const int n : {1, small, medium, large}) {
    const auto all = blocks_of_all(n);
    const pointer there = of_rank(all, right());
    const hetero_object<int> x = counted(n, rank());
    const tern::transfer t = tern::put<&block::ghost>(there, 1, x);
    add_to(x, 5); // waits until the data have left
    t.done().get();
    TERN_EXPECT_EQ(sum_of(x), sum_from(n, rank() + 5));
    TERN_EXPECT_EQ(tern::call<&block::of_side>(there, 1).get(), sum_from(n, rank()));
    TERN_EXPECT_EQ(tern::call<&block::of_side>(there, 0).get(), 0);
    tern::put<&block::ghosts>(there, counted(2 * n, 7)).done().get(); // all of it
    TERN_EXPECT_EQ(tern::call<&block::of_side>(there, 0).get(), sum_from(n, 7));
    tern::put<&first_of>(there, 1, counted(1, 100)).done().get();
    TERN_EXPECT_EQ(tern::call<&block::of_side>(there, 0).get(), sum_from(n, 7) + 93);
    tern::barrier();
  }
  end();
}

TERN_RANK_TEST(gets_of_each_size) {
  for (const int n : {1, small, medium, large}) {
    const auto all = blocks_of_all(n);
    const pointer there = of_rank(all, right());
    tern::put<&block::ghost>(of_rank(all, rank()), 0, counted(n, rank())).done().get();
    tern::barrier();
    hetero_object<int> target(n, 0);
    const tern::transfer t = tern::get<&block::ghost>(there, 0, target);
    add_to(target, 3); // waits for the data
    tern::future<hetero_object<int>> fresh = tern::get<&block::ghost>(there, 0);
    TERN_EXPECT_EQ(sum_of(target), sum_from(n, right() + 3));
    TERN_EXPECT_EQ(sum_of(fresh.get()), sum_from(n, right()));
    t.done().get();
    tern::barrier();
  }
  end();
}

TERN_RANK_TEST(views_of_several_dimensions) {
  const auto all = blocks_of_all(small);
  const pointer there = of_rank(all, right());
  hetero_object<double, 2> x({4, 8}, 2.0);
  tern::put<&block::tile>(there, "a", 3, x.rows(1, 3)).done().get();
  tern::accumulate<&block::tile>(there, std::string("b"), 3, x.rows(0, 2), accumulation::plus).done().get();
  TERN_EXPECT_EQ(tern::call<&block::of_board>(there).get(), 16 * 4.0);
  TERN_EXPECT_EQ(tern::call<&block::names>(there).get(), "ab"); // the function may change its object
  hetero_object<double, 2> back({2, 8}, 0.0);
  tern::get<&block::tile>(there, "c", 4, back);
  TERN_EXPECT_EQ(back.host(access_mode::read).get()(0, 7), 4.0);
  TERN_EXPECT_EQ(back.host(access_mode::read).get()(1, 0), 0.0);
  tern::barrier();
  end();
}

// In the order of the caller's invocations; O4: so is what it notifies.
TERN_RANK_TEST(invocations_come_behind_puts) {
  for (const int n : {small, medium, large}) {
    const auto all = blocks_of_all(n);
    const pointer there = of_rank(all, right());
    tern::put<&block::ghost>(there, 0, counted(n, 1));
    tern::send<&block::look>(there, 0);
    auto away = tern::migrate(there, rank());
    tern::put<&block::ghost>(there, 0, counted(n, 2), tern::notify<&block::look>(0));
    tern::put<&block::ghost>(there, 0, counted(n, 3));
    auto back = tern::migrate(there, right());
    tern::quiesce();
    away.get();
    back.get();
    TERN_EXPECT_EQ(tern::call<&block::looked>(there).get(), 2);
    TERN_EXPECT_EQ(tern::call<&block::seen>(there).get(), sum_from(n, 1) + sum_from(n, 2));
    TERN_EXPECT_EQ(tern::call<&block::of_side>(there, 0).get(), sum_from(n, 3));
    tern::barrier();
  }
  end();
}

// All ranks put into, add to and read an object that goes from rank to rank, and to disk.
TERN_RANK_TEST(targets_move) {
  for (const int n : {small, medium, large}) {
    const auto all = blocks_of_all(n);
    const pointer first = of_rank(all, 0);
    constexpr int rounds = tern::detail::sanitized ? 3 : 6;
    const int others = std::min(size(), 4); // all of 64 ranks have 6 GB under way
    std::vector<hetero_object<int>> got;
    std::vector<tern::future<void>> moves;
    for (int i = 0; i < rounds; ++i) {
      for (int r = 0; r < others; ++r) { // one only has each block, at a time
        const pointer one = of_rank(all, (rank() + r) % size());
        hetero_object<int> x = counted(n, 10 * i);
        tern::put<&block::ghost>(one, 1, std::move(x));
        if ((i + r) % 3 == 0) moves.push_back(tern::migrate(one, (rank() + i) % size()));
        if ((i + r) % 5 == 1) moves.push_back(tern::swap_out(one));
        got.emplace_back(n, -1);
        tern::get<&block::ghost>(one, 1, got.back());
      }
      tern::accumulate<&block::ghost>(first, 0, counted(n, 1), accumulation::plus);
    }
    tern::fence().get();
    for (auto& f : moves) f.get();
    tern::barrier();
    for (std::size_t i = 0; i < got.size(); ++i) { // of some round
      const std::int64_t sum = sum_of(got[i]), round = (sum - sum_from(n, 0)) / (std::int64_t{n} * 10);
      TERN_EXPECT(round >= 0 && round < rounds);
      TERN_EXPECT_EQ(sum, sum_from(n, 10 * round));
    }
    TERN_EXPECT_EQ(tern::call<&block::of_side>(first, 0).get(), rounds * size() * sum_from(n, 1));
    tern::barrier();
  }
  end();
}

// A put whose data are not there yet keeps no object: the move waits for nothing.
TERN_RANK_TEST(an_object_leaves_before_data_have_come) {
  for (const int n : {small, large}) {
    const auto all = blocks_of_all(n);
    const pointer there = of_rank(all, right());
    tern::promise<void> gate;
    auto open = gate.get_future();
    hetero_object<int> x(n);
    tern::submit(
        [&open](tern::host_view<int, 1> v) {
          open.get();
          for (int& e : v) e = 9;
        },
        tern::write(x));
    const tern::transfer t = tern::put<&block::ghost>(there, 0, x);
    const int to = (right() + 1) % size();
    tern::migrate(there, to).get();
    TERN_EXPECT_EQ(tern::call<&block::where>(there).get(), to);
    tern::put<&block::sum>(there, hetero_object<double>(4, 3.0)).done().get(); // another member need not wait
    TERN_EXPECT(!t.done().ready());
    gate.set_value();
    t.done().get();
    TERN_EXPECT_EQ(tern::call<&block::of_side>(there, 0).get(), 9 * n);
    TERN_EXPECT_EQ(tern::call<&block::of_side>(there, 1).get(), 0);
    tern::destroy(there).get();
    tern::barrier();
  }
  end();
}

TERN_RANK_TEST(sums_of_all_ranks) {
  const auto all = blocks_of_all(medium);
  const pointer first = of_rank(all, 0);
  for (int i = 0; i < 5; ++i) tern::accumulate<&block::ghost>(first, 1, counted(medium, 1), accumulation::plus);
  tern::accumulate<&block::ghost>(first, 1, counted(medium, 1), accumulation::plus, tern::in_order);
  const hetero_object<double> one(4, 1.0);
  std::vector<tern::future<hetero_object<double>>> got;
  for (int i = 0; i < 10; ++i) {
    got.push_back(tern::fetch_accumulate<&block::sum>(first, one, accumulation::plus));
  }
  tern::migrate(first, rank()).get();
  double last = 0, sum = 0;
  for (auto& f : got) {
    const double v = f.get().host(access_mode::read).get()(2);
    TERN_EXPECT(v > last); // in the order of one fiber's calls
    last = v;
    sum += v;
  }
  const double every = tern::allreduce(sum, std::plus<>()), n = 10 * size();
  TERN_EXPECT_EQ(every, n * (n + 1) / 2);
  tern::fence().get();
  tern::barrier();
  TERN_EXPECT_EQ(tern::call<&block::of_side>(first, 1).get(), 6 * size() * sum_from(medium, 1));
  tern::barrier();
  end();
}

// The sources are what the others write; each source's reader does not wait for its target.
TERN_RANK_TEST(puts_in_opposite_directions) {
  const auto all = blocks_of_all(large);
  const pointer mine = of_rank(all, rank()), there = of_rank(all, right());
  const hetero_view<int> out = tern::hold_shared(mine)->ghost(0); // what the rank to the left writes
  for (int i = 0; i < 10; ++i) tern::put<&block::ghost>(there, 0, out);
  tern::fence().get();
  tern::barrier();
  TERN_EXPECT_EQ(sum_of(out), 0);
  tern::barrier();
  end();
}

TERN_RANK_TEST(an_epoch_covers_operations) {
  const auto all = blocks_of_all(medium);
  tern::epoch e;
  e.run([&] { tern::put<&block::ghost>(of_rank(all, right()), 0, counted(medium, 4)); });
  e.wait();
  tern::barrier(); // all have waited
  TERN_EXPECT_EQ(tern::global::count_pointers().serving, 0u);
  tern::barrier();
  end();
}

TERN_RANK_TEST(what_is_wrong_is_said) {
  const auto all = blocks_of_all(small);
  const pointer there = of_rank(all, right());
  const std::string where = "on rank " + std::to_string(right());
  const hetero_object<int> x(small, 1), y(small + 1, 1);
  TERN_EXPECT_ERROR(tern::put<&block::ghost>(there, 1, y).done().get(), tern::errc::invalid_argument,
                    "put: hetero_object<int> of 101 and the view, [100, 200) of hetero_object<int> of 200, differ in "
                    "shape (in 'moving_target_test::block::ghost' of object ");
  TERN_EXPECT_ERROR(tern::put<&block::ghost>(there, 1, y).done().get(), tern::errc::invalid_argument, where);
  TERN_EXPECT_ERROR(tern::get<&block::ghost>(there, 0, y).done().get(), tern::errc::invalid_argument,
                    "get: hetero_object<int> of 101 and the view, [0, 100) of hetero_object<int> of 200");
  TERN_EXPECT_ERROR(sum_of(y), tern::errc::invalid_argument, "differ in shape"); // it waits for what does not come
  TERN_EXPECT_ERROR(tern::accumulate<&block::ghost>(there, 1, y, accumulation::min).done().get(),
                    tern::errc::invalid_argument, "accumulate: hetero_object<int> of 101");
  TERN_EXPECT_ERROR(tern::put<&block::ghost>(there, 2, x).done().get(), tern::errc::invalid_argument,
                    "there is no side 2 (in 'moving_target_test::block::ghost' of object ");
  TERN_EXPECT_ERROR(tern::get<&block::ghost>(there, 2).get(), tern::errc::invalid_argument, "there is no side 2");
  TERN_EXPECT_ERROR(tern::put<&block::nothing>(there, x).done().get(), tern::errc::invalid_state,
                    "the function has named a view of no object (in 'moving_target_test::block::nothing' of object ");
  TERN_EXPECT_ERROR(tern::put<&block::ghost>(pointer(), 1, x), tern::errc::invalid_argument, "");
  TERN_EXPECT_ERROR(tern::put<&block::ghost>(there, 1, hetero_object<int>()), tern::errc::invalid_state, "");
  TERN_EXPECT_ERROR(tern::get<&block::ghost>(pointer(), 1), tern::errc::invalid_argument, "");
  tern::put<&block::ghost>(there, 2, x); // a fence tells what no done has told; once
  TERN_EXPECT_ERROR(tern::fence().get(), tern::errc::invalid_argument, "there is no side 2");
  tern::fence().get();
  tern::recorded step("step");
  step.submit([&] {
    add_to(x, 1);
    TERN_EXPECT_ERROR(tern::put<&block::ghost>(there, 0, x), tern::errc::invalid_state, "step");
    TERN_EXPECT_ERROR(tern::get<&block::ghost>(there, 0, x), tern::errc::invalid_state, "step");
  });
  wait_for_tasks("differ in shape");
  tern::barrier();
  tern::destroy(of_rank(all, rank())).get();
  tern::barrier();
  TERN_EXPECT_ERROR(tern::put<&block::ghost>(there, 1, x).done().get(), tern::errc::not_found, "block::ghost");
  TERN_EXPECT_ERROR(tern::get<&block::ghost>(there, 1).get(), tern::errc::not_found, "block::ghost");
  hetero_object<int> z(small, 2);
  TERN_EXPECT_ERROR(tern::get<&block::ghost>(there, 1, z).done().get(), tern::errc::not_found, "block::ghost");
  tern::quiesce();
  add_to(x, 1); // nothing holds it
  TERN_EXPECT_EQ(sum_of(x), 3 * small);
  wait_for_tasks("block::ghost");
  tern::barrier();
  end();
}

TERN_RANK_TEST(failures_of_sources) {
  const auto all = blocks_of_all(medium);
  const pointer there = of_rank(all, right());
  hetero_object<int> x(medium, 0);
  tern::submit([](tern::host_view<int, 1>) { throw tern::error(tern::errc::io, "the disk is wet"); },
               tern::read_write(x));
  TERN_EXPECT_ERROR(tern::put<&block::ghost>(there, 0, x).done().get(), tern::errc::io, "the disk is wet");
  TERN_EXPECT_ERROR(tern::accumulate<&block::ghost>(there, 0, x, accumulation::plus).done().get(), tern::errc::io,
                    "the disk is wet");
  TERN_EXPECT_ERROR(tern::call<&block::of_side>(there, 0).get(), tern::errc::io, "the disk is wet");
  TERN_EXPECT_EQ(tern::call<&block::of_side>(there, 1).get(), 0); // what it was
  tern::put<&block::ghost>(there, 0, counted(medium, 1)).done().get();
  TERN_EXPECT_EQ(tern::call<&block::of_side>(there, 0).get(), sum_from(medium, 1));
  tern::send<&block::fail_a_task>(there);
  hetero_object<int> y(medium, 0);
  TERN_EXPECT_ERROR(tern::get<&block::ghost>(there, 0, y).done().get(), tern::errc::io, "the disk is wet");
  TERN_EXPECT_ERROR(sum_of(tern::get<&block::ghost>(there, 0).get()), tern::errc::io, "the disk is wet");
  tern::quiesce();
  wait_for_tasks("the disk is wet");
  tern::barrier();
  end();
}

} // namespace moving_target_test
