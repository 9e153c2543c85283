// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/device/simulated/simulated_device.hpp>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/hetero/device/device_list.hpp>

#include "tests/hetero/support/kernels.hpp"
#include "tests/hetero/support/simulated_device.hpp"
#include <tern/task/fiber.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/sim.hpp>

namespace tern::hetero::detail {
namespace {

using testing::HasSubstr;

template <class T> argument value(const T& v) { return {&v, sizeof v}; }
argument memory(memory_handle m, std::size_t offset = 0) { return {nullptr, 0, m, offset}; }

copy_request to(memory_handle device, void* host, std::size_t bytes) {
  copy_request r;
  r.host = static_cast<std::byte*>(host);
  r.device = device;
  r.row_bytes = bytes;
  return r;
}
copy_request from(memory_handle device, void* host, std::size_t bytes) {
  copy_request r = to(device, host, bytes);
  r.way = direction::from_device;
  return r;
}
copy_request within(memory_handle to, memory_handle from, std::size_t bytes) {
  copy_request r;
  r.way = direction::within;
  r.device = to;
  r.from = from;
  r.row_bytes = bytes;
  return r;
}

TEST(fake_device, says_what_it_is) {
  simulated_settings s = still();
  s.units = 12;
  s.unit_memory = 4096;
  simulated_device d(3, s, 2);
  EXPECT_EQ(d.info().kind, device_kind::simulated);
  EXPECT_EQ(d.info().id, "simulated3");
  EXPECT_EQ(d.info().name, "simulated device");
  EXPECT_EQ(d.info().driver, "Tern");
  EXPECT_EQ(d.info().memory_bytes, 1 << 20);
  EXPECT_EQ(d.info().local_memory_bytes, 4096);
  EXPECT_EQ(d.info().compute_units, 12);
  EXPECT_FALSE(d.info().shares_host_memory);
  EXPECT_EQ(d.memory_limit(), std::size_t{1} << 20);
  EXPECT_EQ(d.streams(), 4);
  EXPECT_EQ(d.poll_delay(), 0);
}

TEST(fake_device, memory_is_limited_and_filled_with_what_is_noticed) {
  simulated_device d(0, still(), 1);
  const memory_handle a = d.allocate(1 << 19), b = d.allocate(1 << 19);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(d.allocate(1), nullptr);
  const memory_handle none = d.allocate(0);
  EXPECT_NE(none, nullptr);
  EXPECT_EQ(d.counters().allocations, 3u);
  EXPECT_EQ(d.counters().bytes, std::size_t{1} << 20);
  unsigned char host[3] = {};
  EXPECT_TRUE(d.done(d.copy(1, from(b, host, 3))));
  for (const unsigned char c : host) EXPECT_EQ(c, 0xa5);
  d.free(a, 1 << 19);
  EXPECT_EQ(d.allocate((1 << 19) + 1), nullptr);
  const memory_handle again = d.allocate(1 << 19);
  EXPECT_NE(again, nullptr);
  EXPECT_NE(again, a); // a stale name is known
  d.free(again, 1 << 19);
  d.free(b, 1 << 19);
  d.free(none, 0);
  expect_nothing_left(d);
}

// Random bricks go to the device, within it and back, each side with pitches of its own.
TEST(fake_device, copies_strided_bricks) {
  std::mt19937 random(7);
  const auto pick = [&](std::size_t least, std::size_t most) {
    return std::uniform_int_distribution<std::size_t>(least, most)(random);
  };
  for (int round = 0; round < 300; ++round) {
    const std::size_t bytes = pick(1, 9), rows = pick(1, 5), slices = pick(1, round % 2 == 0 ? 1 : 4);
    struct layout {
      std::size_t offset, pitch, slice, size;
    };
    const auto some = [&] {
      layout l{pick(0, 10), bytes + pick(0, 5), 0, 0};
      l.slice = rows * l.pitch + pick(0, 7);
      l.size = l.offset + slices * l.slice;
      return l;
    };
    const layout source = some(), first = some(), second = some(), target = some();
    std::vector<std::byte> in(source.size), out(target.size, std::byte{1}), expected = out;
    for (std::byte& b : in) b = static_cast<std::byte>(random());
    for (std::size_t z = 0; z < slices; ++z)
      for (std::size_t y = 0; y < rows; ++y)
        std::memcpy(&expected[target.offset + z * target.slice + y * target.pitch],
                    &in[source.offset + z * source.slice + y * source.pitch], bytes);

    simulated_device d(0, still(), 1);
    const memory_handle a = d.allocate(first.size), b = d.allocate(second.size);
    copy_request there = to(a, in.data() + source.offset, bytes), over = within(b, a, bytes),
                 back = from(b, out.data() + target.offset, bytes);
    there.host_pitch = source.pitch, there.host_slice = source.slice;
    back.host_pitch = target.pitch, back.host_slice = target.slice;
    there.offset = over.from_offset = first.offset;
    there.pitch = over.from_pitch = first.pitch;
    there.slice = over.from_slice = first.slice;
    back.offset = over.offset = second.offset;
    back.pitch = over.pitch = second.pitch;
    back.slice = over.slice = second.slice;
    for (copy_request* const r : {&there, &over, &back}) r->rows = rows, r->slices = slices;
    const ticket t1 = d.copy(0, there);
    d.order(2, t1);
    const ticket t2 = d.copy(2, over);
    d.order(1, t2);
    const ticket t3 = d.copy(1, back);
    EXPECT_TRUE(d.done(t3) && d.done(t2) && d.done(t1));
    ASSERT_EQ(out, expected) << "round " << round;
    const simulated_counters c = d.counters();
    EXPECT_EQ(c.to_device.count + c.within.count + c.from_device.count, 3u);
    EXPECT_EQ(c.to_device.bytes, bytes * rows * slices);
    EXPECT_EQ(c.within.bytes, bytes * rows * slices);
    EXPECT_EQ(c.from_device.bytes, bytes * rows * slices);
    d.free(a, first.size);
    d.free(b, second.size);
    expect_nothing_left(d);
  }
}

TEST(fake_device, computes_with_values_and_dynamic_memory) {
  simulated_device d(0, still(), 1);
  const int n = 100;
  std::vector<double> x(128), y(128);
  for (std::size_t i = 0; i < 128; ++i) x[i] = static_cast<double>(i), y[i] = 1;
  const std::size_t bytes = 128 * sizeof(double);
  const memory_handle a = d.allocate(2 * bytes);
  copy_request second = to(a, y.data(), bytes);
  second.offset = bytes;
  ASSERT_TRUE(d.done(d.copy(0, to(a, x.data(), bytes))) && d.done(d.copy(0, second)));
  const kernel_code axpy = code_of(test_kernels::axpy);
  {
    double factor = 2;
    const std::vector<argument> arguments{value(n), value(factor), memory(a), memory(a, bytes)};
    const ticket t = d.launch(2, {&axpy, {{4, 1, 1}, {32, 1, 1}}, 0, arguments});
    factor = 7; // of no interest any more
    EXPECT_TRUE(d.done(t));
  }
  second = from(a, y.data(), bytes);
  second.offset = bytes;
  ASSERT_TRUE(d.done(d.copy(1, second)));
  for (std::size_t i = 0; i < 128; ++i) EXPECT_EQ(y[i], i < 100 ? 2 * x[i] + 1 : 1);

  std::vector<int> numbers(64);
  for (int i = 0; i < 64; ++i) numbers[static_cast<std::size_t>(i)] = i;
  ASSERT_TRUE(d.done(d.copy(0, to(a, numbers.data(), 256))));
  const kernel_code reverse = code_of(test_kernels::reverse_groups);
  const std::vector<argument> arguments{memory(a), memory(a, 256)};
  EXPECT_TRUE(d.done(d.launch(2, {&reverse, {{4, 1, 1}, {16, 1, 1}}, 64, arguments})));
  second = from(a, numbers.data(), 256);
  second.offset = 256;
  ASSERT_TRUE(d.done(d.copy(1, second)));
  for (int i = 0; i < 64; ++i) EXPECT_EQ(numbers[static_cast<std::size_t>(i)], i / 16 * 16 + 15 - i % 16);
  EXPECT_EQ(d.counters().launches, 2u);
  const kernel_code nothing = code_of(test_kernels::nothing);
  EXPECT_TRUE(d.done(d.launch(2, {&nothing, {}, 0, {}})));
  d.free(a, 2 * bytes);
  expect_nothing_left(d);
}

TEST(fake_device, operations_take_their_time_and_streams_go_on_together) {
  moment = 1000;
  simulated_settings s = still();
  s.bandwidth = 1e9; // a byte in a nanosecond
  s.latency = 100;
  s.launch = 50;
  s.item = 2;
  s.speed = 4;
  simulated_device d(0, s, 2);
  const memory_handle a = d.allocate(4000), b = d.allocate(4000);
  std::vector<char> in(1000, 'x'), out(1000, 'o');
  const kernel_code nothing = code_of(test_kernels::nothing);
  const ticket copy1 = d.copy(0, to(a, in.data(), 1000));   // to 2100
  const ticket copy2 = d.copy(0, to(b, in.data(), 500));    // to 2700
  const ticket back = d.copy(1, from(a, out.data(), 1000)); // to 2100, too early for what it copies
  const ticket kernel = d.launch(2, {&nothing, {{100, 1, 1}, {8, 1, 1}}, 0, {}}); // to 1450
  const ticket moved = d.copy(3, within(b, a, 4000));                             // to 1100
  EXPECT_EQ(d.counters().tickets, 5u);
  const auto ends = [&](ticket t, std::int64_t when) {
    EXPECT_EQ(d.poll_delay(), when - moment);
    moment = when - 1;
    EXPECT_FALSE(d.done(t));
    EXPECT_EQ(d.poll_delay(), 1);
    moment = when;
    EXPECT_TRUE(d.done(t));
  };
  ends(moved, 1100);
  ends(kernel, 1450);
  ends(copy1, 2100);
  EXPECT_TRUE(d.done(back));
  EXPECT_EQ(out[0], 'x'); // of two that end together the first goes first
  ends(copy2, 2700);
  EXPECT_EQ(d.poll_delay(), 0);
  moment = 5000;
  const ticket late = d.copy(0, to(a, in.data(), 0)); // an idle stream begins now
  ends(late, 5100);
  d.free(a, 4000);
  d.free(b, 4000);
  expect_nothing_left(d);
}

TEST(fake_device, data_come_when_the_operation_ends_and_not_before) {
  moment = 0;
  simulated_settings s = still();
  s.latency = 10;
  simulated_device d(0, s, 1);
  const memory_handle a = d.allocate(4);
  int in = 1, out = 0;
  const ticket there = d.copy(0, to(a, &in, 4));
  const ticket early = d.copy(1, from(a, &out, 4)), ordered = [&] {
    d.order(1, there);
    return d.copy(1, from(a, &out, 4));
  }();
  in = 2; // a write before the copy ends changes what is sent
  moment = 9;
  EXPECT_FALSE(d.done(there));
  EXPECT_EQ(out, 0);
  moment = 30;
  EXPECT_EQ(out, 0);          // only `done` moves anything
  EXPECT_TRUE(d.done(early)); // and all that is due
  EXPECT_EQ(out, 2);
  EXPECT_TRUE(d.done(there) && d.done(ordered));
  d.free(a, 4);
  expect_nothing_left(d);
}

TEST(fake_device, streams_wait_for_what_they_are_ordered_after) {
  moment = 0;
  simulated_settings s = still();
  s.latency = 10;
  s.launch = 1;
  simulated_device d(0, s, 2);
  const memory_handle a = d.allocate(64 * sizeof(int)), b = d.allocate(64 * sizeof(int));
  std::vector<int> in(64, 5), out(64, 0);
  const kernel_code reverse = code_of(test_kernels::reverse_groups);
  const std::vector<argument> arguments{memory(a), memory(b)};
  const ticket there = d.copy(0, to(a, in.data(), 256));                                 // 0 to 10
  const ticket early = d.launch(3, {&reverse, {{1, 1, 1}, {64, 1, 1}}, 256, arguments}); // 0 to 1
  d.order(2, there);
  const ticket kernel = d.launch(2, {&reverse, {{1, 1, 1}, {64, 1, 1}}, 256, arguments}); // 10 to 11
  d.order(1, kernel);
  d.order(1, 0);
  const ticket back = d.copy(1, from(b, out.data(), 256)); // 11 to 21
  moment = 1;
  EXPECT_TRUE(d.done(early));
  moment = 10;
  EXPECT_TRUE(d.done(there));
  EXPECT_FALSE(d.done(kernel));
  moment = 20;
  EXPECT_FALSE(d.done(back));
  EXPECT_TRUE(d.done(kernel));
  d.order(1, kernel); // forgotten, so done
  moment = 21;
  EXPECT_TRUE(d.done(back));
  EXPECT_EQ(out, in);
  d.free(a, 256);
  d.free(b, 256);
  expect_nothing_left(d);
}

TEST(fake_device, what_goes_beyond_is_refused) {
  moment = 0;
  simulated_device d(0, still(), 1), other(1, still(), 1);
  std::vector<char> host(1000);
  const memory_handle a = d.allocate(100), b = d.allocate(10), foreign = other.allocate(10);
  const auto copying = [&](int stream, const copy_request& r) {
    return refusal(errc::invalid_argument, [&] { d.copy(stream, r); });
  };
  EXPECT_EQ(copying(0, to(a, host.data(), 101)),
            "simulated0: the copy of 101 bytes to the device in stream 0 goes to byte 101 of memory, which has 100");
  copy_request brick = to(a, host.data(), 10);
  brick.rows = 5, brick.slices = 2, brick.pitch = 10, brick.slice = 60, brick.host_pitch = 10, brick.host_slice = 50;
  EXPECT_THAT(copying(0, brick), HasSubstr("goes to byte 110 of memory, which has 100"));
  brick.slice = std::size_t{0} - 50;
  EXPECT_THAT(copying(0, brick), HasSubstr("goes beyond all bytes of memory, which has 100"));
  brick.slice = 49;
  EXPECT_THAT(copying(0, brick), HasSubstr("has rows of 10 bytes that overlap"));
  EXPECT_THAT(copying(1, to(a, host.data(), 1)), HasSubstr("to the device in stream 1 belongs into stream 0"));
  EXPECT_THAT(copying(2, from(a, host.data(), 1)), HasSubstr("belongs into stream 1"));
  EXPECT_THAT(copying(1, within(a, b, 1)), HasSubstr("belongs into stream 2 or a later one"));
  EXPECT_EQ(copying(3, to(a, host.data(), 1)), "simulated0: there is no stream 3 for a copy, only 0 to 2");
  EXPECT_THAT(copying(0, to(a, nullptr, 1)), HasSubstr("has no memory of the host"));
  EXPECT_THAT(copying(2, within(a, b, 11)), HasSubstr("goes to byte 11 of a source, which has 10"));
  copy_request self = within(a, a, 10);
  self.from_offset = 9;
  EXPECT_THAT(copying(2, self), HasSubstr("has a source and a destination that overlap"));
  self.rows = 5, self.pitch = self.from_pitch = 20, self.from_offset = 10; // between each other
  EXPECT_TRUE(d.done(d.copy(2, self)));
  EXPECT_THAT(copying(0, to(foreign, host.data(), 1)), HasSubstr("has memory which is memory of simulated1"));
  EXPECT_THAT(copying(0, to(host.data(), host.data(), 1)), HasSubstr("has memory which is no memory of simulated"));

  const kernel_code who = code_of(test_kernels::who), tiled = code_of(test_kernels::dgemm_tiled);
  const auto launching = [&](const kernel_code& code, const grid& g, const argument& arg, std::size_t dynamic = 0,
                             int stream = 2) {
    return refusal(errc::invalid_argument, [&] { d.launch(stream, {&code, g, dynamic, {&arg, 1}}); });
  };
  EXPECT_EQ(launching(who, {}, memory(b, 10)),
            "simulated0: the kernel 'who' in stream 2 goes to byte 11 of parameter 0, which has 10");
  EXPECT_THAT(launching(who, {}, memory(foreign)), HasSubstr("has parameter 0 which is memory of simulated1"));
  EXPECT_THAT(launching(who, {}, {}), HasSubstr("has neither a value nor memory as parameter 0"));
  EXPECT_THAT(launching(who, {{0, 1, 1}, {1, 1, 1}}, memory(b)), HasSubstr("has 0 groups in x"));
  EXPECT_THAT(launching(who, {{1, 1, 1}, {1, 1025, 1}}, memory(b)),
              HasSubstr("1025 items in y, and there can be 1 to"));
  EXPECT_THAT(launching(who, {{1, 1, 1}, {64, 64, 1}}, memory(b)), HasSubstr("groups of 4096 items, and there can be"));
  EXPECT_THAT(launching(who, {{1 << 30, 1, 1}, {2, 1, 1}}, memory(b)), HasSubstr("more items in x than an int"));
  EXPECT_THAT(launching(tiled, {{1, 1, 1}, {16, 8, 1}}, memory(b)),
              HasSubstr("8 items in y, and there can be just 16"));
  EXPECT_THAT(launching(who, {}, memory(b), 65537), HasSubstr("needs 65537 bytes of dynamic memory"));
  EXPECT_THAT(launching(who, {}, memory(b), 0, 1), HasSubstr("belongs into stream 2 or a later one"));
  EXPECT_EQ(d.counters().launches, 0u);

  d.free(b, 10);
  EXPECT_THAT(copying(0, to(b, host.data(), 1)), HasSubstr("has memory which has been freed"));
  EXPECT_THAT(refusal(errc::invalid_argument, [&] { d.done(12345); }), HasSubstr("not its own, or that is forgotten"));
  const ticket strange = other.copy(0, to(foreign, host.data(), 1));
  EXPECT_THAT(refusal(errc::invalid_argument, [&] { d.order(0, strange); }), HasSubstr("no operation of it"));
  EXPECT_TRUE(other.done(strange));
  EXPECT_THAT(refusal(errc::invalid_argument, [&] { other.done(strange); }), HasSubstr("that is forgotten"));
  d.free(a, 100);
  other.free(foreign, 10);
  expect_nothing_left(d);
  expect_nothing_left(other);
}

TEST(fake_device, wrong_frees_are_told_afterwards) {
  moment = 0;
  simulated_settings s = still();
  s.latency = 5;
  simulated_device d(0, s, 1);
  char host[8] = {};
  const memory_handle a = d.allocate(8);
  const ticket t = d.copy(1, from(a, host, 8));
  moment = 5; // due, but `done` has not been called
  d.free(a, 8);
  EXPECT_EQ(refusal(errc::invalid_argument, [&] { d.done(t); }),
            "simulated0: the copy of 8 bytes from the device in stream 1 was not done yet when its memory was freed");
  EXPECT_EQ(host[0], 0);
  d.free(a, 8);
  EXPECT_EQ(refusal(errc::invalid_argument, [&] { d.allocate(1); }),
            "simulated0: freed were 8 bytes of memory which has been freed");
  const memory_handle b = d.allocate(8);
  d.free(b, 9);
  EXPECT_EQ(refusal(errc::invalid_argument, [&] { d.done(0); }),
            "simulated0: freed were 9 bytes of memory which has 8");
  EXPECT_TRUE(d.done(0));
  expect_nothing_left(d);
}

TEST(fake_device, fails_when_it_is_told_to) {
  moment = 0;
  simulated_settings s = still();
  s.faults = {.allocation = 2, .copy = 2, .kernel = 1};
  simulated_device d(0, s, 1);
  const memory_handle a = d.allocate(4);
  EXPECT_EQ(d.allocate(4), nullptr);
  EXPECT_NE(a, nullptr);
  int in = 1, out = 0;
  EXPECT_TRUE(d.done(d.copy(0, to(a, &in, 4))));
  in = 2;
  ticket t = d.copy(0, to(a, &in, 4));
  EXPECT_EQ(refusal(errc::device_failed, [&] { d.done(t); }),
            "simulated0: the copy of 4 bytes to the device in stream 0 failed; it was to: fail-copy");
  EXPECT_TRUE(d.done(d.copy(1, from(a, &out, 4))));
  EXPECT_EQ(out, 1);
  const kernel_code nothing = code_of(test_kernels::nothing);
  t = d.launch(2, {&nothing, {}, 0, {}});
  const ticket next = d.launch(2, {&nothing, {}, 0, {}});
  EXPECT_EQ(refusal(errc::device_failed, [&] { d.done(t); }),
            "simulated0: the kernel 'nothing' in stream 2 failed; it was to: fail-kernel");
  EXPECT_TRUE(d.done(next));
  d.set_faults({.kernel = 2});
  EXPECT_TRUE(d.done(d.launch(2, {&nothing, {}, 0, {}})));
  t = d.launch(2, {&nothing, {}, 0, {}});
  EXPECT_NE(refusal(errc::device_failed, [&] { d.done(t); }), "");
  d.free(a, 4);
  expect_nothing_left(d);
}

TEST(fake_device, is_lost_with_all_that_is_pending) {
  moment = 0;
  simulated_settings s = still();
  s.latency = 10;
  s.faults.lose = 2;
  simulated_device d(1, s, 1);
  const memory_handle a = d.allocate(4);
  int in = 1;
  const ticket one = d.copy(0, to(a, &in, 4)), two = d.copy(0, to(a, &in, 4)), three = d.copy(0, to(a, &in, 4));
  moment = 10;
  EXPECT_TRUE(d.done(one));
  EXPECT_FALSE(d.done(two));
  EXPECT_FALSE(d.lost());
  moment = 20;
  const std::string text = "simulated1 is lost; what its memory alone had is gone; nothing more runs on it";
  EXPECT_EQ(refusal(errc::device_lost, [&] { d.done(three); }), text);
  EXPECT_TRUE(d.lost());
  EXPECT_EQ(refusal(errc::device_lost, [&] { d.done(two); }), text);
  EXPECT_EQ(refusal(errc::device_lost, [&] { d.copy(0, to(a, &in, 4)); }), text);
  EXPECT_EQ(refusal(errc::device_lost, [&] { d.launch(2, {}); }), text);
  EXPECT_EQ(refusal(errc::device_lost, [&] { d.order(2, one); }), text);
  EXPECT_EQ(refusal(errc::device_lost, [&] { d.allocate(1); }), text);
  EXPECT_EQ(d.poll_delay(), 0);
  d.free(a, 4);
  expect_nothing_left(d);

  simulated_device now(0, still(), 1);
  now.lose();
  EXPECT_EQ(refusal(errc::device_lost, [&] { now.allocate(1); }).substr(0, 18), "simulated0 is lost");
}

TEST(fake_device, goes_by_the_real_clock) {
  simulated_device d(0, {}, 1);
  const memory_handle a = d.allocate(4);
  int in = 3, out = 0;
  const ticket there = d.copy(0, to(a, &in, 4));
  d.order(1, there);
  const ticket back = d.copy(1, from(a, &out, 4));
  while (!d.done(back)) EXPECT_LE(d.poll_delay(), 5001);
  EXPECT_TRUE(d.done(there));
  EXPECT_EQ(out, 3);
  d.free(a, 4);
  expect_nothing_left(d);
}

TEST(fake_device, goes_by_the_simulated_clock) {
  sim::simulation world({.seed = 3});
  scheduler s({.workers = 2, .name = "test", .simulation = &world});
  s.run([] {
    simulated_settings slow;
    slow.latency = 2e9;
    simulated_device d(0, slow, 1);
    const memory_handle a = d.allocate(4);
    int in = 3;
    const ticket t = d.copy(0, to(a, &in, 4));
    int asked = 0;
    for (; !d.done(t); ++asked) this_fiber::sleep_for(std::chrono::nanoseconds(d.poll_delay()));
    EXPECT_EQ(asked, 1);
    d.free(a, 4);
  });
  EXPECT_GE(world.seconds(), 2.0);
  EXPECT_LT(world.seconds(), 2.001);
}

TEST(fake_device, entries_are_for_ranks_in_turn) {
  options opts;
  opts.set(hetero_simulated, "2:speed=4;1:speed=0.5;");
  const auto of = [&](int rank) { return parse_simulated(own_devices(opts, rank)[hetero_simulated]); };
  ASSERT_EQ(of(0).size(), 2u);
  EXPECT_EQ(of(0)[1].speed, 4);
  ASSERT_EQ(of(1).size(), 1u);
  EXPECT_EQ(of(1)[0].speed, 0.5);
  EXPECT_TRUE(of(2).empty());
  EXPECT_EQ(of(3).size(), 2u) << "the first again";
  EXPECT_EQ(of(4).size(), 1u);
  EXPECT_EQ(open_simulated(opts).size(), 2u) << "of rank 0, where nothing knows a rank";
  EXPECT_NE(refusal(errc::invalid_option, [] { parse_simulated("2:speed=4;1:sped=2"); }).find("sped"),
            std::string::npos);
  opts.set(hetero_simulated, "3");
  EXPECT_EQ(of(5).size(), 3u) << "one entry is for all";
}

TEST(fake_device, options_describe_devices) {
  EXPECT_TRUE(parse_simulated("").empty());
  EXPECT_TRUE(parse_simulated("0").empty());
  EXPECT_EQ(parse_simulated("3").size(), 3u);
  const auto two = parse_simulated("2:bandwidth=4G,latency=10us,memory=512M,launch=5ms,speed=2,item=0.5ns,units=3,"
                                   "unit-memory=1k,notice=20us,waits=1us,skip=false,fail-allocation=4,fail-copy=5,fail-"
                                   "kernel=6@0,fail-kernel=7@1,lose=8@1");
  ASSERT_EQ(two.size(), 2u);
  for (const simulated_settings& s : two) {
    EXPECT_EQ(s.bandwidth, 4.0 * 1024 * 1024 * 1024);
    EXPECT_EQ(s.latency, 1e4);
    EXPECT_EQ(s.memory, std::size_t{512} << 20);
    EXPECT_EQ(s.launch, 5e6);
    EXPECT_EQ(s.speed, 2);
    EXPECT_EQ(s.item, 0.5);
    EXPECT_EQ(s.units, 3);
    EXPECT_EQ(s.unit_memory, 1024u);
    EXPECT_EQ(s.notice, 2e4);
    EXPECT_EQ(s.waits, 1e3);
    EXPECT_FALSE(s.skip);
    EXPECT_EQ(s.faults.allocation, 4);
    EXPECT_EQ(s.faults.copy, 5);
  }
  EXPECT_EQ(two[0].faults.kernel, 6);
  EXPECT_EQ(two[1].faults.kernel, 7);
  EXPECT_EQ(two[0].faults.lose, 0);
  EXPECT_EQ(two[1].faults.lose, 8);
  const auto powered = parse_simulated("2:power=300@1,idle-power=30.5@1");
  EXPECT_LT(powered[0].power, 0) << "not known";
  EXPECT_EQ(powered[1].power, 300);
  EXPECT_EQ(powered[1].idle_power, 30.5);
  const auto unsteady = parse_simulated("2:noise=0.05,outlier=0.01x100,slow-first=50,drift=2@0.5s,drift=3@1ms@1");
  EXPECT_EQ(unsteady[0].unsteady.noise, 0.05);
  EXPECT_EQ(unsteady[0].unsteady.outlier_share, 0.01);
  EXPECT_EQ(unsteady[0].unsteady.outlier_factor, 100);
  EXPECT_EQ(unsteady[0].unsteady.first_factor, 50);
  EXPECT_EQ(unsteady[0].unsteady.drift_factor, 2);
  EXPECT_EQ(unsteady[0].unsteady.drift_at, 5e8);
  EXPECT_EQ(unsteady[1].unsteady.drift_factor, 3);
  EXPECT_EQ(unsteady[1].unsteady.drift_at, 1e6);
  EXPECT_EQ(parse_simulated("1:bandwidth=0,latency=1s,memory=1.5k")[0].memory, 1536u);
  EXPECT_EQ(parse_simulated("1")[0].peer_bandwidth, 0);
  EXPECT_EQ(parse_simulated("1:peer-bandwidth=2k")[0].peer_bandwidth, 2048);

  options opts;
  opts.set(hetero_simulated, "2:memory=2G");
  const auto devices = open_simulated(opts);
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[1]->info().id, "simulated1");
  EXPECT_EQ(devices[1]->info().memory_bytes, std::int64_t{2} << 30);
  EXPECT_EQ(devices[1]->streams(), 2 + opts[hetero_queues]);
  opts.set(hetero_share, 4);
  EXPECT_EQ(open_simulated(opts)[0]->memory_limit(), std::size_t{512} << 20);
  opts.set(hetero_own, "1/2");
  const auto own = open_simulated(opts);
  ASSERT_EQ(own.size(), 1u);
  EXPECT_EQ(own[0]->info().id, "simulated1");
  EXPECT_EQ(own[0]->memory_limit(), std::size_t{2} << 30) << "not shared";
  opts.set(hetero_own, "1/3");
  EXPECT_EQ(open_simulated(opts).size(), 2u) << "too few";
}

TEST(fake_device, options_that_are_wrong_are_refused) {
  const auto wrong = [](const char* text) { return refusal(errc::invalid_option, [&] { parse_simulated(text); }); };
  EXPECT_EQ(wrong("many"), "the number of devices cannot be \"many\"; allowed: a whole "
                           "number from 0 to 64, then a colon and words, if there are any: "
                           "2:bandwidth=4G,latency=10us");
  EXPECT_THAT(wrong("65"), HasSubstr("cannot be \"65\""));
  EXPECT_THAT(wrong("bandwidth=4G"), HasSubstr("number of devices cannot be \"bandwidth=4G\""));
  EXPECT_EQ(wrong("2:"), "a word is missing; write WORD=VALUE between commas: "
                         "2:bandwidth=4G,latency=10us");
  EXPECT_EQ(wrong("2:bandwith=4G"),
            "there is no word \"bandwith\"; did you mean bandwidth? there are: bandwidth, peer-bandwidth, "
            "latency, memory, launch, item, notice, waits, speed, units, fuse, power, idle-power, noise, outlier, "
            "slow-first, drift, unit-memory, fail-allocation, fail-copy, fail-kernel, skip, lose");
  EXPECT_EQ(wrong("2:speed"), "speed has no value; allowed: a number from 0.000001 to 1000000");
  EXPECT_EQ(wrong("2:latency=10"), "latency cannot be \"10\"; allowed: a time from 0ns "
                                   "to 1000s, with ns, us, ms or s behind the number: 10us");
  EXPECT_THAT(wrong("2:latency=-1us"), HasSubstr("latency cannot be \"-1us\""));
  EXPECT_THAT(wrong("2:memory=0"), HasSubstr("memory cannot be \"0\"; allowed: bytes from 1 to 1024T"));
  EXPECT_THAT(wrong("2:memory=4x\n"), HasSubstr("memory cannot be \"4x?\""));
  EXPECT_THAT(wrong("2:memory=1e9"), HasSubstr("memory cannot be \"1e9\""));
  EXPECT_THAT(wrong("2:memory=9999999T"), HasSubstr("memory cannot be"));
  EXPECT_THAT(wrong("2:bandwidth=4GB"), HasSubstr("bandwidth cannot be \"4GB\"; allowed: bytes a second"));
  EXPECT_EQ(wrong("2:skip=1"), "skip cannot be \"1\"; allowed: true or false");
  EXPECT_EQ(wrong("2:outlier=0.01"), "outlier cannot be \"0.01\"; allowed: a share from 0 to 1 and how many times as "
                                     "long: 0.01x100");
  EXPECT_THAT(wrong("2:outlier=2x100"), HasSubstr("outlier cannot be \"2x100\""));
  EXPECT_EQ(wrong("2:drift=2"), "drift cannot be \"2\"; allowed: how many times as long, and from when: 2@0.5s");
  EXPECT_THAT(wrong("2:drift=2@1s@2"), HasSubstr("drift is for device 2 of 2"));
  EXPECT_THAT(wrong("2:noise=1.5"), HasSubstr("noise cannot be \"1.5\"; allowed: a number from 0 to 1"));
  EXPECT_THAT(wrong("2:slow-first=0.5"), HasSubstr("slow-first cannot be \"0.5\"; allowed: a number from 1 to"));
  EXPECT_THAT(wrong("2:units=1.5"), HasSubstr("units cannot be \"1.5\""));
  EXPECT_THAT(wrong("2:units=2,units=2"), HasSubstr("units is given twice; leave one out"));
  EXPECT_THAT(wrong("2:lose=2@1,lose=3@1"), HasSubstr("lose@1 is given twice"));
  EXPECT_THAT(wrong("2:lose=0"), HasSubstr("lose cannot be \"0\"; allowed: a whole number from 1, which"));
  EXPECT_THAT(wrong("2:lose=1@"), HasSubstr("lose cannot be \"1@\""));
  EXPECT_EQ(wrong("2:lose=1@2"), "lose is for device 2 of 2; devices are counted from 0");
}

} // namespace
} // namespace tern::hetero::detail
