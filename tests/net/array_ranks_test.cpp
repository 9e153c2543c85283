// SPDX-License-Identifier: Apache-2.0
// Arrays in messages, of every size and from everywhere: in the program tern_messages_ranks_test.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tern/net/collectives.hpp>
#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>
#include <tern/task/semaphore.hpp>

#include "rank_test.hpp"
#include "support/messages.hpp"

namespace messages_test {

// Arrays --------------------------------------------------------------------------------------------------------------

template <class T, auto F> void try_sizes() {
  std::vector<std::size_t> sizes{0,    1,    3 * sizeof(T), 400,  480,  496,  512,   528,   4048,  4064,
                                 4080, 4096, 8144,          8176, 8192, 8208, 16368, 16384, 16400, 65536};
  if (std::is_same_v<T, double>) sizes.push_back(size() > 4 ? 256 << 10 : 3 << 20);
  std::uint64_t salt = static_cast<std::uint64_t>(rank());
  for (const std::size_t bytes : sizes)
    for (const int to : destinations()) {
      const std::size_t n = (bytes + sizeof(T) - 1) / sizeof(T);
      const auto all = static_cast<std::int64_t>(n);
      auto v = made<T>(++salt, n);
      const auto same = v;
      TERN_EXPECT_EQ((call<F>(to, salt, v).get()), all);
      TERN_EXPECT_EQ((call<F>(to, salt, std::span<const T>(same)).get()), all);
      TERN_EXPECT_EQ((call<F>(to, salt, lend(v)).get()), all);
      TERN_EXPECT(v == same);
      TERN_EXPECT_EQ((call<F>(to, salt, buffer<T>::copy_of(v)).get()), all);
      TERN_EXPECT_EQ((call<F>(to, salt, buffer<T>(std::vector<T>(v))).get()), all);
      TERN_EXPECT_EQ((call<F>(to, salt, std::move(v)).get()), all);
    }
}
TERN_RANK_TEST(handlers_see_arrays_of_every_size) {
  try_sizes<double, &look<double>>();
  try_sizes<std::uint8_t, &look<std::uint8_t>>();
  try_sizes<wide, &look<wide>>();
}
TERN_RANK_TEST(handlers_are_given_arrays_of_every_size) {
  try_sizes<double, &take<double>>();
  try_sizes<std::uint16_t, &take<std::uint16_t>>();
  try_sizes<wide, &take<wide>>();
}

template <std::size_t N> void try_array(int to) {
  std::array<double, N> a;
  for (std::size_t i = 0; i < N; ++i) a[i] = element<double>(N, i);
  TERN_EXPECT_EQ(call<&look<double>>(to, N, a).get(), static_cast<std::int64_t>(N));
  TERN_EXPECT_EQ(call<&take<double>>(to, N, a).get(), static_cast<std::int64_t>(N));
  TERN_EXPECT_EQ(call<&look<double>>(to, N, lend(a)).get(), static_cast<std::int64_t>(N));
}
TERN_RANK_TEST(arrays_and_other_elements_are_converted) {
  for (const int to : destinations()) {
    try_array<1>(to);
    try_array<63>(to);
    try_array<1000>(to);
    try_array<3000>(to);
    for (const std::size_t n : {0u, 1u, 50u, 1000u, 5000u}) {
      const auto all = static_cast<std::int64_t>(n);
      const auto floats = made<float>(n, n);
      const auto ints = made<int>(n, n);
      const std::list<int> listed(ints.begin(), ints.end());
      TERN_EXPECT_EQ(call<&look<double>>(to, n, floats).get(), all);
      TERN_EXPECT_EQ(call<&take<double>>(to, n, std::span(ints)).get(), all);
      TERN_EXPECT_EQ(call<&look<double>>(to, n, std::vector<int>(ints)).get(), all);
      TERN_EXPECT_EQ(call<&take<double>>(to, n, listed).get(), all);
    }
  }
}

using words = std::map<int, std::string>;
words many_words(std::size_t bytes) {
  words all;
  for (int i = 0; all.size() * 120 < bytes; ++i) all[i] = std::string(100, static_cast<char>('a' + i % 26));
  return all;
}
std::int64_t look_words(const words& w) {
  for (const auto& [i, text] : w)
    if (text != std::string(100, static_cast<char>('a' + i % 26))) return -1;
  return static_cast<std::int64_t>(w.size());
}
std::int64_t several(std::span<const double> a, const std::string& text, buffer<std::uint8_t> b,
                     std::span<const wide> c, const words& w) {
  const std::int64_t parts[]{look<double>(1, a), static_cast<std::int64_t>(text.size()),
                             look<std::uint8_t>(2, std::span<const std::uint8_t>(b)), look<wide>(3, c), look_words(w)};
  std::int64_t sum = 0;
  for (const std::int64_t p : parts) {
    if (p < 0) return p;
    sum += p;
  }
  return sum;
}
TERN_RANK_TEST(several_arrays_travel_beside_other_arguments) {
  const std::size_t large = size() > 4 ? 60'000 : 200'000;
  for (const int to : destinations())
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{3000}, large}) { // large: the arguments fill no head
      const words w = many_words(bytes);
      for (const auto& [x, y, z] :
           {std::array{0, 0, 0}, std::array{1, 1, 1}, std::array{5, 3, 7}, std::array{100, 77, 30},
            std::array{3000, 5, 5}, std::array{5, 20001, 5}, std::array{3000, 20001, 2000}, std::array{0, 0, 2000},
            std::array{9000, 40000, 0}}) {
        const auto nx = static_cast<std::size_t>(x), ny = static_cast<std::size_t>(y), nz = static_cast<std::size_t>(z);
        const auto a = made<double>(1, nx);
        const auto b = made<std::uint8_t>(2, ny);
        const auto c = made<wide>(3, nz);
        const std::string text(ny % 7, 'x'); // so that what follows stands at odd places
        const auto all = static_cast<std::int64_t>(nx + ny + nz + text.size() + w.size());
        TERN_EXPECT_EQ(call<&several>(to, a, text, b, c, w).get(), all);
        TERN_EXPECT_EQ(call<&several>(to, lend(a), text, lend(b), lend(c), w).get(), all);
        TERN_EXPECT_EQ(call<&several>(to, a, text, buffer<std::uint8_t>::copy_of(b), lend(c), w).get(), all);
        TERN_EXPECT_EQ(call<&several>(to, std::vector(a), text, std::vector(b), std::vector(c), w).get(), all);
      }
    }
}

std::vector<double> large_result(std::uint64_t salt, std::uint64_t n) { return made<double>(salt, n); }
TERN_RANK_TEST(results_may_be_large) {
  for (const int to : destinations())
    for (const std::size_t n : {0u, 60u, 64u, 500u, 512u, 1024u, 2048u, 8192u, size() > 4 ? 20'000u : 400'000u}) {
      const auto answer = call<&large_result>(to, n, n).get();
      TERN_EXPECT_EQ(look<double>(n, answer), static_cast<std::int64_t>(n));
    }
  std::vector<tern::future<std::vector<double>>> open; // together they are more than fits anywhere
  for (int i = 0; i < some(100); ++i) open.push_back(call<&large_result>(next_rank(), i, 5000));
  for (std::size_t i = 0; i < open.size(); ++i) TERN_EXPECT_EQ(look<double>(i, open[i].get()), 5000);
}

// Sharing -------------------------------------------------------------------------------------------------------------

std::int64_t keep(std::uint64_t salt, const shared_buffer<double>& b) {
  return look<double>(salt, std::span<const double>(b));
}
std::int64_t keep_wide(std::uint64_t salt, shared_buffer<wide> b) { return look<wide>(salt, std::span<const wide>(b)); }
TERN_RANK_TEST(handlers_share_arrays_of_every_size) {
  try_sizes<double, &keep>();
  try_sizes<wide, &keep_wide>();
}

TERN_RANK_TEST(a_shared_buffer_suits_each_parameter_that_takes_a_range) {
  for (const int to : destinations())
    for (const std::size_t n : {0u, 1u, 100u, 2048u, 10'000u}) {
      const shared_buffer shared(made<double>(n, n));
      const auto all = static_cast<std::int64_t>(n);
      std::vector<tern::future<std::int64_t>> answers;
      for (int i = 0; i < 3; ++i) {
        answers.push_back(call<&keep>(to, n, shared));
        answers.push_back(call<&look<double>>(to, n, shared));
        answers.push_back(call<&take<double>>(to, n, shared));
        answers.push_back(call<&keep>(to, n, shared_buffer(shared)));
        answers.push_back(call<&keep>(to, n, shared_buffer<float>(made<float>(n, n))));
      }
      for (auto& one : answers) TERN_EXPECT_EQ(one.get(), all);
      TERN_EXPECT_EQ(look<double>(n, shared), all);
    }
}

// Lending -------------------------------------------------------------------------------------------------------------

std::int64_t look_late(std::uint64_t salt, std::span<const double> v) {
  for (int i = 0; i < 10; ++i) tern::this_fiber::yield();
  return look<double>(salt, v);
}
std::int64_t look_late_with_words(std::uint64_t salt, std::span<const double> v, const words& w) {
  tern::this_fiber::yield();
  return look_words(w) < 0 ? -3 : look<double>(salt, v);
}
TERN_RANK_TEST(lent_memory_is_free_when_send_returns) {
  const words w = many_words(40'000);
  const auto lender = [&w](std::uint64_t salt) {
    for (const std::size_t n : {1u, 100u, 2047u, 2048u, 10'000u, size() > 4 ? 20'000u : 150'000u})
      for (const int to : destinations()) {
        auto v = made<double>(salt, n);
        auto first = call<&look_late>(to, salt, lend(v));
        for (double& x : v) x = -1; // the handler may run still: not with this memory
        TERN_EXPECT_EQ(first.get(), static_cast<std::int64_t>(n));
        v = made<double>(salt, n);
        auto second = call<&look_late_with_words>(to, salt, lend(v), w);
        v = {};
        TERN_EXPECT_EQ(second.get(), static_cast<std::int64_t>(n));
      }
  };
  std::vector<tern::future<void>> fibers;
  for (std::uint64_t f = 1; f < 4; ++f) fibers.push_back(tern::async([&lender, f] { lender(f); }));
  lender(0);
  for (auto& f : fibers) f.get();
}

struct liar { // serializes differently the second time
  mutable int visits = 0;
  template <class A> void serialize(A& ar) {
    ar(visits);
    if (visits++ == 0) ar(visits);
  }
};
int with_liar(std::span<const double>, const liar&) { return 0; }
TERN_RANK_TEST(lent_memory_comes_back_when_sending_fails) {
  const auto v = made<double>(1, 10'000);
  for (int i = 0; i < 3; ++i) {
    TERN_EXPECT_ERROR(call<&with_liar>(0, lend(v), liar{}), tern::errc::invalid_data, "");
    TERN_EXPECT_ERROR(call<&look<double>>(size(), 1, lend(v)), tern::errc::invalid_argument, "there is no rank");
  }
}

} // namespace messages_test
