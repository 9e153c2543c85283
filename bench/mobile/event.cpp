// SPDX-License-Identifier: Apache-2.0
/// \file
/// Events of objects that are here.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <tern/mobile/event.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>

#include "bench/mobile/contestant.hpp"
#include "bench/mobile/measures.hpp"

namespace tern::bench::mobile {
namespace {

constexpr std::int64_t neighbours = 26; // of a block in three dimensions

class waiting_block {
public:
  event arm() { return ready_ = make_event<&waiting_block::go>(self<waiting_block>(), neighbours); }
  void go() {
    ++fired_;
    ready_ = rearm(ready_);
  }
  void note() { ++noted_; }
  std::int64_t fired() const { return fired_; }
  std::int64_t noted() const { return noted_; }

private:
  event ready_;
  std::int64_t fired_ = 0, noted_ = 0;
};

double median_of(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

} // namespace

nlohmann::json events(double most) {
  constexpr long blocks = 64;
  std::vector<mobile_ptr<waiting_block>> all;
  std::vector<event> ready;
  for (long i = 0; i < blocks; ++i) {
    all.push_back(create<waiting_block>());
    ready.push_back(call<&waiting_block::arm>(all.back()).get());
  }
  // A round: each block hears from all of its neighbours.
  long rounds_signalled = 0, rounds_sent = 0;
  const auto time_of = [&](double limit, long& count, auto round) {
    return 1e9 / neighbours * per_item(limit, 1e-3, blocks, [&](long n) {
             return timed(1, [&](long) {
               for (long i = 0; i < n; ++i) {
                 round(static_cast<std::size_t>(i % blocks));
                 ++count;
                 if (i % 2 == 1) this_fiber::yield();
               }
               for (const auto& b : all) static_cast<void>(call<&waiting_block::fired>(b).get());
             });
           });
  };
  std::vector<double> signals, invocations;
  constexpr int turns = 10;
  for (int turn = 0; turn < turns; ++turn) {
    invocations.push_back(time_of(most / turns / 2, rounds_sent, [&](std::size_t b) {
      for (std::int64_t i = 0; i < neighbours; ++i) send<&waiting_block::note>(all[b]);
    }));
    signals.push_back(time_of(most / turns / 2, rounds_signalled, [&](std::size_t b) {
      for (std::int64_t i = 0; i < neighbours; ++i) signal(ready[b], i);
      ready[b] = ready[b].next_round();
    }));
  }
  std::int64_t fired = 0, noted = 0;
  for (const auto& b : all) {
    fired += call<&waiting_block::fired>(b).get();
    noted += call<&waiting_block::noted>(b).get();
    destroy(b).get();
  }
  check(fired == rounds_signalled && noted == neighbours * rounds_sent, "an event");
  return {{"signal", median_of(signals)}, {"invocation", median_of(invocations)}};
}

} // namespace tern::bench::mobile
