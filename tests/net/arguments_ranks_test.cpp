// SPDX-License-Identifier: Apache-2.0
/// \file
/// What handlers and their arguments may be: lambdas, aggregates, numbers of other types.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tern/net/buffer.hpp>
#include <tern/net/call_options.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/message.hpp>
#include <tern/net/multicast.hpp>
#include <tern/net/remote_promise.hpp>
#include <tern/net/runtime.hpp>

#include "rank_test.hpp"

namespace arguments_test {

using tern::call;
using tern::errc;
using tern::rank;
using tern::send;
using tern::size;

int next() { return (rank() + 1) % size(); }

struct point {
  double x, y;
  bool operator==(const point&) const = default;
};
struct particle {
  double position[3];
  std::vector<point> track;
  std::string name;
  bool alive;
};

particle moved(particle p, double by) {
  for (double& x : p.position) x += by;
  for (point& q : p.track) q.y += by;
  p.name += " moved";
  p.alive = !p.alive;
  return p;
}
point swapped(point p) { return {p.y, p.x}; }
double sum_of(std::span<const point> all) {
  double s = 0;
  for (const point& p : all) s += p.x + p.y;
  return s;
}
std::vector<point> doubled(tern::buffer<point> all) {
  for (point& p : all) p = {2 * p.x, 2 * p.y};
  return {all.begin(), all.end()};
}

TERN_RANK_TEST(aggregates_are_arguments_and_results) {
  TERN_EXPECT(call<&swapped>(next(), point{1, 2}).get() == (point{2, 1}));
  const particle p = call<&moved>(next(), particle{{1, 2, 3}, {{4, 5}, {6, 7}}, "muon", true}, 0.5).get();
  TERN_EXPECT(p.position[0] == 1.5 && p.position[2] == 3.5);
  TERN_EXPECT(p.track.size() == 2 && p.track[1] == (point{6, 7.5}));
  TERN_EXPECT_EQ(p.name, "muon moved");
  TERN_EXPECT(!p.alive);
}

TERN_RANK_TEST(ranges_of_aggregates_are_arguments) {
  for (const std::size_t n : {std::size_t{3}, std::size_t{5000}}) { // as a part of the message and as its body
    std::vector<point> all(n, point{1, 2});
    TERN_EXPECT_EQ(call<&sum_of>(next(), all).get(), 3.0 * static_cast<double>(n));
    const auto twice = call<&doubled>(next(), std::move(all)).get();
    TERN_EXPECT_EQ(twice.size(), n);
    TERN_EXPECT(twice[n - 1] == (point{2, 4}));
  }
}

TERN_RANK_TEST(aggregates_go_through_collectives) {
  const auto sum = tern::allreduce(point{1, static_cast<double>(rank())}, [](point a, point b) {
    return point{a.x + b.x, a.y + b.y};
  });
  TERN_EXPECT(sum == (point{static_cast<double>(size()), size() * (size() - 1) / 2.0}));
  const auto all = tern::broadcast(particle{{1, 2, 3}, {{4, 5}}, "pion", true}, size() - 1);
  TERN_EXPECT_EQ(all.name, "pion");
}

const tern::rank_local<std::atomic<long>> noted; // a rank may have several workers

TERN_RANK_TEST(lambdas_without_captures_are_handlers) {
  TERN_EXPECT_EQ(call<[](int x, const std::string& s) { return std::to_string(x) + s; }>(next(), 3, "a").get(), "3a");
  const long before = *noted;
  tern::barrier(); // before the first is sent
  send<[](long x) { *noted += x; }>(next(), 5);
  send<[](long x) { *noted -= 2 * x; }>(next(), 1); // another one of the same type
  tern::multicast<[](int x) { *noted += x; }>(tern::all_ranks, 10);
  tern::quiesce();
  TERN_EXPECT_EQ(*noted - before, 3 + 10L * size());
  // One with a name.
  constexpr auto square = [](double x) { return x * x; };
  TERN_EXPECT_EQ(call<square>(next(), 3).get(), 9.0);
  TERN_EXPECT_EQ(call<square>({.timeout = std::chrono::hours(1)}, next(), 4.0F).get(), 16.0);
}

double add(double x, int n) { return x + n; }
std::size_t as_size(std::size_t n) { return n; }
unsigned char as_byte(unsigned char n) { return n; }
float as_float(float x) { return x; }
long sum_ints(std::span<const int> all) {
  long s = 0;
  for (const int x : all) s += x;
  return s;
}
int count_ints(const std::vector<short>& all) { return static_cast<int>(all.size()); }

TERN_RANK_TEST(numbers_become_their_parameters_types) {
  TERN_EXPECT_EQ(call<&add>(next(), 1, 3L).get(), 4.0);
  TERN_EXPECT_EQ(call<&add>(next(), 1.5F, 'a').get(), 98.5);
  TERN_EXPECT_EQ(call<&as_size>(next(), 3).get(), 3U);
  TERN_EXPECT_EQ(call<&as_byte>(next(), 255).get(), 255);
  TERN_EXPECT_EQ(call<&as_float>(next(), 0.5).get(), 0.5F);
  TERN_EXPECT_EQ(call<&sum_ints>(next(), std::vector<long>{1, 2, 3}).get(), 6);
  TERN_EXPECT_EQ(call<&count_ints>(next(), std::vector<int>{1, 2, 3}).get(), 3);
}

TERN_RANK_TEST(numbers_that_do_not_fit_are_errors) {
  const std::string cannot = ", which its parameter, ";
  TERN_EXPECT_ERROR(call<&add>(next(), 1, 3'000'000'000L), errc::invalid_argument,
                    "argument 2 of 'arguments_test::add' is 3000000000" + cannot + "int, cannot hold");
  TERN_EXPECT_ERROR(send<&as_size>(next(), -1), errc::invalid_argument,
                    "argument 1 of 'arguments_test::as_size' is -1");
  TERN_EXPECT_ERROR(call<&as_byte>(next(), 256), errc::invalid_argument, "is 256" + cannot + "unsigned char");
  TERN_EXPECT_ERROR(call<&as_float>(next(), 1e300), errc::invalid_argument, "is 1e+300" + cannot + "float");
  TERN_EXPECT_ERROR(tern::multicast<&as_byte>(tern::all_ranks, -1), errc::invalid_argument, "is -1" + cannot);
  TERN_EXPECT_ERROR(call<&sum_ints>(next(), std::vector<long>{1, 1L << 40}), errc::invalid_argument,
                    "is 1099511627776" + cannot + "int");
  TERN_EXPECT_ERROR(call<&count_ints>(next(), std::vector<int>{1, -40000}), errc::invalid_argument,
                    "is -40000" + cannot + "short");
  tern::remote_promise<short> found;
  auto f = found.get_future();
  TERN_EXPECT_ERROR(found.set_value(1 << 20), errc::invalid_argument,
                    "argument 1 of tern::remote_promise::set_value is 1048576");
  found.set_value(7); // it can still be set
  TERN_EXPECT_EQ(f.get(), 7);
  TERN_EXPECT_EQ(call<&as_float>(next(), std::numeric_limits<double>::infinity()).get(),
                 std::numeric_limits<float>::infinity());
}

} // namespace arguments_test
