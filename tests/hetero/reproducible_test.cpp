// SPDX-License-Identifier: Apache-2.0
// Floats on different devices. This file is compiled with -ffp-contract=off.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/hetero/support/cuda.hpp"
#include "tests/hetero/support/reproducible.hpp"
#include "tests/hetero/support/tasks.hpp"

namespace tern::hetero {
namespace {

constexpr int n = 5000;

struct numbers {
  std::vector<float> x, y, z;
  std::vector<double> dx, dy;
};
numbers made() {
  std::mt19937 dice(7);
  std::uniform_real_distribution<double> some(-2, 2);
  numbers m;
  for (int i = 0; i < n; ++i) {
    for (auto* v : {&m.x, &m.y, &m.z}) v->push_back(static_cast<float>(some(dice)));
    for (auto* v : {&m.dx, &m.dy}) v->push_back(some(dice));
  }
  return m;
}
template <class T> hetero_object<T> object(const std::vector<T>& v) {
  hetero_object<T> o(n);
  std::memcpy(o.host(access_mode::write).get().data(), v.data(), n * sizeof(T));
  return o;
}
template <class T> std::vector<T> values(const hetero_object<T>& o) {
  const auto host = o.host(access_mode::read).get();
  return {host.begin(), host.end()};
}

/// What the kernels make of the numbers on a kind of device.
numbers computed(const std::string& kind, bool fma) {
  const mock_cuda driver;
  options opts = cuda_options();
  opts.set(hetero_devices, kind);
  opts.set(hetero_simulated, "1");
  opts.set(hetero_fma, fma);
  scheduler s({.workers = 2, .opts = &opts});
  numbers m = made();
  EXPECT_EQ(s.run([&] {
    const auto x = object(m.x), y = object(m.y), z = object(m.z);
    const auto dx = object(m.dx), dy = object(m.dy);
    submit(float_kernels::blend, items(n), n, read(x), read_write(y), read(z));
    submit(float_kernels::horner, items(n), n, read(dx), read_write(dy));
    m.y = values(y);
    m.dy = values(dy);
  }),
            0u);
  return m;
}

class floats : public testing::TestWithParam<const char*> {
protected:
  void SetUp() override {
    const auto there = devices(options());
    if (std::string(GetParam()) == "opencl" &&
        std::none_of(there.begin(), there.end(), [](const auto& i) { return i.kind == device_kind::opencl; }))
      GTEST_SKIP() << "no OpenCL device";
  }
};
INSTANTIATE_TEST_SUITE_P(on, floats, testing::Values("simulated", "opencl", "cuda"));

TEST_P(floats, are_the_same_bit_for_bit_where_nothing_is_contracted) {
  const numbers here = computed("host", false), there = computed(GetParam(), false);
  for (std::size_t i = 0; i < n; ++i) {
    ASSERT_EQ(here.y[i], there.y[i]) << i;
    ASSERT_EQ(here.dy[i], there.dy[i]) << i;
  }
}

// docs/concepts/kernels.md states the bound.
TEST_P(floats, differ_by_a_rounding_of_the_product_where_it_is) {
  const numbers given = made(), here = computed("host", true), there = computed(GetParam(), true);
  for (std::size_t i = 0; i < n; ++i) {
    const double product = std::abs(double{given.x[i]} * given.y[i]);
    const double bound = 0x1p-24 * product + 0x1p-23 * std::abs(double{here.y[i]});
    ASSERT_LE(std::abs(double{here.y[i]} - there.y[i]), bound) << i;
  }
}

} // namespace
} // namespace tern::hetero
