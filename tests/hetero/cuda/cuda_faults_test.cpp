// SPDX-License-Identifier: Apache-2.0
// Random tasks on CUDA devices that fail at some moment: what can be read afterwards without an
// error is what the tasks give one after the other, everything ends, and the driver is used as it
// should be.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/cuda.hpp"
#include "tests/hetero/support/graph_kernels.hpp"
#include "tests/hetero/support/tasks.hpp"
#include "tests/task/support/executors.hpp"
#include <tern/base/error.hpp>
#include <tern/hetero/recorded.hpp>

namespace tern::hetero {
namespace {

using object = hetero_object<unsigned, 2>;
using graph_kernels::stir;

constexpr int rows = 9, columns = 11;

struct array {
  object in{{rows, columns}, 7u};
  std::vector<unsigned> expected = std::vector<unsigned>(rows * columns, 7u);
};

class world {
public:
  explicit world(std::uint64_t seed) : generator_(seed), arrays_(static_cast<std::size_t>(2 + pick(3))) {}

  void step() {
    array& y = some();
    const unsigned a = static_cast<unsigned>(generator_());
    switch (pick(9)) {
    case 0:
      submit(graph_kernels::fill, items(columns, rows), columns, rows, a, pitch(y.in), write(y.in));
      for_each(y, [a](unsigned&, int r, int c) { return stir(a, static_cast<unsigned>(r * 1000 + c)); });
      return;
    case 1:
    case 2:
      return mix(some(), y, a);
    case 3:
      submit(
          [a](host_view<unsigned, 2> v) {
            for (int r = 0; r < rows; ++r)
              for (int c = 0; c < columns; ++c) v(r, c) ^= a;
          },
          read_write(y.in));
      for_each(y, [a](unsigned& v, int, int) { return v ^ a; });
      return;
    case 4: {
      recorded_.submit([&] {
        add(y, a);
        add(y, a + 1);
      });
      return;
    }
    case 5:
      return compare(y);
    case 6:
      y.in.prefetch("cuda0");
      return;
    default:
      add(y, a);
    }
  }
  void end() {
    try {
      wait_all();
    } catch (const error& e) {
      told(e);
    }
    for (array& a : arrays_) compare(a);
  }
  int failures() const noexcept { return failures_; }

private:
  int pick(int n) { return static_cast<int>(generator_() % static_cast<unsigned>(n)); }
  array& some() { return arrays_[static_cast<std::size_t>(pick(static_cast<int>(arrays_.size())))]; }
  template <class F> void for_each(array& a, F&& f) {
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < columns; ++c) {
        unsigned& v = a.expected[static_cast<std::size_t>(r * columns + c)];
        v = f(v, r, c);
      }
  }
  void add(array& y, unsigned a) {
    submit(graph_kernels::add, items(columns, rows), columns, rows, a, pitch(y.in), read_write(y.in));
    for_each(y, [a](unsigned& v, int r, int c) { return v + a * static_cast<unsigned>(c + 3 * r + 1); });
  }
  void mix(array& x, array& y, unsigned a) {
    if (&x == &y) return;
    submit(graph_kernels::mix, items(columns, rows), columns, rows, a, pitch(x.in), read(x.in), pitch(y.in),
           read_write(y.in));
    for_each(y, [&](unsigned& v, int r, int c) {
      return stir(v, x.expected[static_cast<std::size_t>(r * columns + c)] + a);
    });
  }
  void compare(array& a) {
    try {
      const auto now = a.in.host(access_mode::read).get();
      for (int r = 0; r < rows; ++r)
        for (int c = 0; c < columns; ++c)
          ASSERT_EQ(now(r, c), a.expected[static_cast<std::size_t>(r * columns + c)]) << r << ", " << c;
    } catch (const error& e) {
      told(e);
    }
  }
  // Where the driver failed can be seen in each error that follows from it.
  void told(const error& e) {
    ++failures_;
    EXPECT_THAT(e.what(), testing::AnyOf(testing::HasSubstr("CUDA_ERROR"), testing::HasSubstr("lost")));
  }

  std::mt19937_64 generator_;
  std::vector<array> arrays_;
  recorded recorded_{"two steps"};
  int failures_ = 0;
};

std::string fault(std::uint64_t seed) {
  const char* const all[] = {"fail-alloc=", "fail-copy=", "fail-launch=", "fault-kernel=", "lose=", "fail-context"};
  const std::string what = all[seed % 6];
  return what.back() == '=' ? what + std::to_string(1 + seed / 6 % (what == "fail-alloc=" ? 3 : 25)) : what;
}

TEST(cuda_faults, leave_what_is_right_or_an_error) {
  const std::uint64_t seeds = test_support::seeds_of_devices();
  const char* const without[] = {"", "no-pool", "one-stream", "no-graphs"};
  int failed = 0;
  for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + fault(seed));
    const mock_cuda driver("devices=" + std::to_string(1 + seed % 2) + ",seed=" + std::to_string(seed) + "," +
                           fault(seed));
    machine m{.workers = 1 + static_cast<int>(seed % 3), .devices = seed % 4 == 0 ? "host,cuda" : "cuda", .cuda = true};
    m.threads = seed / 2 % 2 == 1;
    m.without = without[seed / 3 % 4];
    m.policy = seed % 5 == 0 ? "round-robin" : "locality";
    on(m, [&] {
      world w(seed);
      std::mt19937_64 dice(seed);
      for (int n = 5 + static_cast<int>(dice() % 40); n > 0 && !HasFailure(); --n) w.step();
      w.end();
      failed += w.failures() > 0;
    });
  }
  EXPECT_GT(failed, static_cast<int>(seeds / 4)); // else little has been tested
}

} // namespace
} // namespace tern::hetero
