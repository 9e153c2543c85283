// SPDX-License-Identifier: Apache-2.0
/// \file
/// Each policy in a protected job that loses two ranks: the answer is right, and it goes on.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tern/balance/balance.hpp>
#include <tern/balance/policy.hpp>
#include <tern/base/options.hpp>
#include <tern/mobile/array.hpp>
#include <tern/mobile/protect.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/rank_failure.hpp>
#include <tern/net/runtime.hpp>
#include <tern/net/simulate.hpp>
#include <tern/task/fiber/sanitizer.hpp>
#include <tern/task/sim.hpp>

#ifdef TERN_ASAN
#include <sanitizer/lsan_interface.h>
#endif

namespace tern::balance {
namespace {

using namespace std::chrono_literals;

class heavy_or_light {
public:
  void make_heavy() { is_heavy_ = true; }
  void step() {
    ++steps_;
    sim::charge(is_heavy_ ? 300e-6 : 20e-6);
  }
  std::int64_t steps() const { return steps_; }
  template <class A> void serialize(A& a) { a(steps_, is_heavy_); }

private:
  std::int64_t steps_ = 0;
  bool is_heavy_ = false;
};

struct outcome {
  std::int64_t steps = 0;
  std::uint64_t recoveries = 0, moves = 0;
  std::vector<std::string> in_use; // on each rank that lives
};

constexpr std::int64_t objects = 30, steps = 24;

// Eight heavy objects lie together, so that policies move some.
void live(outcome& to) {
  mobile_array<heavy_or_light> all;
  if (rank() == 0) all = mobile_array<heavy_or_light>({objects});
  all = broadcast(all);
  if (rank() == 0)
    for (int i = 0; i < 8; ++i) call<&heavy_or_light::make_heavy>(all(i)).get();
  barrier();
  std::int64_t done = 0;
  const auto what = protect(
      every(1ms),
      [&] {
        if (rank() == living().front()) call<&heavy_or_light::step>(all).get();
        phase();
        return ++done < steps;
      },
      all, done);
  to.in_use.push_back(in_use());
  to.moves += count().moves;
  if (rank() != living().front()) return;
  to.recoveries = what.recoveries;
  to.steps = reduce<&heavy_or_light::steps>(all, std::plus<>()).get();
}

outcome run(const std::string& policy, int seed) {
#ifdef TERN_ASAN
  const __lsan::ScopedDisabler stuck; // what the stacks of dead ranks own is lost
#endif
  const std::string first = std::to_string(seed % 6), second = std::to_string((seed + 2) % 6);
  const std::string first_at = std::to_string(1500 + 400 * seed), second_at = std::to_string(6900 + 400 * seed);
  options o;
  o.set(balance_option, policy);
  outcome to;
  sim::run(
      sim::parse_world("ranks=6,workers=2,seed=" + std::to_string(seed) + ",faults=delay:reorder:crash=" + first + "@" +
                       first_at + "us:crash=" + second + "@" + second_at + "us"),
      [&] { return live(to), 0; }, o);
  return to;
}

TEST(survivors, each_policy_goes_on_among_them) {
  for (const policy_kind& kind : policies()) {
    if (kind.name.starts_with("test")) continue; // other tests' own
    std::uint64_t moves = 0, recoveries = 0;
    for (int seed = 1; seed <= 4; ++seed) {
      const outcome got = run(kind.name, seed);
      EXPECT_EQ(got.steps, objects * steps) << kind.name << ' ' << seed;
      EXPECT_EQ(got.in_use, std::vector<std::string>(4, kind.name)) << seed;
      moves += got.moves;
      recoveries += got.recoveries;
    }
    EXPECT_GT(recoveries, 4u) << kind.name;
    EXPECT_EQ(moves > 0, kind.name != "none") << kind.name;
  }
}

} // namespace
} // namespace tern::balance
