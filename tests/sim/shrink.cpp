// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <tern/base/error.hpp>

#include "harness.hpp"

namespace tern::property {
namespace {

constexpr std::uint64_t tries = 12; // seeds of each smaller case

// Between `least` and `value`, the boldest first.
std::vector<std::int64_t> lower(std::int64_t value, std::int64_t least) {
  std::vector<std::int64_t> all;
  for (std::int64_t by = value - least; by > 0; by /= 2) all.push_back(value - by);
  return all;
}

class shrinker {
public:
  shrinker(const plan& p, test_case c, const std::string& signature, const crew& who, double deadline)
      : plan_(p), best_(std::move(c)), signature_(signature), who_(who), deadline_(deadline) {}

  test_case run() {
    while (monotonic_seconds() < deadline_ && round()) {
    }
    return best_;
  }

private:
  // One attempt at everything. \return whether anything became smaller.
  bool round() {
    bool any = false;
    any |= change([](test_case& c) { c.world.faults = {}; });
    any |= change([](test_case& c) { c.world.network = {}; });
    any |= change([](test_case& c) { c.world.faults.delay = 0; });
    any |= change([](test_case& c) { c.world.faults.reorder = 0; });
    any |= change([](test_case& c) { c.world.faults.slow.clear(); });
    any |= change([](test_case& c) { c.world.faults.pause.clear(); });
    any |= change([](test_case& c) { c.world.faults.crash.clear(); });
    any |= change([](test_case& c) {
      if (!c.world.faults.pause.empty()) c.world.faults.pause.pop_back();
    });
    any |= change([](test_case& c) { c.world.preempt = sim::world().preempt; });
    any |= lower_one([](test_case& c) -> int& { return c.world.ranks; }, plan_.ranks.least);
    any |= lower_one([](test_case& c) -> int& { return c.world.workers; }, plan_.workers.least);
    if (plan_.room.least == 0) any |= change([](test_case& c) { c.world.slots = 0; });
    for (const auto& knob : plan_.knobs)
      any |= lower_one([&knob](test_case& c) -> std::int64_t& { return c.knobs.at(knob.first); }, knob.second.least);
    return any;
  }

  template <class Get> bool lower_one(Get get, std::int64_t least) {
    bool any = false;
    for (bool lowered = true; lowered;) {
      lowered = false;
      for (const std::int64_t value : lower(get(best_), least)) {
        lowered = change([&](test_case& c) { get(c) = static_cast<std::remove_reference_t<decltype(get(c))>>(value); });
        if (lowered) break;
      }
      any = any || lowered;
    }
    return any;
  }

  template <class Change> bool change(Change make) {
    test_case smaller = best_;
    make(smaller);
    if (to_string(smaller) == to_string(best_) || monotonic_seconds() > deadline_) return false;
    try {
      check(smaller.world);
    } catch (const error&) {
      return false;
    }
    const std::uint64_t seed = best_.world.seed;
    const auto with_seed = [&](std::uint64_t i) {
      test_case c = smaller;
      c.world.seed = i == 0 ? seed : i;
      return c;
    };
    const tally t = run_cases(plan_, tries, with_seed, who_, deadline_,
                              [&](const verdict& v) { return v.signature() == signature_; });
    if (!t.failed_at) return false;
    best_ = with_seed(*t.failed_at);
    return true;
  }

  const plan& plan_;
  test_case best_;
  const std::string& signature_;
  const crew& who_;
  const double deadline_;
};

} // namespace

test_case shrink(const plan& p, test_case c, const std::string& signature, const crew& who, double deadline) {
  return shrinker(p, std::move(c), signature, who, deadline).run();
}

} // namespace tern::property
