// SPDX-License-Identifier: Apache-2.0
// Mobile objects with members that have data on devices, on every transport and several kinds of
// devices.
#include <array>
#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <tern/global/travel.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/mobile/hold.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/epoch.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>

#include "rank_test.hpp"
#include "tests/global/support/rank_data.hpp"

namespace member_test {

using tern::access_mode;
using tern::hetero_object;
using tern::mobile_ptr;
using tern::rank;
using tern::size;
using tern::test::add_to;
using tern::test::right;
using tern::test::sum_of;

constexpr int small = 100, medium = 4000, large = 50000; // elements
constexpr std::array sizes{small, medium, large};

/// All members of three sizes hold the same number in each element.
class tile {
public:
  tile() = default;
  explicit tile(int value) {
    for (const int n : sizes) parts_.emplace_back(n, value);
  }
  explicit tile(std::vector<hetero_object<int>> parts) : parts_(std::move(parts)) {}

  void add(int what) { // wherever a policy puts it
    for (auto& x : parts_) {
      add_to(x, what);
    }
  }
  /// The value of all elements; -1: they differ.
  int value() const {
    int all = 0;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const std::int64_t sum = sum_of(parts_[i]), n = parts_[i].count();
      if (sum % n != 0 || (i > 0 && sum / n != all)) return -1;
      all = static_cast<int>(sum / n);
    }
    return all;
  }
  int where() const { return rank(); }
  /// 1: packing fails; 2: unpacking does, on another rank.
  void fail(int how) {
    fails_ = how;
    home_ = rank();
  }
  void fail_a_task() {
    tern::submit([](tern::host_view<int, 1>) { throw tern::error(tern::errc::io, "the disk is wet"); },
                 tern::read_write(parts_.front()));
  }
  template <class A> void save(A& ar) const {
    ar(parts_, fails_, home_);
    if constexpr (!std::is_same_v<A, tern::size_archive>)
      if (fails_ == 1) throw tern::error(tern::errc::io, "too fragile to pack");
  }
  template <class A> void load(A& ar) {
    ar(parts_, fails_, home_);
    if (fails_ == 2 && rank() != home_) throw std::runtime_error("broken on the way");
  }

private:
  std::vector<hetero_object<int>> parts_;
  int fails_ = 0, home_ = -1;
};

void wait_for_tasks() {
  for (;;) {
    try {
      return tern::wait_all();
    } catch (const tern::error& e) {
      TERN_EXPECT(std::string(e.what()).find("the disk is wet") != std::string::npos);
    }
  }
}

/// Nothing is left of what this test has sent.
void end() {
  tern::quiesce();
  const auto n = tern::global::count_transfers();
  TERN_EXPECT_EQ(n.departing, 0u);
  TERN_EXPECT_EQ(n.arriving, 0u);
  wait_for_tasks();
  tern::barrier();
}

TERN_RANK_TEST(members_go_with_their_object) {
  const auto t = tern::create<tile>(5);
  int value = 5;
  for (int i = 1; i <= 6; ++i) {
    tern::send<&tile::add>(t, i);
    value += i;
    tern::migrate(t, (rank() + i) % size()).get();
    TERN_EXPECT_EQ(tern::call<&tile::where>(t).get(), (rank() + i) % size());
    tern::send<&tile::add>(t, 1);
    TERN_EXPECT_EQ(tern::call<&tile::value>(t).get(), ++value);
  }
  tern::destroy(t).get();
  end();
}

// It arrives, and its invocations run, when the data that it is made of do not exist.
TERN_RANK_TEST(invocations_begin_before_the_data_are_there) {
  tern::promise<void> gate;
  auto opened = gate.get_future();
  std::vector<hetero_object<int>> parts;
  hetero_object<int> first(1, 0);
  tern::submit([&opened](tern::host_view<int, 1>) { opened.get(); }, tern::read_write(first));
  for (const int n : sizes) {
    parts.emplace_back(n, 1);
    tern::submit(
        [](tern::host_view<const int, 1>, tern::host_view<int, 1> v) {
          for (int& e : v) e = 2;
        },
        tern::read(first), tern::write(parts.back()));
  }
  const auto t = tern::create<tile>(parts);
  tern::migrate(t, right()).get();
  TERN_EXPECT_EQ(tern::call<&tile::where>(t).get(), right());
  tern::call<&tile::add>(t, 3).get();
  for (auto& x : parts) { // what is done to the source later does not reach it
    add_to(x, 100);
  }
  if (size() > 1) TERN_EXPECT_EQ(tern::global::count_transfers().departing >= sizes.size(), true);
  gate.set_value();
  const int before = size() == 1 ? 105 : 5; // one that has not moved shares the source
  TERN_EXPECT_EQ(tern::call<&tile::value>(t).get(), before);
  for (auto& x : parts) TERN_EXPECT_EQ(sum_of(x), before == 5 ? 102 * x.count() : 105 * x.count());
  tern::destroy(t).get();
  parts.clear();
  end();
}

TERN_RANK_TEST(one_that_cannot_move_is_whole) {
  const auto t = tern::create<tile>(1);
  int value = 1;
  for (const int how : {1, 2}) {
    const auto before = tern::global::count_transfers();
    tern::call<&tile::fail>(t, how).get();
    tern::send<&tile::add>(t, 1);
    auto moved = tern::migrate(t, right());
    tern::send<&tile::add>(t, 1);
    if (size() == 1)
      moved.get();
    else if (how == 1)
      TERN_EXPECT_ERROR(moved.get(), tern::errc::io, "too fragile to pack");
    else
      TERN_EXPECT_ERROR(moved.get(), tern::errc::remote, "broken on the way");
    TERN_EXPECT_EQ(tern::call<&tile::where>(t).get(), rank());
    TERN_EXPECT_EQ(tern::call<&tile::value>(t).get(), value += 2);
    const auto after = tern::global::count_transfers();
    TERN_EXPECT_EQ(after.departing, before.departing); // all is taken back
    TERN_EXPECT_EQ(after.sent, before.sent);
    if (size() > 1) TERN_EXPECT(after.dropped >= before.dropped + 2);
  }
  tern::destroy(t).get();
  end();
}

TERN_RANK_TEST(contents_go_to_disk_and_come_back) {
  const auto t = tern::create<tile>(3);
  for (int i = 1; i <= 3; ++i) {
    tern::send<&tile::add>(t, 1); // what goes there waits for this
    tern::swap_out(t).get();
    TERN_EXPECT_EQ(tern::call<&tile::value>(t).get(), 3 + i);
    if (i == 1) tern::migrate(t, right()).get();
  }
  if (size() == 1) { // the task's failure is where the object is
    tern::call<&tile::fail_a_task>(t).get();
    TERN_EXPECT_ERROR(tern::swap_out(t).get(), tern::errc::io, "the disk is wet");
    wait_for_tasks();
  }
  tern::destroy(t).get();
  end();
}

TERN_RANK_TEST(packed_for_storage_they_have_their_elements) {
  hetero_object<int, 2> x({20, 30}, 0), none;
  tern::submit(
      [](tern::host_view<int, 2> v) {
        for (int i = 0; i < 20; ++i)
          for (int j = 0; j < 30; ++j) v(i, j) = 100 * i + j;
      },
      tern::read_write(x));
  const tern::byte_buffer bytes = tern::pack(x, none);
  const auto [y, nothing] = tern::unpack<hetero_object<int, 2>, hetero_object<int, 2>>(bytes);
  TERN_EXPECT(!nothing);
  TERN_EXPECT_EQ(y.size()[0], 20);
  TERN_EXPECT_EQ(y.size()[1], 30);
  {
    const auto v = y.host(access_mode::read).get();
    for (int i = 0; i < 20; ++i)
      for (int j = 0; j < 30; ++j) TERN_EXPECT_EQ(v(i, j), 100 * i + j);
  }
  TERN_EXPECT_ERROR((tern::unpack<hetero_object<float, 2>, hetero_object<int, 2>>(bytes)), tern::errc::invalid_data,
                    "elements of another type");
  TERN_EXPECT_ERROR(tern::unpack<hetero_object<int>>(bytes.bytes().first(60)), tern::errc::invalid_data, "");
  end();
}

// What an invocation submits may use its object, though it has returned.
struct opening {
  tern::promise<void> promise{};
  tern::future<void> opened = promise.get_future();
};
const tern::rank_local<opening> gate;
void open() { gate->promise.set_value(); }
class watcher {
public:
  watcher() : x_(8, 0) {}
  ~watcher() { is_whole_ = 0; }
  /// Its task, and another one that this submits, wait for the gate.
  void begin() {
    tern::submit(
        [this](tern::host_view<int, 1> v) {
          gate->opened.get();
          for (int& e : v) e += is_whole_;
          tern::submit(
              [this](tern::host_view<int, 1> w) {
                for (int i = 0; i < 1000; ++i) tern::this_fiber::yield(); // others could move it meanwhile
                for (int& e : w) e += is_whole_;
              },
              tern::read_write(x_));
        },
        tern::read_write(x_));
  }
  void note() { ++noted_; }
  int noted() const { return noted_; }
  std::int64_t sum() const { return sum_of(x_); }
  int where() const { return rank(); }
  template <class A> void serialize(A& ar) { ar(x_, noted_); }

private:
  hetero_object<int> x_;
  int noted_ = 0, is_whole_ = 1;
};

TERN_RANK_TEST(an_object_stays_until_its_tasks_have_ended) {
  *gate = opening();
  const auto w = tern::create<watcher>();
  tern::call<&watcher::begin>(w).get();
  tern::call<&watcher::note>(w).get(); // invocations go on
  auto moved = tern::migrate(w, right());
  for (int i = 0; i < 100; ++i) tern::this_fiber::yield();
  TERN_EXPECT(size() == 1 || !moved.ready());
  TERN_EXPECT(tern::is_here(w));
  for (int i = 0; i < 3; ++i) tern::send<&watcher::note>(w); // they go along
  auto where = tern::call<&watcher::where>(w);
  TERN_EXPECT(size() == 1 || !where.ready());
  open();
  moved.get();
  TERN_EXPECT_EQ(where.get(), right());
  TERN_EXPECT_EQ(tern::call<&watcher::sum>(w).get(), 16);
  TERN_EXPECT_EQ(tern::call<&watcher::noted>(w).get(), 4);
  tern::destroy(w).get();
  end();
}

TERN_RANK_TEST(an_object_ends_when_its_tasks_have) {
  *gate = opening();
  const auto w = tern::create<watcher>();
  tern::send<&watcher::begin>(w);
  auto gone = tern::destroy(w);
  for (int i = 0; i < 100; ++i) tern::this_fiber::yield();
  TERN_EXPECT(!gone.ready());
  open();
  gone.get();
  TERN_EXPECT_ERROR(tern::call<&watcher::where>(w).get(), tern::errc::not_found, "watcher");
  end();
}

TERN_RANK_TEST(one_goes_to_disk_when_its_tasks_have_ended) {
  *gate = opening();
  const auto w = tern::create<watcher>();
  tern::call<&watcher::begin>(w).get();
  auto out = tern::swap_out(w);
  for (int i = 0; i < 100; ++i) tern::this_fiber::yield();
  TERN_EXPECT(!out.ready());
  open();
  out.get();
  TERN_EXPECT_EQ(tern::call<&watcher::sum>(w).get(), 16);
  tern::destroy(w).get();
  end();
}

} // namespace member_test
