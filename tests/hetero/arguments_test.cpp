// SPDX-License-Identifier: Apache-2.0
// Numbers become the types of parameters when a task is made: what does not fit is told then, and
// nothing is submitted.
#include <cstddef>
#include <cstdint>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/tasks.hpp"
#include <tern/hetero/dialect.hpp>
#include <tern/hetero/recorded.hpp>
#include <tern/hetero/variants.hpp>

TERN_KERNELS_BEGIN(number_kernels)
TERN_KERNEL(fill, int with, float factor, TERN_GLOBAL double* v) {
  TERN_REGION { v[item.x] = with * factor; };
}
TERN_KERNELS_END(number_kernels)

namespace tern::hetero {
namespace {

using testing::AllOf;
using testing::HasSubstr;

template <class F> std::string refusal(F&& f) {
  try {
    f();
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::invalid_argument);
    return e.what();
  }
  return "nothing was thrown";
}
double first(const hetero_object<double>& v) { return v.host(access_mode::read).get()[0]; }

const auto too_large = AllOf(HasSubstr("argument 1 of 'fill' is 3000000000, which its parameter, int, cannot hold"),
                             HasSubstr("make the parameter wider"));

TEST(arguments, of_other_types_are_converted) {
  on({}, [] {
    hetero_object<double> v(4, 1.0);
    submit(number_kernels::fill, items(4), std::size_t{3}, 0.5, write(v));
    EXPECT_EQ(first(v), 1.5);
    submit(number_kernels::fill, items(4), 'a', 1, write(v));
    EXPECT_EQ(first(v), 97);
    submit([](host_view<double, 1> x, short n, float f) { x[0] = n * f; }, write(v), 7L, 0.5);
    EXPECT_EQ(first(v), 3.5);
  });
}

TEST(arguments, that_do_not_fit_a_kernel_are_told) {
  on({}, [] {
    hetero_object<double> v(4, 1.0);
    EXPECT_THAT(refusal([&] { submit(number_kernels::fill, items(4), 3'000'000'000L, 1, write(v)); }), too_large);
    EXPECT_THAT(refusal([&] { submit(number_kernels::fill, items(4), 1, 1e300, write(v)); }),
                HasSubstr("argument 2 of 'fill' is 1e+300, which its parameter, float, cannot hold"));
    EXPECT_THAT(refusal([&] { hetero_task(number_kernels::fill, items(4), 3'000'000'000L, 1, write(v)); }), too_large);
    EXPECT_THAT(refusal([&] { submit(variants(number_kernels::fill), items(4), 3'000'000'000L, 1, write(v)); }),
                too_large);
    recorded steps;
    EXPECT_THAT(
        refusal([&] { steps.submit([&] { submit(number_kernels::fill, items(4), 3'000'000'000L, 1, write(v)); }); }),
        too_large);
    EXPECT_EQ(first(v), 1.0); // none of them has run, or is in the way
    submit(number_kernels::fill, items(4), 2, 1, write(v));
    EXPECT_EQ(first(v), 2);
  });
}

TEST(arguments, that_do_not_fit_a_function_are_told) {
  on({}, [] {
    hetero_object<double> v(4, 1.0);
    const auto set = [](host_view<double, 1> x, int n) { x[0] = n; };
    const auto told = HasSubstr("argument 2 of a task's function is 3000000000, which its parameter, int, cannot hold");
    EXPECT_THAT(refusal([&] { submit(set, write(v), 3'000'000'000L); }), told);
    EXPECT_THAT(refusal([&] { hetero_task(set, write(v), 3'000'000'000L); }), told);
    EXPECT_EQ(first(v), 1.0);
    submit([](auto x, auto n) { x[0] = static_cast<double>(n); }, write(v), 3'000'000'000L); // of no type of its own
    EXPECT_EQ(first(v), 3e9);
  });
}

} // namespace
} // namespace tern::hetero
