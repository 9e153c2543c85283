// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/passage/pieces.hpp>

#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/base/error.hpp>
#include <tern/hetero/dialect.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/hetero/passage/at_once.hpp>
#include <tern/hetero/passage/incoming.hpp>
#include <tern/hetero/passage/outgoing.hpp>
#include <tern/task/future.hpp>
#include <tern/task/scheduler.hpp>

TERN_KERNELS_BEGIN(piece_kernels)
TERN_KERNEL(count_up, int n, int first, TERN_GLOBAL int* x) {
  TERN_REGION_IN(n, 1, 1) { x[item.x] = first + item.x; };
}
TERN_KERNELS_END(piece_kernels)

namespace tern::hetero::detail {
namespace {

using testing::ElementsAre;
using numbers = hetero_object<int, 2>;

struct told_of_data final : outgoing::listener {
  void answered(outgoing&) noexcept override { told.set_value(); }
  promise<void> told{};
};
struct told_of_piece final : piece_request {
  void over(std::exception_ptr failed) noexcept override {
    if (failed)
      told.set_exception(std::move(failed));
    else
      told.set_value();
  }
  promise<void> told{};
};
void run_with_device(unique_function<void()> body, const char* memory = "", const char* more = "") {
  options opts;
  opts.set(hetero_devices, "host,simulated");
  opts.set(hetero_simulated, std::string("1:latency=1us,bandwidth=0") + more);
  opts.set(hetero_memory, memory);
  scheduler s({.workers = 2, .opts = &opts});
  EXPECT_EQ(s.run(std::move(body)), 0u);
}
void count_up(const hetero_view<int, 2>& x, int first) {
  hetero_task(piece_kernels::count_up, items(x.count()), static_cast<int>(x.count()), first, write(x))
      .on("simulated0")
      .submit();
}

} // namespace

TEST(slices, are_whole_and_follow_each_other) {
  box all;
  all.high = {1, 5, 3};
  const slices s(all, 4, 30); // rows of 12 bytes: two at a time
  ASSERT_EQ(s.count(), 3u);
  std::size_t at = 0;
  for (std::size_t i = 0; i < s.count(); ++i) {
    EXPECT_EQ(s.offset(i), at);
    EXPECT_EQ(s.bytes(i), static_cast<std::size_t>(s.at(i).size()) * 4);
    at += s.bytes(i);
  }
  EXPECT_EQ(at, 60u);
  EXPECT_EQ(s.at(2).low[1], 4);
  EXPECT_EQ(slices(all, 4, 1).count(), 5u); // at least one
  EXPECT_EQ(slices(all, 4, 1000).count(), 1u);
}

TEST(at_once, only_what_no_unfinished_task_uses) {
  scheduler s({.workers = 2});
  s.run([] {
    hetero_object<int> x(3, 7);
    const box all = x.inside_part();
    std::vector<int> v(3);
    auto* const to = reinterpret_cast<std::byte*>(v.data());
    ASSERT_TRUE(copy_at_once(*x.inside(), all, to));
    EXPECT_THAT(v, ElementsAre(7, 7, 7));
    promise<void> gate;
    auto open = gate.get_future();
    submit([&](host_view<int, 1> w) { open.get(), w(1) = 9; }, read_write(x));
    EXPECT_FALSE(can_leave_at_once(*x.inside(), all));
    EXPECT_FALSE(copy_at_once(*x.inside(), all, to));
    gate.set_value();
    wait_all();
    auto part = x.part({1}, {3});
    ASSERT_TRUE(copy_at_once(*x.inside(), part.inside_part(), to));
    EXPECT_EQ(v[0], 9);
    EXPECT_TRUE(give_at_once(*x.inside(), all).empty()); // there is another handle
    part = x.part({0}, {1});
    { auto gone = std::move(part); }
    const byte_buffer memory = give_at_once(*x.inside(), all);
    ASSERT_EQ(memory.size(), 12u);
    EXPECT_TRUE(memory.writable());
    EXPECT_FALSE(can_leave_at_once(*x.inside(), all)); // nothing is valid now
    // What failed says so to a task.
    hetero_object<int> y(3, 7);
    submit([](host_view<int, 1>) { throw error(errc::io, "no ink"); }, read_write(y));
    EXPECT_THROW(wait_all(), error);
    EXPECT_FALSE(copy_at_once(*y.inside(), y.inside_part(), to));
    EXPECT_FALSE(can_leave_at_once(*hetero_object<int>(3).inside(), all)); // never written
  });
}

TEST(pieces, go_from_device_to_device) {
  for (const bool fits : {true, false}) {
    run_with_device([&] {
      constexpr int rows = 5, row = 300, first = 40;
      constexpr std::size_t bytes = 2 * row * sizeof(int);
      numbers x({rows, row}), y({rows, row});
      count_up(x, first);
      const box all = x.inside_part();
      outgoing out(numbers(x).release_handle(), all, false);
      told_of_data tells;
      auto told = tells.told.get_future();
      if (!out.begin(tells)) told.get();
      ASSERT_FALSE(out.failure());
      ASSERT_TRUE(out.in_pieces());
      incoming in(*y.inside());
      in.lands_on(fits ? device_to_land_on(*y.inside(), kind_that_has(*x.inside(), all)) : std::uint8_t{0});
      const slices cut = out.cut(bytes);
      ASSERT_EQ(cut.count(), 3u);
      std::vector<std::byte> slot(cut.bytes(0));
      for (std::size_t i = 0; i < cut.count(); ++i) {
        told_of_piece copied, landed;
        auto out_of = copied.told.get_future(), into = landed.told.get_future();
        out.copy_piece(cut.at(i), slot.data(), copied);
        out_of.get();
        in.put(in.cut(bytes).at(i), slot.data(), landed);
        into.get();
      }
      out.release();
      auto access = y.host(access_mode::read);
      EXPECT_FALSE(access.ready()); // it has not been said that all is there
      EXPECT_EQ(in.landed(), fits);
      auto v = access.get();
      for (int i = 0; i < rows * row; ++i) ASSERT_EQ(v(i / row, i % row), first + i);
      v.release();
      wait_all();
    });
  }
}

TEST(pieces, what_does_not_come_gives_the_room_back) {
  run_with_device([] {
    numbers y({5, 300});
    auto in = std::make_unique<incoming>(*y.inside());
    in->lands_on(device_to_land_on(*y.inside(), device_kind::simulated));
    in->fail(std::make_exception_ptr(error(errc::io, "the mail is late")));
    EXPECT_THROW(static_cast<void>(y.host(access_mode::read).get()), error);
    count_up(y, 1); // anew
    EXPECT_EQ(y.host(access_mode::read).get()(0, 1), 2);
    wait_all();
  });
}

// The object's next tasks wait for the one that reserves the room, and see nothing that it leaves.
TEST(pieces, what_fails_while_there_is_no_room_keeps_the_object_until_there_is) {
  run_with_device(
      [] {
        numbers full({5, 300}), y({5, 300});
        count_up(full, 0);
        wait_all();
        count_up(full, 1); // for 30 ms nothing else has room
        incoming in(*y.inside());
        in.lands_on(device_to_land_on(*y.inside(), device_kind::simulated));
        in.fail(std::make_exception_ptr(error(errc::io, "the mail is late")));
        submit([](host_view<int, 2> v) { std::iota(&v(0, 0), &v(0, 0) + 1500, 1); }, write(y));
        EXPECT_EQ(y.host(access_mode::read).get()(4, 299), 1500);
        EXPECT_EQ(full.host(access_mode::read).get()(4, 299), 1500);
        wait_all();
        EXPECT_EQ(y.host(access_mode::read).get()(4, 299), 1500);
      },
      "8K", ",item=20us");
}

} // namespace tern::hetero::detail
