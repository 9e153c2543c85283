// SPDX-License-Identifier: Apache-2.0
/// \file
/// Fibers against Boost.Fiber, the standard library's threads and oneTBB's queue. Each contestant
/// is a child process of its own (shapes.hpp); what is compared is what those report.

#include "bench/harness/harness.hpp"
#include "bench/harness/runner.hpp"

#include <algorithm>
#include <csignal>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#ifndef BENCH_FIBER_TERN
#error "define BENCH_FIBER_TERN, _BOOST, _STD and _TBB as the paths of the contestants; empty: not built"
#endif

namespace {

using tern::bench::metric;
using tern::bench::contest::contestant;
using tern::bench::contest::request;
using tern::bench::contest::runners;

const contestant& contestant_named(const std::string& name) {
  static const std::vector<contestant> contestants{
      {"tern", BENCH_FIBER_TERN, "", ""},
      {"Boost.Fiber", BENCH_FIBER_BOOST, "libboost-fiber-dev", ""},
      {"std", BENCH_FIBER_STD, "", ""},
      {"TBB", BENCH_FIBER_TBB, "libtbb-dev", ""},
  };
  for (const contestant& s : contestants)
    if (s.name == name) return s;
  throw std::invalid_argument("no contestant is called " + name);
}

struct unit {
  std::string name;
  double factor; ///< from seconds
};
const unit ns{"ns", 1e9}, ms{"ms", 1e3}, s{"s", 1};

/// Rivals are all of one contestant, each with its own size: what they answer is for one operation.
/// `afresh`: each time with a new process.
struct comparison {
  std::string name;
  std::optional<double> target;
  unit in;
  request ours;
  std::vector<request> rivals;
  bool afresh = false;
};

/// "Boost.Fiber (wake, wake_shared)".
std::string describe(const std::vector<request>& rivals) {
  std::string all;
  for (const request& r : rivals) all += (all.empty() ? "" : ", ") + r.benchmark;
  return rivals.front().contestant + (rivals.size() > 1 ? ", faster of " + all : "");
}

/// Ours against the fastest of the rivals, all of them measured each time.
metric compare(runners& running, const comparison& c) {
  const auto measured = [c, &running](const request& q) {
    return (c.afresh ? running.run_afresh(q) : running.run(c.name, q)) * c.in.factor;
  };
  return {.name = c.name,
          .unit = c.in.name,
          .target = c.target,
          .rival_name = describe(c.rivals),
          .ours = [=] { return measured(c.ours); },
          .rival =
              [=] {
                double best = std::numeric_limits<double>::infinity();
                for (const request& q : c.rivals) best = std::min(best, measured(q));
                return best;
              }};
}

/// Ours against a fixed value.
metric limit(const std::string& name, const std::string& unit, double target, const std::string& rival, double value,
             std::function<double()> ours) {
  return {.name = name,
          .unit = unit,
          .target = target,
          .rival_name = rival,
          .ours = std::move(ours),
          .rival = tern::bench::budget(value)};
}

std::vector<metric> metrics(runners& running, const tern::bench::scale& of) {
  const auto n = [&](std::size_t usual) { return of(usual, std::min<std::size_t>(usual, 1280)); };
  const std::size_t million = n(1'000'000);
  const std::size_t fib = of(std::size_t{25}, std::size_t{10});
  const std::string boost = "Boost.Fiber";
  std::vector<metric> list;
  const auto add = [&](const comparison& c) { list.push_back(compare(running, c)); };

  const request create{"tern", "create", 1, n(200'000)};
  add({"fiber.create.boost",
       0.18,
       ns,
       create,
       {{boost, "create", 1, n(200'000)}, {boost, "create_post", 1, n(200'000)}}});
  add({"fiber.create.std", 0.01, ns, create, {{"std", "create", 1, n(3000)}}});
  add({"fiber.yield", 0.18, ns, {"tern", "yield", 1, million}, {{boost, "yield", 1, million}}});
  add({"fiber.yield_flags", 0.18, ns, {"tern", "yield_flags", 1, million}, {{boost, "yield_flags", 1, million}}});

  // Sleeping threads are woken fastest on the core of the waking thread; spinning threads need a
  // core each. Unbound, the system sometimes puts them on one core and sometimes on two.
  const request wake{"tern", "wake_apart", 2, n(50'000)};
  const std::vector<request> boosts{{boost, "wake_together", 2, n(4000)},
                                    {boost, "wake_shared_apart", 2, n(20'000)},
                                    {boost, "wake_stealing_apart", 2, n(20'000)}};
  // Afresh: threads can join work_stealing only once in a process.
  add({"fiber.wake.boost", 0.5, ns, wake, boosts, true});
  add({"fiber.wake.boost_busy", {}, ns, wake, {{boost, "wake_busy_apart", 2, n(50'000)}}});
  add({"fiber.wake.std", 0.3, ns, wake, {{"std", "wake", 2, n(4000)}, {"std", "wake_together", 2, n(4000)}}});

  add({"fiber.mutex", 0.5, ns, {"tern", "mutex", 2, n(640'000)}, {{"std", "mutex", 2, n(640'000)}}});
  add({"fiber.sleepers", 0.3, s, {"tern", "sleepers", 2, 1}, {{"std", "sleepers", 2, 1}}});
  // 500 of the 1000 handlers take 5 ms, on two workers.
  list.push_back(limit("fiber.computers", "s", 1.05, "ideal", 1.25, [&running] {
    return running.run("fiber.computers", {"tern", "computers", 2, 1});
  }));

  add({"fiber.million", 2, s, {"tern", "million", 1, million}, {{"std", "pages", 1, million}}, true});
  // Once is enough: it is the same each time, and no time is taken.
  list.push_back(limit("fiber.million_memory", "GiB", 1, "budget", 10, [=, &running] {
    return running.run_afresh({"tern", "million_memory", 1, million});
  }));
  list.back().once = true;

  const std::vector<request> queues{{"TBB", "channel", 2, n(4000)}, {"TBB", "channel_together", 2, n(4000)}};
  add({"fiber.channel", 0.5, ns, {"tern", "channel", 2, n(100'000)}, queues});
  add({"fiber.channel.pinned", {}, ns, {"tern", "channel_pinned", 2, n(50'000)}, queues});
  // Bound to cores they were no faster. One pair does all with half the threads.
  add({"fiber.channel_mpmc",
       1,
       ns,
       {"tern", "channel_mpmc", 2, n(400'000)},
       {{"TBB", "channel_mpmc", 2, n(400'000)}, {"TBB", "channel_one_pair", 2, n(400'000)}}});

  add({"fiber.fib", 0.3, ms, {"tern", "fib", 1, fib}, {{boost, "fib", 1, fib}, {boost, "fib_post", 1, fib}}});
  return list;
}

} // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN); // a contestant that has died is reported, not died of
  runners running(contestant_named);
  return tern::bench::run(argc, argv, [&](const tern::bench::scale& of) { return metrics(running, of); });
}
