// SPDX-License-Identifier: Apache-2.0
// Launches behind others, ends that are seen late, and what comes after a failure.
#include <tern/hetero/device/simulated/simulated_device.hpp>

#include <cstdint>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/kernels.hpp"
#include "tests/hetero/support/simulated_device.hpp"

namespace tern::hetero::detail {
namespace {

using testing::HasSubstr;

TEST(fake_device, shows_ends_later_than_they_are) {
  moment = 0;
  simulated_settings s = still();
  s.launch = 10;
  s.notice = 25;
  simulated_device d(0, s, 1);
  const kernel_code nothing = code_of(test_kernels::nothing);
  const ticket one = d.launch(2, {&nothing, {}, 0, {}}), two = d.launch(2, {&nothing, {}, 0, {}});
  EXPECT_EQ(d.poll_delay(), 35);
  moment = 34;
  EXPECT_FALSE(d.done(one));
  EXPECT_EQ(d.poll_delay(), 1);
  moment = 35;
  EXPECT_EQ(d.poll_delay(), 0);
  EXPECT_EQ(d.poll_delay(), 10); // it has been said once
  EXPECT_TRUE(d.done(one));
  EXPECT_EQ(d.took(), 10);
  EXPECT_FALSE(d.done(two));
  moment = 45;
  EXPECT_TRUE(d.done(two));
  EXPECT_EQ(d.took(), 10);
  expect_nothing_left(d);
}

TEST(fake_device, launches_behind_what_is_under_way) {
  moment = 0;
  simulated_settings s = still();
  s.launch = 10;
  s.waits = 3;
  simulated_device d(0, s, 2);
  ASSERT_TRUE(d.launches_behind());
  const kernel_code nothing = code_of(test_kernels::nothing);
  const auto launch = [&](int stream, std::vector<ticket> after) {
    launch_request what{&nothing, {}, 0, {}};
    what.after = after;
    return d.launch(stream, what);
  };
  const ticket a = launch(2, {}), b = launch(3, {}), same = launch(2, {a}), other = launch(3, {same}),
               both = launch(2, {same, other});
  const auto expect_end = [&](ticket t, std::int64_t end, std::int64_t took) {
    moment = end - 1;
    EXPECT_FALSE(d.done(t)) << end;
    moment = end;
    EXPECT_TRUE(d.done(t)) << end;
    EXPECT_EQ(d.took(), took);
  };
  expect_end(a, 10, 10);
  EXPECT_TRUE(d.done(b));
  expect_end(same, 20, 10);
  expect_end(other, 33, 10); // an order of 3
  expect_end(both, 46, 10);
  EXPECT_THAT(refusal(errc::invalid_argument, [&] { launch(2, {both + 1}); }), HasSubstr("no operation of it"));
  expect_end(launch(3, {a, both}), 56, 10); // those are over: no order
  expect_nothing_left(d);
}

TEST(fake_device, copies_from_it_behind_kernels_in_a_stream_of_their_own) {
  moment = 0;
  simulated_settings s = still();
  s.launch = 10;
  s.latency = 1;
  simulated_device d(0, s, 1);
  const int waiting = d.waiting_stream();
  EXPECT_EQ(waiting, d.streams());
  const kernel_code nothing = code_of(test_kernels::nothing);
  const memory_handle m = d.allocate(8);
  std::uint64_t host = 0;
  copy_request home;
  home.way = direction::from_device;
  home.host = reinterpret_cast<std::byte*>(&host);
  home.device = m;
  home.row_bytes = sizeof host;
  const ticket kernel = d.launch(2, {&nothing, {}, 0, {}});
  d.order(waiting, kernel);
  const ticket behind = d.copy(waiting, home), at_once = d.copy(1, home);
  moment = 1;
  EXPECT_TRUE(d.done(at_once));
  moment = 10;
  EXPECT_TRUE(d.done(kernel));
  EXPECT_FALSE(d.done(behind));
  moment = 11;
  EXPECT_TRUE(d.done(behind));
  home.way = direction::to_device;
  EXPECT_THAT(refusal(errc::invalid_argument, [&] { d.copy(waiting, home); }), HasSubstr("there is no stream 3"));
  EXPECT_THAT(refusal(errc::invalid_argument,
                      [&] {
                        d.launch(waiting, {&nothing, {}, 0, {}});
                      }),
              HasSubstr("there is no stream 3"));
  d.free(m, 8);
  expect_nothing_left(d);
}

TEST(fake_device, skips_what_is_behind_a_failure) {
  moment = 0;
  simulated_settings s = still();
  s.launch = 10;
  s.faults.kernel = 1;
  simulated_device d(0, s, 2);
  const kernel_code nothing = code_of(test_kernels::nothing);
  const auto launch = [&](int stream, std::vector<ticket> after) {
    launch_request what{&nothing, {}, 0, {}};
    what.after = after;
    return d.launch(stream, what);
  };
  const ticket bad = launch(2, {}), beside = launch(2, {}), behind = launch(3, {bad}), later = launch(3, {behind});
  moment = 40;
  EXPECT_NE(refusal(errc::device_failed, [&] { d.done(bad); }), "");
  EXPECT_TRUE(d.done(beside)); // in its stream, but not behind it
  EXPECT_THROW(d.done(behind), predecessor_failed);
  const ticket behind_known = launch(2, {later}); // known to be skipped, and not asked for
  EXPECT_THROW(d.done(later), predecessor_failed);
  moment = 60;
  EXPECT_THROW(d.done(behind_known), predecessor_failed);
  expect_nothing_left(d);

  s.skip = false;
  simulated_device strict(1, s, 1);
  const ticket t = strict.launch(2, {&nothing, {}, 0, {}});
  moment = 100;
  EXPECT_NE(refusal(errc::device_lost, [&] { strict.done(t); }), "");
  EXPECT_TRUE(strict.lost());
  expect_nothing_left(strict);
}

TEST(fake_device, comes_behind_operations_of_another) {
  moment = 0;
  simulated_settings s = still();
  s.launch = 10;
  s.waits = 3;
  s.latency = 1;
  simulated_device a(0, s, 1), b(1, s, 1);
  EXPECT_TRUE(b.waits_for(a));
  EXPECT_FALSE(a.waits_for(a));
  const kernel_code nothing = code_of(test_kernels::nothing);
  const memory_handle m = b.allocate(8);
  std::uint64_t host = 7, seen = 0;
  copy_request in, out;
  in.host = reinterpret_cast<std::byte*>(&host);
  out.way = direction::from_device;
  out.host = reinterpret_cast<std::byte*>(&seen);
  in.device = out.device = m;
  in.row_bytes = out.row_bytes = 8;

  const ticket first = a.launch(2, {&nothing, {}, 0, {}});
  const std::vector<event_ref> ends = {a.event(first)};
  EXPECT_EQ(a.event(first), ends[0]);
  in.after_others = ends;
  const ticket copied = b.copy(b.waiting_stream_in(), in); // from 13 to 14
  launch_request next{&nothing, {}, 0, {}};
  next.after = {&copied, 1};
  const ticket second = b.launch(2, next); // from 17 to 27
  moment = 27;
  EXPECT_FALSE(b.done(second)) << "the other device's owner has not looked";
  EXPECT_TRUE(a.done(first));
  EXPECT_EQ(a.event(first), nullptr);
  EXPECT_TRUE(b.done(second));
  EXPECT_EQ(b.took(), 10);
  EXPECT_TRUE(b.done(copied));
  const ticket home = b.copy(1, out);
  moment = 28;
  EXPECT_TRUE(b.done(home));
  EXPECT_EQ(seen, 7u);
  EXPECT_THAT(refusal(errc::invalid_argument, [&] { b.copy(b.waiting_stream(), in); }), HasSubstr("no stream 3"));
  b.free(m, 8);
  expect_nothing_left(a);
  expect_nothing_left(b);
}

TEST(fake_device, does_nothing_behind_what_another_has_not_done) {
  for (const bool lost : {false, true}) {
    moment = 0;
    simulated_settings s = still();
    s.launch = 10;
    s.faults.kernel = 1;
    simulated_device a(0, s, 1);
    s.faults.kernel = 0;
    simulated_device b(1, s, 1);
    const kernel_code nothing = code_of(test_kernels::nothing);
    const memory_handle m = b.allocate(8);
    std::uint64_t host = 7;
    copy_request in;
    in.host = reinterpret_cast<std::byte*>(&host);
    in.device = m;
    in.row_bytes = 8;
    const ticket bad = a.launch(2, {&nothing, {}, 0, {}});
    const std::vector<event_ref> ends = {a.event(bad)};
    in.after_others = ends;
    const ticket copied = b.copy(b.waiting_stream_in(), in);
    launch_request next{&nothing, {}, 0, {}};
    next.after = {&copied, 1};
    const ticket behind = b.launch(2, next);
    const std::vector<event_ref> its_end = {b.event(behind)};
    next.after = {};
    next.after_others = its_end;
    const ticket last = a.launch(2, next); // a chain that comes back
    moment = 100;
    if (lost) {
      a.lose();
      EXPECT_NE(refusal(errc::device_lost, [&] { a.done(bad); }), "");
    } else {
      EXPECT_NE(refusal(errc::device_failed, [&] { a.done(bad); }), "");
    }
    EXPECT_THROW(b.done(copied), predecessor_failed);
    EXPECT_THROW(b.done(behind), predecessor_failed);
    if (lost)
      EXPECT_NE(refusal(errc::device_lost, [&] { a.done(last); }), "");
    else
      EXPECT_THROW(a.done(last), predecessor_failed);
    b.free(m, 8);
    expect_nothing_left(a);
    expect_nothing_left(b);
  }
}

} // namespace
} // namespace tern::hetero::detail
