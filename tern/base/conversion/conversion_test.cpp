// SPDX-License-Identifier: Apache-2.0
#include <any>
#include <complex>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tern/base/conversion/conversion.hpp>
#include <tern/base/error.hpp>

namespace {

using tern::detail::accept_constructor_arguments;
using tern::detail::check_fit;
using tern::detail::constructor_cuts_fraction;
using tern::detail::conversion;
using tern::detail::conversion_of;
using tern::detail::may_not_fit;

enum unscoped { low, high };
enum class scoped { low, high };
struct says_double {
  operator double() const { return 1; } // NOLINT(google-explicit-constructor)
};
struct says_long {
  operator long() const { return 1; } // NOLINT(google-explicit-constructor)
};
struct says_anything {
  template <class T> operator T() const { return T(); } // NOLINT(google-explicit-constructor)
};

template <class A, class P> constexpr bool fine = conversion_of<A, P>() == conversion::fine;
template <class A, class P> constexpr bool cuts = conversion_of<A, P>() == conversion::cuts_fraction;

// Floating-point never becomes an integer.
static_assert(cuts<double, int> && cuts<float&, std::size_t> && cuts<const double&, char> && cuts<long double, short>);
static_assert(cuts<says_double, int> && cuts<double, std::vector<int>> && cuts<double, std::optional<int>>);
// What programs do all day is fine.
static_assert(fine<int, double> && fine<int, std::size_t> && fine<std::size_t, int> && fine<int, short> &&
              fine<int, float>);
static_assert(fine<double, float> && fine<float, double> && fine<bool, int> && fine<char, int> && fine<unscoped, int>);
static_assert(fine<says_long, int> && fine<says_long, double> && fine<says_anything, int> && fine<says_double, float>);
static_assert(fine<double, std::complex<double>> && fine<double, std::any> && fine<double, std::optional<double>>);
static_assert(fine<const char*, std::string> && fine<int, std::vector<int>>);
// A bool is no number.
static_assert(conversion_of<int, bool>() == conversion::to_bool &&
              conversion_of<double, bool>() == conversion::to_bool);
static_assert(conversion_of<const char (&)[5], bool>() == conversion::to_bool &&
              fine<std::vector<bool>::reference, bool>);
// What only a cast could do.
static_assert(conversion_of<int*, long>() == conversion::needs_cast &&
              conversion_of<scoped, int>() == conversion::needs_cast);
static_assert(conversion_of<int, scoped>() == conversion::needs_cast &&
              conversion_of<int, unscoped>() == conversion::needs_cast);
static_assert(conversion_of<std::unique_ptr<int>, bool>() == conversion::needs_cast);

struct grid {
  grid(double, int) {}
  grid(double, int, float) {}
};
struct both {
  explicit both(int) {}
  explicit both(double) {}
};
struct any_of {
  template <class T> explicit any_of(T) {}
};
struct plain_pair {
  int a;
  double b;
};
static_assert(constructor_cuts_fraction<grid, 1, int, double>() && !constructor_cuts_fraction<grid, 0, double, int>());
static_assert(!constructor_cuts_fraction<both, 0, double>() && !constructor_cuts_fraction<any_of, 0, double>());
static_assert(constructor_cuts_fraction<plain_pair, 0, double, double>());
static_assert(!constructor_cuts_fraction<plain_pair, 1, int, double>());
static_assert(accept_constructor_arguments<grid, int, long, double>() &&
              accept_constructor_arguments<grid, double&, int>());

static_assert(!may_not_fit<int, int>() && !may_not_fit<int, long>() && !may_not_fit<unsigned, long>());
static_assert(!may_not_fit<long, double>() && !may_not_fit<bool, int>() && !may_not_fit<float, double>());
static_assert(may_not_fit<long, int>() && may_not_fit<int, unsigned long>() && may_not_fit<unsigned, int>());
static_assert(may_not_fit<double, float>() && may_not_fit<char, unsigned char>());

template <class To, class From> std::string refusal(From value) {
  try {
    check_fit<To>(value, [] { return std::string("argument 2 of 'solve'"); });
  } catch (const tern::error& e) {
    EXPECT_EQ(e.code(), tern::errc::invalid_argument);
    return e.message();
  }
  return {};
}

TEST(conversion, integers_must_fit) {
  EXPECT_EQ(refusal<int>(3'000'000'000L), "argument 2 of 'solve' is 3000000000, which its parameter, int, cannot hold");
  EXPECT_EQ(refusal<int>(2'147'483'647L), "");
  EXPECT_EQ(refusal<int>(2'147'483'648U), "argument 2 of 'solve' is 2147483648, which its parameter, int, cannot hold");
  EXPECT_EQ(refusal<int>(std::numeric_limits<int>::min() - 0L), "");
  EXPECT_NE(refusal<int>(std::numeric_limits<int>::min() - 1L), "");
  EXPECT_EQ(refusal<std::size_t>(5), "");
  EXPECT_NE(refusal<unsigned short>(-1).find("is -1, which its parameter"), std::string::npos);
  EXPECT_EQ(refusal<signed char>(127), "");
  EXPECT_NE(refusal<signed char>(128), "");
  EXPECT_NE(refusal<std::uint64_t>(std::numeric_limits<long long>::min()), "");
  EXPECT_EQ(refusal<std::int64_t>(std::uint64_t{1} << 62), "");
  EXPECT_NE(refusal<std::int64_t>(std::uint64_t{1} << 63), "");
  EXPECT_EQ(refusal<short>(high), "");
}

TEST(conversion, magnitudes_must_fit) {
  EXPECT_EQ(refusal<float>(0.1), "");
  EXPECT_EQ(refusal<float>(1e300), "argument 2 of 'solve' is 1e+300, which its parameter, float, cannot hold");
  EXPECT_NE(refusal<float>(-1e39), "");
  EXPECT_EQ(refusal<float>(std::numeric_limits<double>::infinity()), "");
  EXPECT_EQ(refusal<float>(std::numeric_limits<double>::quiet_NaN()), "");
  EXPECT_EQ(refusal<float>(1e-300), ""); // becomes 0
}

} // namespace
