// SPDX-License-Identifier: Apache-2.0
/// \file
/// Operations on global pointers in a job that loses a rank.
#include <tern/global/pointer.hpp>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <tern/hetero/hetero_task.hpp>
#include <tern/mobile/protect.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/communicator.hpp>
#include <tern/net/rank_failure.hpp>
#include <tern/net/runtime.hpp>
#include <tern/net/simulate.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/fiber/sanitizer.hpp>

#ifdef TERN_ASAN
#include <sanitizer/lsan_interface.h>
#endif

namespace tern::global {
namespace {

using namespace std::chrono_literals;

struct of_case {
  std::vector<std::string> errors;
  std::vector<std::string> put_after; // by an operation on a rank that is known to be dead
  std::vector<pointer_counts> left;
} found;

template <class F> void expect_lost(F&& f) {
  try {
    f();
    found.errors.emplace_back("nothing was lost");
  } catch (const error& e) {
    found.errors.emplace_back(e.code() == errc::rank_lost ? e.what() : "another error: " + std::string(e.what()));
  }
}

// The owner dies while its target is in use: put, get, sums and fences wait for it.
TEST(survival, what_waits_for_the_owner_fails_and_others_go_on) {
#ifdef TERN_ASAN
  const __lsan::ScopedDisabler stuck; // what the stacks of dead ranks own is lost
#endif
  found = {};
  const auto ended = sim::run(sim::parse_world("ranks=3,faults=crash=2@2ms"), [&] {
    int steps = 0;
    protect(
        every(0s),
        [&] {
          const std::vector<int> all = living();
          hetero_object<int> target(8, 1);
          const exported<int> entry(target);
          static std::vector<global_ptr<int>> pointers; // simulated ranks share it
          if (pointers.size() < 3) pointers.resize(3);
          pointers[static_cast<std::size_t>(rank())] = entry.ptr();
          communicator::world().barrier();
          const global_ptr<int> there = pointers[static_cast<std::size_t>(all.back())];
          if (all.size() == 3 && rank() == 2) {
            submit([](host_view<int, 1>) { this_fiber::sleep_for(1h); }, read_write(target)); // it dies meanwhile
            communicator::world().barrier();
            this_fiber::sleep_for(1h);
          }
          communicator::world().barrier();
          const hetero_object<int> x(8, 5);
          if (all.size() == 3) {
            const transfer t = put(x, there);
            const hetero_object<int> got = get(there);
            const transfer sum = accumulate(x, there, accumulation::plus);
            expect_lost([&] { t.done().get(); });
            expect_lost([&] { static_cast<void>(got.host(access_mode::read).get()); });
            expect_lost([&] { sum.done().get(); });
            expect_lost([&] { static_cast<void>(put(x, there)); });
          } else {
            put(x, there).done().get();
            expect_lost([&] { static_cast<void>(put(x, pointers[2])); });
            fence().get();
          }
          quiesce();
          return ++steps < 2;
        },
        steps);
    found.left.push_back(count_pointers());
    return 0;
  });
  EXPECT_EQ(ended.code, 0);
  EXPECT_GE(found.errors.size(), 10u);
  for (const std::string& e : found.errors) EXPECT_NE(e.find("lost rank 2"), std::string::npos) << e;
  ASSERT_EQ(found.left.size(), 2u);
  for (const pointer_counts& n : found.left) {
    EXPECT_EQ(n.announced, n.finished);
    EXPECT_EQ(n.serving, 0u);
  }
}

} // namespace
} // namespace tern::global
