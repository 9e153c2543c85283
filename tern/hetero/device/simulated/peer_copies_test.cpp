// SPDX-License-Identifier: Apache-2.0
// Copies straight from one simulated device to another.
#include <tern/hetero/device/simulated/simulated_device.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tern::hetero::detail {
namespace {

using testing::HasSubstr;

std::int64_t peer_moment = 0; // what the test's clock says

simulated_settings peer_settings() {
  simulated_settings s;
  s.bandwidth = s.peer_bandwidth = 1e9; // a byte in a nanosecond
  s.bandwidth /= 10;
  s.latency = 100;
  s.memory = 1 << 20;
  s.now = [] { return peer_moment; };
  return s;
}

copy_request copy_of(direction way, memory_handle device, std::size_t bytes) {
  copy_request r;
  r.way = way;
  r.device = device;
  r.row_bytes = bytes;
  return r;
}
copy_request on_host(direction way, memory_handle device, std::vector<std::byte>& host) {
  copy_request r = copy_of(way, device, host.size());
  r.host = host.data();
  return r;
}
copy_request between(memory_handle to, const device& source, memory_handle from, std::size_t bytes) {
  copy_request r = copy_of(direction::between, to, bytes);
  r.source = &source;
  r.from = from;
  return r;
}

std::string text_of_failure(auto&& f) {
  try {
    f();
  } catch (const error& e) {
    return e.what();
  }
  return {};
}

class peer_copies : public testing::Test {
protected:
  peer_copies() : a(1, peer_settings(), 1), b(2, peer_settings(), 1) {
    here = a.allocate(size);
    there = b.allocate(2 * size);
  }
  ~peer_copies() override {
    a.free(here, size);
    b.free(there, 2 * size);
    EXPECT_EQ(b.counters().bytes, 0u);
    EXPECT_EQ(b.counters().tickets, 0u);
  }
  /// After so many nanoseconds, not before.
  static void ends(simulated_device& d, ticket t, std::int64_t after) {
    EXPECT_EQ(d.poll_delay(), after);
    peer_moment += after - 1;
    EXPECT_FALSE(d.done(t));
    ++peer_moment;
    EXPECT_TRUE(d.done(t));
  }

  static constexpr std::size_t size = 1000;
  simulated_device a, b;
  memory_handle here, there;
};

TEST_F(peer_copies, have_a_bandwidth_of_their_own) {
  std::vector<std::byte> in(size, std::byte{7}), out(size);
  ends(a, a.copy(0, on_host(direction::to_device, here, in)), 100 + 10 * size);
  ends(b, b.copy(0, between(there, a, here, size)), 100 + size);
  EXPECT_EQ(b.counters().between.count, 1u);
  EXPECT_EQ(b.counters().between.bytes, size);
  ends(b, b.copy(1, on_host(direction::from_device, there, out)), 100 + 10 * size);
  EXPECT_EQ(out, in);
}

TEST_F(peer_copies, need_a_bandwidth) {
  simulated_settings s = peer_settings();
  s.peer_bandwidth = 0;
  simulated_device alone(0, s, 1);
  EXPECT_FALSE(alone.reaches(a));
  EXPECT_FALSE(alone.is_near(a));
  EXPECT_TRUE(a.reaches(alone));
  EXPECT_FALSE(a.reaches(a));
  const memory_handle m = alone.allocate(size);
  EXPECT_THAT(text_of_failure([&] { alone.copy(0, between(m, a, here, size)); }),
              HasSubstr("simulated0: the copy of 1000 bytes from another device in stream 0 comes from another device, "
                        "which this one does not reach"));
  alone.free(m, size);
}

TEST_F(peer_copies, are_near_if_that_is_faster_than_the_host) {
  EXPECT_TRUE(a.is_near(b));
  simulated_settings s = peer_settings();
  s.bandwidth = s.peer_bandwidth;
  const simulated_device other(3, s, 1);
  EXPECT_TRUE(other.reaches(a));
  EXPECT_FALSE(other.is_near(a));
}

TEST_F(peer_copies, are_checked_on_both_sides) {
  EXPECT_THAT(text_of_failure([&] { b.copy(0, between(there, a, here, size + 1)); }),
              HasSubstr("goes to byte 1001 of a source, which has 1000"));
  EXPECT_THAT(text_of_failure([&] { b.copy(1, between(there, a, here, size)); }), HasSubstr("belongs into stream 0"));
}

TEST_F(peer_copies, fail_with_the_device_that_they_come_from) {
  const ticket t = b.copy(0, between(there, a, here, size));
  a.lose();
  peer_moment += 100 + size;
  EXPECT_THAT(text_of_failure([&] { b.done(t); }), HasSubstr("failed, as simulated1 was lost"));
}

} // namespace
} // namespace tern::hetero::detail
