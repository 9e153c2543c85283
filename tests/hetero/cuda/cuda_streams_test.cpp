// SPDX-License-Identifier: Apache-2.0
// Events are recorded where they are needed, with the mock driver, which runs what is in streams in
// any order that events allow.
#include "tests/hetero/support/cuda_device.hpp"
#include "tests/hetero/support/opencl.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace tern::hetero::detail {
namespace {

class cuda_events : public testing::Test {
protected:
  cuda_events() {
    if (!device_) throw std::runtime_error("the mock driver has no device");
    device_->open();
  }
  void TearDown() override { EXPECT_EQ(device_->open_tickets(), 0u); }
  cuda_device& d() { return *device_; }
  ticket nothing(int stream = 2) { return launch<k::nothing>(*device_, {}, {}, stream); }
  static std::uint64_t events() { return mock_cuda::counters().event_records; }
  static std::uint64_t waits() { return mock_cuda::counters().stream_waits; }

  mock_cuda mock_{""};
  std::unique_ptr<cuda_device> device_ = first_cuda_device(cuda_options());
};

TEST_F(cuda_events, stand_behind_every_eighth) {
  std::vector<ticket> all;
  for (int i = 0; i < 80; ++i) all.push_back(nothing());
  EXPECT_EQ(events(), 10u);
  for (const ticket t : all) wait(d(), t);
  EXPECT_EQ(events(), 10u);
  EXPECT_EQ(mock_cuda::counters().stream_queries, 0u);
}

TEST_F(cuda_events, are_none_where_the_stream_itself_can_be_asked) {
  for (int i = 0; i < 20; ++i) wait(d(), nothing());
  const ticket a = nothing(), b = nothing(), c = nothing();
  wait(d(), a);
  EXPECT_TRUE(d().done(b));
  EXPECT_TRUE(d().done(c));
  EXPECT_EQ(events(), 0u);
  EXPECT_EQ(mock_cuda::counters().event_queries, 0u);
}

TEST_F(cuda_events, are_recorded_for_an_order_that_needs_one) {
  const ticket a = nothing(2), b = nothing(2);
  d().order(3, a);
  EXPECT_EQ(events(), 1u) << "behind b, which is later than needed";
  EXPECT_EQ(waits(), 1u);
  d().order(3, b); // known
  d().order(3, a);
  EXPECT_EQ(waits(), 1u);
  d().order(2, b); // its own stream
  EXPECT_EQ(waits(), 1u);
  const ticket c = nothing(3);
  d().order(4, a);
  EXPECT_EQ(events(), 1u);
  EXPECT_EQ(waits(), 2u);
  for (const ticket t : {a, b, c}) wait(d(), t);
  d().order(5, a); // forgotten: it is over
  EXPECT_EQ(waits(), 2u);
}

// What came before is known to be over before what comes behind has even begun.
TEST_F(cuda_events, are_recorded_for_what_is_marked) {
  const ticket a = nothing(2);
  d().mark(2);
  d().mark(2);
  EXPECT_EQ(events(), 1u);
  std::vector<ticket> all;
  for (int i = 0; i < 6; ++i) all.push_back(nothing(2));
  d().mark(4); // empty
  EXPECT_EQ(events(), 1u);
  while (!d().done(a)) {
  }
  EXPECT_LT(mock_cuda::counters().kernels_done, 5u) << "its own event was asked for";
  for (const ticket t : all) wait(d(), t);
}

TEST_F(cuda_events, of_one_stream_are_over_together) {
  std::vector<ticket> all;
  for (int i = 0; i < 8; ++i) all.push_back(nothing());
  wait(d(), all.front());
  const auto asked = mock_cuda::counters().event_queries;
  for (std::size_t i = 1; i < all.size(); ++i) EXPECT_TRUE(d().done(all[i]));
  EXPECT_EQ(mock_cuda::counters().event_queries, asked);
}

TEST_F(cuda_events, are_asked_for_once_a_round_and_seldom_while_there_is_more_to_launch) {
  const auto asked = [] {
    const auto c = mock_cuda::counters();
    return c.event_queries + c.stream_queries;
  };
  std::vector<ticket> all;
  d().resume(true);
  for (int i = 0; i < 16; ++i) all.push_back(nothing());
  EXPECT_FALSE(d().done(all.front()));
  EXPECT_EQ(asked(), 0u) << "it has just got something";
  d().resume(true);
  d().done(all[0]);
  EXPECT_EQ(asked(), 1u);
  for (std::size_t i = 1; i < all.size(); ++i) d().done(all[i]);
  EXPECT_EQ(asked(), 1u);
  for (const ticket t : all)
    for (d().resume(true); !d().done(t); d().resume(true)) {
    }
}

// The context is made the thread's where other code may have changed it, and not for each call.
TEST_F(cuda_events, need_the_context_made_the_threads_once_a_round) {
  wait(d(), nothing()); // compiled
  d().resume(true);
  const auto before = mock_cuda::counters().set_currents;
  const ticket a = nothing(), b = nothing();
  EXPECT_EQ(mock_cuda::counters().set_currents, before + 1);
  d().resume(false);
  const ticket c = nothing();
  EXPECT_EQ(mock_cuda::counters().set_currents, before + 2);
  for (const ticket t : {a, b, c})
    for (d().resume(true); !d().done(t); d().resume(true)) {
    }
}

} // namespace
} // namespace tern::hetero::detail
