// SPDX-License-Identifier: Apache-2.0
/// \file
/// Functions over several objects.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tern/mobile/together.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>
#include <tern/net/simulate.hpp>
#include <tern/task/fiber.hpp>

#include "bench/mobile/contestant.hpp"
#include "bench/mobile/measures.hpp"

namespace tern::bench::mobile {
namespace {

constexpr long at_once = 64; // until the caller lets others run

class neighbour {
public:
  void nothing() {}
  void count() { ++met_; }
  long met() const { return met_; }
  template <class A> void serialize(A& ar) { ar(met_); }

private:
  long met_ = 0;
};
using neighbours = std::vector<mobile_ptr<neighbour>>;

void meet(neighbour& main, std::span<neighbour* const>) { main.count(); }

double middle_of(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

neighbours make_neighbours(std::size_t k) {
  neighbours all;
  for (std::size_t i = 0; i < k; ++i) all.push_back(create<neighbour>());
  return all;
}

/// Messages of a rank alone that meets so often.
std::uint64_t messages_of(std::size_t k, int times) {
  const auto result = sim::run(sim::parse_world("ranks=1,jitter=0"), [&] {
    const neighbours all = make_neighbours(k);
    for (int i = 0; i < times; ++i) call_together<&meet>(all[0], std::span(all).subspan(1)).get();
    return 0;
  });
  return result.messages;
}

} // namespace

// Each set is free when its turn comes.
nlohmann::json together(std::size_t k, double most) {
  std::vector<neighbours> sets;
  for (long i = 0; i < at_once; ++i) sets.push_back(make_neighbours(k));
  const auto stream = [&](double limit, long burst, auto one) {
    return 1e9 * per_item(limit, 1e-3, at_once, [&](long n) {
             return timed(1, [&](long) {
               for (long i = 0; i < n; ++i) {
                 one(sets[static_cast<std::size_t>(i % at_once)]);
                 if (i % burst == burst - 1) this_fiber::yield();
               }
               for (const neighbours& all : sets) call<&neighbour::met>(all[0]).get();
             });
           });
  };
  std::vector<double> ours, loop;
  const int turns = 10;
  const long fewer = std::max<long>(1, at_once / (3 * static_cast<long>(k))); // as many invocations for each yield
  for (int i = 0; i < turns; ++i) {
    loop.push_back(stream(most / turns / 2, fewer, [](const neighbours& all) {
      for (int part = 0; part < 3; ++part)
        for (const auto& p : all) send<&neighbour::nothing>(p);
    }));
    ours.push_back(stream(most / turns / 2, at_once, [](const neighbours& all) {
      static_cast<void>(call_together<&meet>(all[0], std::span(all).subspan(1)));
    }));
  }
  for (const neighbours& all : sets) {
    check(call<&neighbour::met>(all[0]).get() > 0, "functions over several objects");
    for (const auto& p : all) destroy(p).get();
  }
  return {{"together", middle_of(ours)}, {"loop", middle_of(loop)}};
}

nlohmann::json together_messages(std::size_t k) {
  return {{"messages", static_cast<double>(messages_of(k, 101) - messages_of(k, 1)) / 100}};
}

// The other one is back on rank 1 before each time.
nlohmann::json together_remote(long rounds) {
  mobile_ptr<neighbour> main, other;
  if (rank() == 0) {
    main = create<neighbour>();
    other = create_on<neighbour>(1).get();
  }
  const auto each = [&](auto once) {
    std::vector<double> taken;
    for (long i = 0; i < rounds; ++i) {
      const double began = seconds();
      once();
      taken.push_back(1e6 * (seconds() - began));
      check(is_here(other), "an object that has come");
      migrate(other, 1).get();
    }
    return middle_of(std::move(taken));
  };
  nlohmann::json found;
  if (rank() == 0) {
    std::vector<double> ours, by_hand;
    for (int turn = 0; turn < 5; ++turn) {
      ours.push_back(each([&] { call_together<&meet>(main, {other}).get(); }));
      by_hand.push_back(each([&] {
        call<&neighbour::nothing>(other).get(); // so that it is done with what it had to do
        migrate(other, 0).get();
        call<&neighbour::count>(main).get();
      }));
    }
    found = {{"together", middle_of(ours)}, {"hand", middle_of(by_hand)}};
    destroy(main).get();
    destroy(other).get();
  }
  barrier();
  return found;
}

} // namespace tern::bench::mobile
