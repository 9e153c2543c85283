// SPDX-License-Identifier: Apache-2.0
// Balancing learns of devices: in a simulation of ranks with one simulated device each, of which
// every second is four times slower, so that all times are known.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <tern/balance/balance.hpp>
#include <tern/balance/policy.hpp>
#include <tern/global/travel.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/mobile/load.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>

#include "rank_test.hpp"
#include "tests/global/support/rank_data.hpp"

namespace device_load_test {

using tern::rank;
using tern::size;
using tern::test::add_to;

constexpr int elements = 1024;
constexpr double fast = elements * 1e-6, slow = 4 * fast; // seconds of a kernel, as CMakeLists.txt says
double kernel_here() { return rank() % 2 == 0 ? fast : slow; }

class cell {
public:
  cell() = default;
  explicit cell(int) : x_(elements, 0) {}
  void step(int kernels) {
    for (int i = 0; i < kernels; ++i) add_to(x_, 1);
  }
  void rest() {}
  int where() const { return rank(); }
  template <class A> void serialize(A& ar) { ar(x_); }

private:
  tern::hetero_object<int> x_;
};
using cells = std::vector<tern::mobile_ptr<cell>>;

void end_of_step() {
  tern::quiesce();
  tern::wait_all();
  tern::barrier();
}

cells cells_here(int count) {
  cells all;
  for (int i = 0; i < count; ++i) all.push_back(tern::create<cell>(0));
  return all;
}
void destroy(cells& all) {
  for (const auto& c : all) tern::destroy(c).get();
  end_of_step();
}

bool about(double a, double b) { return std::abs(a - b) <= 1e-5 * std::abs(b); }

double device_of(tern::mobile_ptr<cell> c) {
  for (const tern::mobile::object_load& o : tern::mobile::loads())
    if (o.id == c.id()) return o.device;
  return -1;
}

TERN_RANK_TEST(what_tasks_take_is_charged_to_their_object) {
  tern::mobile::watch_loads(true);
  cells mine = cells_here(3);
  tern::call<&cell::step>(mine[0], 3).get();
  tern::call<&cell::step>(mine[1], 1).get();
  tern::call<&cell::rest>(mine[2]).get();
  end_of_step();
  TERN_EXPECT(about(device_of(mine[0]), 3 * kernel_here()));
  TERN_EXPECT(about(device_of(mine[1]), kernel_here()));
  TERN_EXPECT_EQ(device_of(mine[2]), 0.0);
  // Another invocation counts a quarter.
  tern::call<&cell::step>(mine[0], 7).get();
  end_of_step();
  TERN_EXPECT(about(device_of(mine[0]), (0.75 * 3 + 0.25 * 7) * kernel_here()));
  // What no invocation has submitted is charged to no object.
  tern::hetero_object<int> other(elements, 0);
  add_to(other, 1);
  end_of_step();
  TERN_EXPECT(about(device_of(mine[1]), kernel_here()));
  tern::mobile::watch_loads(false);
  destroy(mine);
}

/// Moves nothing, and remembers what it has seen.
struct sights {
  std::atomic<int> ready{0};
  // At the end of the last phase:
  std::atomic<int> devices{-1};
  std::atomic<double> pace{0}, load{0}, of_objects{0};
};
const tern::rank_local<sights> seen;

class watcher final : public tern::balance::policy {
public:
  watcher(tern::balance::policy_context& h, tern::balance::parameters&) : policy(h) {}
  bool push(int, const tern::balance::ready_object&) override {
    ++seen->ready;
    return false;
  }
  void dist_balance(tern::balance::trigger why) override {
    if (why != tern::balance::trigger::phase) return;
    double load = 0;
    for (const auto& o : here.objects()) load += o.device;
    seen->devices = here.devices();
    seen->pace = here.device_pace();
    seen->load = here.device_load();
    seen->of_objects = load;
  }
};
const tern::balance::registered_policy<watcher> entered("watcher", "moves nothing");

TERN_RANK_TEST(load_for_devices_is_work) {
  tern::balance::use("watcher").get();
  cells mine = cells_here(2);
  tern::send<&cell::step>(mine[0], 3);
  tern::send<&cell::step>(mine[1], 1);
  end_of_step();
  tern::balance::phase(); // the first: what was before is not known of objects
  TERN_EXPECT_EQ(seen->of_objects.load(), 0.0);
  tern::send<&cell::step>(mine[0], 3);
  tern::send<&cell::step>(mine[1], 1);
  end_of_step();
  tern::balance::phase();
  TERN_EXPECT_EQ(seen->devices.load(), 1);
  TERN_EXPECT(about(seen->pace, kernel_here() / elements));
  TERN_EXPECT(about(seen->of_objects, 4 * elements)); // whatever time it took
  TERN_EXPECT(about(seen->load, 4 * elements));
  tern::balance::use("none").get();
  destroy(mine);
}

TERN_RANK_TEST(an_invocation_that_is_work_waits_for_a_worker) {
  tern::balance::use("watcher").get();
  cells mine = cells_here(1);
  for (int i = 0; i < 200; ++i) tern::send<&cell::rest>(mine[0]); // it is quick
  end_of_step();
  const int before = seen->ready;
  for (int i = 0; i < 10; ++i) tern::send<&cell::rest>(mine[0]);
  end_of_step();
  TERN_EXPECT_EQ(seen->ready.load(), before);
  for (int i = 0; i < 10; ++i) {
    tern::send<&cell::rest>({.work = true}, mine[0]);
    end_of_step();
  }
  TERN_EXPECT_EQ(seen->ready.load(), before + 10);
  tern::balance::use("none").get();
  destroy(mine);
}

/// Seconds of a step of 8 cells a rank, when a policy has had some phases.
double step_under(const std::string& policy) {
  tern::balance::use(policy).get();
  cells mine = cells_here(8);
  double took = 0;
  for (int phase = 0; phase < 4; ++phase) {
    tern::barrier();
    const auto began = tern::fiber_clock::now();
    for (const auto& c : mine) tern::send<&cell::step>(c, 1);
    end_of_step();
    took = std::chrono::duration<double>(tern::fiber_clock::now() - began).count();
    tern::balance::phase();
  }
  tern::balance::use("none").get();
  destroy(mine);
  return tern::allreduce(took, [](double a, double b) { return std::max(a, b); });
}

TERN_RANK_TEST(unlike_devices_are_balanced) {
  const double still = 8 * slow, least = 8.0 * size() / (size() / 2 * (1 / fast + 1 / slow));
  for (const char* policy : {"greedy", "refine", "gossip"})
    for (const char* by : {"both", "device"}) {
      const double took = step_under(std::string(policy) + ":by=" + by);
      if (took > 1.1 * least)
        tern::test::fail(__FILE__, __LINE__,
                         std::string(policy) + ":by=" + by + " takes " + std::to_string(took / least) +
                             " of the bound");
    }
  for (const char* policy : {"greedy:by=worker", "refine:by=worker", "none"})
    TERN_EXPECT(step_under(policy) > 0.99 * still);
}

} // namespace device_load_test
