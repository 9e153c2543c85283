// SPDX-License-Identifier: Apache-2.0
/// \file
/// Device data in a job that loses a rank.
#include <tern/global/travel.hpp>

#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tern/hetero/hetero_task.hpp>
#include <tern/mobile/protect.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/communicator.hpp>
#include <tern/net/message.hpp>
#include <tern/net/rank_failure.hpp>
#include <tern/net/runtime.hpp>
#include <tern/net/simulate.hpp>
#include <tern/task/fiber.hpp>

#ifdef TERN_ASAN
#include <sanitizer/lsan_interface.h>
#endif

namespace tern::global {
namespace {

using namespace std::chrono_literals;

struct seen {
  std::vector<int> values;         // that have come to the end
  std::vector<std::string> errors; // in place of values
} all;

void end_here(hetero_object<int> x) {
  try {
    all.values.push_back(x.host(access_mode::read).get()(0));
  } catch (const error& e) {
    all.errors.push_back(e.what());
  }
}
// Its task waits for `x`, and the rank behind for its task.
void pass_on(hetero_object<int> x) {
  hetero_object<int> y(4);
  submit([](host_view<const int, 1> from, host_view<int, 1> to) { to(0) = from(0) + 1; }, read(x), write(y));
  send<&end_here>(1, y);
}

// Rank 2 dies before it has computed what rank 0 has been promised, and rank 1 by that.
TEST(abandon, what_was_to_come_fails_and_others_go_on) {
#ifdef TERN_ASAN
  const __lsan::ScopedDisabler stuck; // what the stacks of dead ranks own is lost
#endif
  all = {};
  std::vector<transfer_counts> left;
  const auto ended = sim::run(sim::parse_world("ranks=3,faults=crash=2@2ms"), [&] {
    int steps = 0;
    protect(
        every(0s),
        [&] {
          const bool is_first = living().size() == 3;
          if (rank() == living().back()) {
            hetero_object<int> x(4);
            submit(
                [is_first](host_view<int, 1> v) {
                  if (is_first) this_fiber::sleep_for(1h);
                  v(0) = 41;
                },
                write(x));
            send<&pass_on>(0, x);
          }
          quiesce();
          return ++steps < 2;
        },
        steps);
    left.push_back(count_transfers());
    return 0;
  });
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(all.values, (std::vector<int>{42, 42})) << "both steps, of two ranks";
  ASSERT_EQ(all.errors.size(), 1u);
  EXPECT_NE(all.errors[0].find("the job has lost rank 2"), std::string::npos) << all.errors[0];
  ASSERT_EQ(left.size(), 2u);
  for (const transfer_counts& n : left) {
    EXPECT_EQ(n.departing, 0u);
    EXPECT_EQ(n.arriving, 0u);
  }
}

} // namespace
} // namespace tern::global
