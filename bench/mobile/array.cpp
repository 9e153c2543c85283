// SPDX-License-Identifier: Apache-2.0
/// \file
/// Arrays of objects.

#include <malloc.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <tern/mobile/array.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>

#include "bench/mobile/contestant.hpp"
#include "bench/mobile/measures.hpp"

namespace tern::bench::mobile {
namespace {

class sample {
public:
  sample() = default;
  explicit sample(const indices<1>& at) : value_(static_cast<double>(at[0] % 7)) {}
  void add(double x) { value_ += x; }
  double value() const { return value_; }
  template <class A> void serialize(A& ar) { ar(value_); }

private:
  double value_ = 0;
};
using samples = mobile_array<sample>;

samples make(std::size_t n) {
  samples all;
  if (rank() == 0) all = samples({static_cast<std::int64_t>(n)});
  return tern::broadcast(all);
}
void end(const samples& all) {
  barrier();
  if (rank() == 0) destroy(all).get();
  barrier();
}
/// Those that were born here.
std::vector<mobile_ptr<sample>> own(const samples& all) {
  std::vector<mobile_ptr<sample>> mine;
  for (std::int64_t i = 0; i < all.size()[0]; ++i)
    if (all(i).home() == rank()) mine.push_back(all(i));
  return mine;
}
double middle(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

/// Nanoseconds for each of the elements, by rounds of `body` that all ranks do together.
template <class Body> double rounds_of(std::size_t elements, long rounds, Body body) {
  std::vector<double> each;
  for (long i = 0; i < rounds; ++i) {
    barrier();
    const double began = seconds();
    body();
    each.push_back(1e9 * (seconds() - began) / static_cast<double>(elements));
  }
  return middle(std::move(each));
}

} // namespace

nlohmann::json element(double most) {
  constexpr std::int64_t many = 1024, burst = 64; // until the sender lets others run
  const samples all({many});
  std::vector<mobile_ptr<sample>> held;
  for (std::int64_t i = 0; i < many; ++i) held.push_back(all(i));
  const auto stream = [&](double limit, auto name) {
    return 1e9 * per_item(limit, 1e-3, burst, [&](long n) {
             return timed(1, [&](long) {
               for (long i = 0; i < n; ++i) {
                 send<&sample::add>(name(i % many), 1.0);
                 if (i % burst == burst - 1) this_fiber::yield();
               }
               call<&sample::value>(held.front()).get();
             });
           });
  };
  std::vector<double> named, pointed;
  const int turns = 10;
  for (int i = 0; i < turns; ++i) {
    pointed.push_back(stream(most / turns / 2, [&](long n) { return held[static_cast<std::size_t>(n)]; }));
    named.push_back(stream(most / turns / 2, [&](long n) { return all(n); }));
  }
  destroy(all).get();
  return {{"element", middle(named)}, {"pointer", middle(pointed)}};
}

nlohmann::json array(std::size_t n, long rounds) {
  const samples all = make(n);
  const auto mine = own(all);
  nlohmann::json found;
  // In turn, so that both see the same machine.
  std::vector<double> broadcast, loop, reduction, held;
  double sum = 0, held_sum = 0;
  for (int turn = 0; turn < 5; ++turn) {
    broadcast.push_back(rounds_of(n, rounds, [&] {
      if (rank() == 0) send<&sample::add>(all, 1.0);
      quiesce();
    }));
    loop.push_back(rounds_of(n, rounds, [&] {
      long sent = 0;
      for (const auto& one : mine) {
        send<&sample::add>(one, -1.0);
        if (++sent % 64 == 0) this_fiber::yield();
      }
      quiesce();
    }));
    reduction.push_back(rounds_of(n, rounds, [&] {
      if (rank() == 0) sum = reduce<&sample::value>(all, std::plus<>()).get();
      barrier();
    }));
    held.push_back(rounds_of(n, rounds, [&] {
      double part = 0;
      for (const auto& one : mine) part += hold_shared(one)->value();
      held_sum = allreduce(part, std::plus<>());
    }));
  }
  double expected = 0;
  for (std::size_t i = 0; i < n; ++i) expected += static_cast<double>(i % 7);
  check(rank() != 0 || (sum == expected && held_sum == expected), "a reduction");
  end(all);
  return {
      {"broadcast", middle(broadcast)}, {"loop", middle(loop)}, {"reduce", middle(reduction)}, {"hold", middle(held)}};
}

nlohmann::json arrays(std::size_t n, long rounds) {
  std::array<double, 4> taken{};
  const auto live = [&] {
    barrier();
    std::array<double, 5> at{};
    at[0] = seconds();
    const samples all = make(n);
    at[1] = seconds();
    if (rank() == 0) send<&sample::add>(all, 1.0);
    quiesce();
    at[2] = seconds();
    if (rank() == 0) check(reduce<&sample::value>(all, std::plus<>()).get() >= static_cast<double>(n), "a reduction");
    barrier();
    at[3] = seconds();
    end(all);
    at[4] = seconds();
    for (std::size_t i = 0; i < taken.size(); ++i) taken[i] += at[i + 1] - at[i];
  };
  for (long i = 0; i < rounds; ++i) live(); // warm-up
  taken = {};
  for (long i = 0; i < rounds; ++i) live();
  const double each = 1e9 / static_cast<double>(n) / static_cast<double>(rounds);
  return {{"create", taken[0] * each},
          {"broadcast", taken[1] * each},
          {"reduce", taken[2] * each},
          {"destroy", taken[3] * each},
          {"all", (taken[0] + taken[1] + taken[2] + taken[3]) * each}};
}

nlohmann::json array_memory(std::size_t n) {
  const auto allocated = [] {
    const auto m = mallinfo2();
    return static_cast<double>(m.uordblks + m.hblkhd);
  };
  destroy(samples({1})).get(); // what is made once
  const double before = allocated();
  const samples all({static_cast<std::int64_t>(n)});
  const double after = allocated();
  return {{"bytes", (after - before) / static_cast<double>(n) - sizeof(sample)}};
}

} // namespace tern::bench::mobile
