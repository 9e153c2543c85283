// SPDX-License-Identifier: Apache-2.0
// Device data in messages, on every transport and several kinds of devices.
#include <atomic>
#include <cstdint>
#include <map>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <tern/global/travel.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/call_options.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/epoch.hpp>
#include <tern/net/multicast.hpp>
#include <tern/net/node.hpp>
#include <tern/net/remote_promise.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>

#include "rank_test.hpp"
#include "tests/global/support/rank_data.hpp"

namespace travel_test {

using tern::access_mode;
using tern::hetero_object;
using tern::rank;
using tern::size;
using tern::test::add_to;
using tern::test::counted;
using tern::test::left;
using tern::test::right;
using tern::test::sum_from;
using tern::test::sum_of;

constexpr int small = 100, medium = 4000, large = 300000; // elements: inside, as body, and as one that is copied last

struct seen {
  std::atomic<std::int64_t> sum{0}, handled{0}; // handlers run on all workers
  std::string error;
  tern::promise<void> gate{};
};
const tern::rank_local<seen> here;
void clear() {
  here->sum = 0;
  here->handled = 0;
  here->error.clear();
  here->gate = tern::promise<void>();
}

void add_up(hetero_object<int> x) {
  ++here->handled;
  here->sum += sum_of(x);
}
void modify(int what, hetero_object<int> x) {
  add_to(x, what);
  here->sum += sum_of(x);
}

/// All that was sent in this test has come, and nothing is left of it.
void end() {
  tern::quiesce();
  const auto n = tern::global::count_transfers();
  TERN_EXPECT_EQ(n.departing, 0u);
  TERN_EXPECT_EQ(n.arriving, 0u);
  clear();
  tern::barrier();
}

/// May the job's option have large data encoded?
bool encodes() {
  const std::string codec = tern::net::node::here().opts()[tern::global::codec_option];
  return codec == "zstd" || codec == "auto";
}

TERN_RANK_TEST(of_each_size) {
  for (const int n : {1, small, medium, large}) {
    tern::send<&add_up>(right(), counted(n, rank()));
    hetero_object<int> x = counted(n, rank());
    x.host(access_mode::read).get(); // it has been computed: it goes inside, or as body
    tern::send<&add_up>(right(), x);
    tern::send<&modify>(right(), 3, x);
    tern::quiesce();
    TERN_EXPECT_EQ(here->handled, 2);
    TERN_EXPECT_EQ(here->sum, 3 * sum_from(n, left()) + 3 * n);
    TERN_EXPECT_EQ(sum_of(x), sum_from(n, rank())); // the source is what it was
    clear();
    tern::barrier();
  }
  const auto n = tern::global::count_transfers();
  TERN_EXPECT(n.inside > 0);
  TERN_EXPECT(n.bodies > 0 || encodes());
  end();
}

// The data need not exist: the handler runs, and what it submits waits.
const tern::rank_local<hetero_object<int>> kept;
void open_gate() { here->gate.set_value(); }
void keep(hetero_object<int> x, int from) {
  *kept = std::move(x);
  ++here->handled;
  tern::send<&open_gate>(from); // only now the sender's task may begin
}
TERN_RANK_TEST(handlers_run_before_their_data_exist) {
  for (const int n : {small, medium, large}) {
    hetero_object<int> x(n, 1);
    auto opened = here->gate.get_future();
    tern::submit(
        [&opened](tern::host_view<int, 1> v) {
          opened.get(); // until the handler has run
          for (int& e : v) e = 2;
        },
        tern::read_write(x));
    tern::send<&keep>(right(), x, rank());
    add_to(x, 5); // waits until the data have left
    TERN_EXPECT_EQ(sum_of(x), 7 * n);
    tern::quiesce();
    TERN_EXPECT_EQ(here->handled, 1);
    TERN_EXPECT_EQ(sum_of(*kept), 2 * n);
    *kept = {};
    clear();
    tern::barrier();
  }
  end();
}

void take_box(hetero_object<double, 2> x, std::int64_t rows, std::int64_t columns) {
  const auto v = x.host(access_mode::read).get();
  TERN_EXPECT_EQ(v.extent(0), rows);
  TERN_EXPECT_EQ(v.extent(1), columns);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) TERN_EXPECT_EQ(v(i, j), static_cast<double>(100 * (i + 2) + j + 3));
  ++here->handled;
}
// Not computed yet, and moved: the object itself comes, and nothing is copied.
TERN_RANK_TEST(what_is_moved_within_a_rank_is_the_object) {
  for (const int n : {small, medium, large}) {
    const auto before = tern::global::count_transfers();
    hetero_object<int> x(n, 1);
    auto opened = here->gate.get_future();
    tern::submit(
        [&opened](tern::host_view<int, 1> v) {
          opened.get();
          for (int& e : v) e = 2;
        },
        tern::read_write(x));
    const auto* const object = x.inside();
    tern::send<&keep>(rank(), std::move(x), rank());
    tern::quiesce();
    TERN_EXPECT_EQ(here->handled, 1);
    TERN_EXPECT(kept->inside() == object);
    add_to(*kept, 1);
    TERN_EXPECT_EQ(sum_of(*kept), 3 * n);
    const auto after = tern::global::count_transfers();
    TERN_EXPECT_EQ(after.given - before.given, 1u);
    TERN_EXPECT_EQ(after.sent - before.sent, 1u);
    TERN_EXPECT_EQ(after.landed, before.landed);
    *kept = {};
    clear();
    tern::barrier();
  }
  end();
}

TERN_RANK_TEST(parts_arrive_as_objects) {
  hetero_object<double, 2> x({60, 80});
  tern::submit(
      [](tern::host_view<double, 2> v) {
        for (std::int64_t i = 0; i < v.extent(0); ++i)
          for (std::int64_t j = 0; j < v.extent(1); ++j) v(i, j) = static_cast<double>(100 * i + j);
      },
      tern::write(x));
  tern::send<&take_box>(right(), x.part({2, 3}, {60, 80}), 58, 77);
  tern::send<&take_box>(right(), x.part({2, 3}, {4, 5}), 2, 2);
  x.host(access_mode::read).get();
  tern::send<&take_box>(right(), x.part({2, 3}, {60, 80}), 58, 77);
  tern::send<&take_box>(right(), x.part({2, 3}, {4, 5}), 2, 2);
  tern::quiesce();
  TERN_EXPECT_EQ(here->handled, 4);
  end();
}

TERN_RANK_TEST(what_is_moved_is_given_away) {
  for (const int n : {small, large}) {
    hetero_object<int> x = counted(n, 7);
    tern::send<&modify>(right(), 1, std::move(x));
    TERN_EXPECT(!x);
    hetero_object<int> y = counted(n, 7);
    y.host(access_mode::read).get();
    tern::send<&modify>(right(), 1, std::move(y));
    hetero_object<int> z = counted(n, 7);
    const hetero_object<int> other = z;
    tern::send<&modify>(right(), 1, std::move(z));
    TERN_EXPECT_EQ(sum_of(other), sum_from(n, 7));
    tern::quiesce();
    TERN_EXPECT_EQ(here->sum, 3 * sum_from(n, 8));
    clear();
    tern::barrier();
  }
  TERN_EXPECT(tern::global::count_transfers().given > 0);
  end();
}

// On and on, before the data have come.
void pass_on(int hops, hetero_object<int> x) {
  if (hops > 0) {
    add_to(x, 1);
    return tern::send<&pass_on>(right(), hops - 1, std::move(x));
  }
  add_up(std::move(x));
}
TERN_RANK_TEST(rings_run_ahead) {
  for (const int n : {small, medium, large}) tern::send<&pass_on>(right(), 3 * size() - 1, counted(n, 0));
  tern::quiesce();
  std::int64_t all = 0;
  for (const int n : {small, medium, large}) all += sum_from(n, 3 * size() - 1);
  TERN_EXPECT_EQ(here->sum, all);
  end();
}

struct parcel {
  std::string name;
  std::map<int, hetero_object<int>> parts;
  hetero_object<int> nothing;
};
void unwrap(std::vector<parcel> all) {
  for (parcel& p : all) {
    TERN_EXPECT(!p.nothing);
    for (auto& [n, x] : p.parts) {
      TERN_EXPECT_EQ(x.count(), n);
      here->sum += sum_of(x);
    }
  }
}
hetero_object<int> doubled(hetero_object<int> x) {
  const int n = static_cast<int>(x.count());
  hetero_object<int> y(n);
  tern::submit(
      [](const int* from, tern::host_view<int, 1> to) {
        for (std::int64_t i = 0; i < to.size(); ++i) to(i) = 2 * from[i];
      },
      tern::read(x), tern::write(y));
  return y;
}
TERN_RANK_TEST(within_containers_and_as_results) {
  std::vector<parcel> all(2);
  all[0].parts[small] = counted(small, 1);
  all[0].parts[medium] = counted(medium, 1);
  all[1].parts[large] = counted(large, 1);
  tern::send<&unwrap>(right(), all);
  std::vector<std::pair<int, tern::future<hetero_object<int>>>> results;
  for (const int n : {small, medium, large}) results.emplace_back(n, tern::call<&doubled>(right(), counted(n, 4)));
  for (auto& [n, f] : results) TERN_EXPECT_EQ(sum_of(f.get()), 2 * sum_from(n, 4));
  tern::quiesce();
  TERN_EXPECT_EQ(here->sum, sum_from(small, 1) + sum_from(medium, 1) + sum_from(large, 1));
  end();
}

class block {
public:
  void take(int step, hetero_object<int> x) {
    sum_ += step * sum_of(x);
    ++taken_;
  }
  std::pair<std::int64_t, int> sum() const { return {sum_, taken_}; }
  template <class A> void serialize(A& ar) { ar(sum_, taken_); }

private:
  std::int64_t sum_ = 0;
  int taken_ = 0;
};
TERN_RANK_TEST(members_of_mobile_objects_take_them) {
  const auto mine = tern::create<block>();
  const auto all = tern::broadcast(tern::gather(mine));
  for (int step = 1; step <= 3; ++step)
    for (const int n : {small, medium, large}) {
      tern::send<&block::take>(all[static_cast<std::size_t>(right())], step, counted(n, rank()));
      if (step == 1 && rank() == 0) tern::migrate(all[static_cast<std::size_t>(right())], left()).get();
    }
  tern::quiesce();
  const auto [sum, taken] = tern::call<&block::sum>(mine).get();
  TERN_EXPECT_EQ(taken, 9);
  TERN_EXPECT_EQ(sum, 6 * (sum_from(small, left()) + sum_from(medium, left()) + sum_from(large, left())));
  tern::barrier();
  tern::destroy(mine).get();
  tern::barrier();
  // An object that is gone: what came with its arguments is dropped.
  for (const int n : {small, medium})
    TERN_EXPECT_ERROR(tern::call<&block::take>(mine, 1, counted(n, 0)).get(), tern::errc::not_found, "block");
  TERN_EXPECT_ERROR(tern::call<&block::take>(all[static_cast<std::size_t>(right())], 1, counted(large, 0)).get(),
                    tern::errc::not_found, "block");
  end();
}

void expect_failure(hetero_object<int> x) {
  try {
    sum_of(x);
  } catch (const tern::error& e) {
    here->error = e.what();
  }
}
TERN_RANK_TEST(failures_travel) {
  const std::uint64_t before = tern::global::count_transfers().failed;
  hetero_object<int> x(medium, 0);
  tern::submit([](tern::host_view<int, 1>) { throw tern::error(tern::errc::io, "the disk is wet"); },
               tern::read_write(x));
  tern::send<&expect_failure>(right(), x);
  tern::quiesce();
  TERN_EXPECT(here->error.find("the disk is wet") != std::string::npos);
  TERN_EXPECT(here->error.find("rank " + std::to_string(left())) != std::string::npos);
  for (;;) {
    try {
      tern::wait_all();
      break;
    } catch (const tern::error& e) {
      TERN_EXPECT(std::string(e.what()).find("the disk is wet") != std::string::npos);
    }
  }
  tern::quiesce();
  TERN_EXPECT_EQ(tern::global::count_transfers().failed - before, 1u);
  end();
}

// Cannot be packed; when bytes are counted all is well.
struct misfit {
  template <class A> void save(A& ar) const {
    if constexpr (!std::is_same_v<A, tern::size_archive>) throw tern::error(tern::errc::io, "a misfit");
    ar(1);
  }
  template <class A> void load(A&) {}
};
void take_misfit(hetero_object<int>, tern::remote_promise<int>, misfit) {}
void take_promise(hetero_object<int>, tern::remote_promise<int>) {}
TERN_RANK_TEST(what_is_not_sent_is_taken_back) {
  for (const int n : {small, medium, large}) {
    hetero_object<int> x = counted(n, 3); // not computed yet
    tern::remote_promise<int> answer;
    auto broken = answer.get_future();
    TERN_EXPECT_ERROR(tern::send<&take_misfit>(right(), x, std::move(answer), misfit()), tern::errc::io, "a misfit");
    TERN_EXPECT_ERROR(broken.get(), tern::errc::broken_promise, "all shares");
    const int again = 1;
    add_to(x, again); // nothing holds it
    TERN_EXPECT_EQ(sum_of(x), sum_from(n, 4));
  }
  end();
}
hetero_object<int> late(int n) {
  here->gate.get_future().get(); // the caller has given up
  here->gate = tern::promise<void>();
  return counted(n, 0);
}
TERN_RANK_TEST(results_that_come_too_late_are_dropped) {
  for (const int n : {small, medium}) {
    std::stop_source given_up;
    auto f = tern::call<&late>({.stop = given_up.get_token()}, right(), n);
    given_up.request_stop();
    TERN_EXPECT_ERROR(f.get(), tern::errc::cancelled, "late");
    tern::send<&open_gate>(right());
    tern::quiesce();
  }
  end();
}

TERN_RANK_TEST(not_to_many_ranks_at_once) {
  const hetero_object<int> x = counted(small, 0);
  TERN_EXPECT_ERROR(tern::multicast<&add_up>(tern::all_ranks, x), tern::errc::unsupported, "hetero_object<int>");
  end();
}

void count(int n) { here->handled += n; }
void count_at(hetero_object<int> y, int from) {
  tern::submit([from](tern::host_view<const int, 1> v) { tern::send<&count>(from, v(0)); }, tern::read(y));
}
// Neither the end of work nor that of the job comes before the data.
TERN_RANK_TEST(finish_waits_for_data) {
  if (rank() == 0) {
    tern::finish([&] {
      hetero_object<int> x(medium, 0);
      tern::submit(
          [](tern::host_view<int, 1> v) {
            for (int i = 0; i < 1000; ++i) tern::this_fiber::yield(); // others could end meanwhile
            for (int& e : v) e = 1;
          },
          tern::write(x));
      tern::send<&count_at>(right(), x, rank());
    });
    TERN_EXPECT_EQ(here->handled, 1);
  }
  end();
}

// Several pieces, from device to device where there are some; and the source is used again at once.
void add_up_late(hetero_object<int> x, int what) {
  add_to(x, what);
  here->sum += sum_of(x);
  ++here->handled;
}
TERN_RANK_TEST(data_go_by_pieces) {
  const auto before = tern::global::count_transfers();
  const int n = 500001; // 2 MB
  hetero_object<int> x = counted(n, 0);
  for (int i = 0; i < 4; ++i) {
    tern::send<&add_up_late>(right(), x, i);
    add_to(x, 1); // when all pieces have been copied
  }
  tern::quiesce();
  TERN_EXPECT_EQ(here->handled, 4);
  TERN_EXPECT_EQ(here->sum, 4 * sum_from(n, 0) + 12 * std::int64_t{n});
  TERN_EXPECT_EQ(sum_of(x), sum_from(n, 4));
  const auto c = tern::global::count_transfers();
  TERN_EXPECT(c.on_devices <= c.landed);
  const auto there = c.on_devices - before.on_devices; // encoded data come whole
  TERN_EXPECT(there == 0 || c.pieces - before.pieces >= there || encodes());
  end();
}

} // namespace travel_test
