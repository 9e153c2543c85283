// SPDX-License-Identifier: Apache-2.0
// The dialect's own functions of mathematics (kernel/device_math.hpp), on the host, on OpenCL and
// on the mock of CUDA, against the C library's for long double.
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/cuda_device.hpp"
#include "tests/hetero/support/kernels.hpp"
#include "tests/hetero/support/tasks.hpp"
#include <tern/hetero/kernel/device_math_float.hpp>
#include <tern/hetero/kernel/prelude.hpp>
#include <tern/hetero/variants.hpp>

namespace tern::hetero {
namespace {

namespace m {
using namespace ::tern::hetero::detail::tern_math;
using namespace ::tern::hetero::detail::tern_math_float;
} // namespace m
constexpr double most_ulp = 2.0;

struct of_one {
  const char* name;
  double (*wide)(double);
  float (*narrow)(float);
  long double (*right)(long double);
  double (*usual)(double); ///< the C library's
  double low, high;        ///< of arguments
};
struct of_two {
  const char* name;
  double (*wide)(double, double);
  float (*narrow)(float, float);
  long double (*right)(long double, long double);
  double (*usual)(double, double);
  double low, high, low2, high2;
};

long double right_rsqrt(long double x) { return 1 / std::sqrt(x); }
double usual_rsqrt(double x) { return 1 / std::sqrt(x); }

#define ONE(of, low, high)                                                                                             \
  { #of, &m::tern_##of, &m::tern_##of##f, &::of##l, &::of, low, high }
#define TWO(of, low, high, low2, high2)                                                                                \
  { #of, &m::tern_##of, &m::tern_##of##f, &::of##l, &::of, low, high, low2, high2 }
constexpr double huge = 1e308;
const of_one ones[] = {
    ONE(acos, -1, 1),        ONE(acosh, 1, huge),
    ONE(acosh, 1, 4),        ONE(asin, -1, 1),
    ONE(asinh, -huge, huge), ONE(asinh, -10, 10),
    ONE(atan, -huge, huge),  ONE(atan, -4, 4),
    ONE(atanh, -1, 1),       ONE(cbrt, -huge, huge),
    ONE(cos, -huge, huge),   ONE(cos, -1e5, 1e5),
    ONE(cos, -10, 10),       ONE(cosh, -712, 712),
    ONE(cosh, -10, 10),      ONE(exp, -750, 712),
    ONE(exp2, -1080, 1030),  ONE(expm1, -50, 712),
    ONE(expm1, -2, 2),       ONE(log, 0, huge),
    ONE(log, 0.5, 2),        ONE(log10, 0, huge),
    ONE(log10, 0.5, 2),      ONE(log1p, -1, huge),
    ONE(log1p, -0.9, 3),     ONE(log2, 0, huge),
    ONE(log2, 0.5, 2),       ONE(sin, -huge, huge),
    ONE(sin, -1e5, 1e5),     ONE(sin, -10, 10),
    ONE(sinh, -712, 712),    ONE(sinh, -3, 3),
    ONE(tan, -huge, huge),   ONE(tan, -1e5, 1e5),
    ONE(tan, -10, 10),       ONE(tanh, -30, 30),
    ONE(tanh, -2, 2),        {"rsqrt", &m::tern_rsqrt, &m::tern_rsqrtf, &right_rsqrt, &usual_rsqrt, 0, huge},
};
const of_two twos[] = {
    TWO(atan2, -huge, huge, -huge, huge), TWO(atan2, -10, 10, -10, 10),
    TWO(fdim, -huge, huge, -huge, huge),  TWO(fmod, -huge, huge, -huge, huge),
    TWO(fmod, -1e5, 1e5, -10, 10),        TWO(hypot, -huge, huge, -huge, huge),
    TWO(hypot, -10, 10, -10, 10),         TWO(pow, 0, huge, -20, 20),
    TWO(pow, 0.5, 2, -1000, 1000),        TWO(remainder, -huge, huge, -huge, huge),
    TWO(remainder, -1e5, 1e5, -10, 10),
};
#undef ONE
#undef TWO

/// In units of the last place that T has there; beyond any limit if the one is infinite, or no
/// number, and the other is not.
template <class T> double ulps(T got, long double right) {
  constexpr double wrong = 1e9;
  const T rounded = static_cast<T>(right);
  if (std::isnan(rounded) || std::isnan(got)) return std::isnan(rounded) == std::isnan(got) ? 0 : wrong;
  if (std::isinf(rounded) || std::isinf(got)) return rounded == got ? 0 : wrong;
  int exponent = 0;
  std::frexp(right, &exponent);
  exponent = std::max(exponent, std::numeric_limits<T>::min_exponent);
  return static_cast<double>(std::fabs(static_cast<long double>(got) - right) /
                             std::ldexp(1.0L, exponent - std::numeric_limits<T>::digits));
}

/// Arguments of all magnitudes from `low` to `high`: some spread evenly, some by their exponents.
class arguments {
public:
  template <class T> T next(double low, double high) {
    low = std::max<double>(low, std::numeric_limits<T>::lowest());
    high = std::min<double>(high, std::numeric_limits<T>::max());
    const double most = std::max(std::fabs(low), std::fabs(high));
    const double part = even_(random_);
    double x = low * (1 - part) + high * part;
    if (const auto how = random_() % 3; how > 0) {
      const double least = how == 1 ? std::log2(most) - 60 : -1074;
      x = std::exp2(least + (std::log2(most) - least) * even_(random_)) * (random_() % 2 && low < 0 ? -1 : 1);
    }
    const T t = static_cast<T>(x);
    return t >= low && t <= high ? t : static_cast<T>(low * 0.5 + high * 0.5);
  }

private:
  std::mt19937_64 random_{1};
  std::uniform_real_distribution<double> even_{0, 1};
};

template <class T> constexpr const char* type_name = sizeof(T) == 8 ? "double" : "float";

TEST(math, is_within_two_units_on_the_host) {
  constexpr int tries = 20'000;
  arguments some;
  const auto look = [&]<class T>(T, const auto& f, const auto& at, const auto& right_at) {
    double worst = 0;
    for (int i = 0; i < tries; ++i) {
      const T x = some.next<T>(f.low, f.high), got = at(x);
      worst = std::max(worst, ulps<T>(got, right_at(x)));
    }
    EXPECT_LE(worst, most_ulp) << f.name << " of a " << type_name<T>;
    return worst;
  };
  for (const of_one& f : ones) {
    look(
        double(), f, [&](double x) { return f.wide(x); }, [&](double x) { return f.right(x); });
    look(
        float(), f, [&](float x) { return f.narrow(x); }, [&](float x) { return f.right(x); });
  }
  for (const of_two& f : twos) {
    double y = 0;
    look(
        double(), f, [&](double x) { return f.wide(x, y = some.next<double>(f.low2, f.high2)); },
        [&](double x) { return f.right(x, y); });
    look(
        float(), f, [&](float x) { return f.narrow(x, static_cast<float>(y = some.next<float>(f.low2, f.high2))); },
        [&](float x) { return f.right(x, y); });
  }
  for (int i = 0; i < tries; ++i) {
    const double x = some.next<double>(-huge, huge);
    const int n = static_cast<int>(some.next<double>(-2200, 2200));
    EXPECT_EQ(m::tern_ldexp(x, n), std::ldexp(x, n)) << x << ", " << n;
    EXPECT_EQ(m::tern_ldexpf(static_cast<float>(x), n), std::ldexp(static_cast<float>(x), n)) << x << ", " << n;
  }
}

// Infinite numbers, none, zeros with their signs.
TEST(math, of_what_is_special_is_as_in_C) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const double all[] = {0.0, -0.0,  1,      -1,     2,       -2,     3,   -3,   0.5,         -0.5,
                        1.5, 1e300, -1e300, 5e-324, -5e-324, 1e-310, inf, -inf, std::nan("")};
  const auto same = [](double got, double wanted, const std::string& what) {
    if (std::isnan(wanted))
      EXPECT_TRUE(std::isnan(got)) << what << " is " << got;
    else if (std::isinf(wanted) || wanted == 0)
      EXPECT_TRUE(got == wanted && std::signbit(got) == std::signbit(wanted))
          << what << " is " << got << ", not " << wanted;
    else
      EXPECT_LE(ulps<double>(got, wanted), most_ulp + 1) << what;
  };
  for (const double x : all) {
    for (const of_one& f : ones) same(f.wide(x), f.usual(x), std::string(f.name) + "(" + std::to_string(x) + ")");
    for (const double y : all)
      for (const of_two& f : twos)
        same(f.wide(x, y), f.usual(x, y),
             std::string(f.name) + "(" + std::to_string(x) + ", " + std::to_string(y) + ")");
  }
  EXPECT_EQ(m::tern_log2(0x1p-1060), -1060);
  EXPECT_EQ(m::tern_log10(1e15), 15);
  EXPECT_EQ(m::tern_exp2(10), 1024);
  EXPECT_EQ(m::tern_cbrt(27), 3);
  EXPECT_EQ(m::tern_pow(3, 5), 243);
}

// On devices -----------------------------------------------------------------------------------------------------------

std::string body(const char* number, const std::string& read) {
  std::string text =
      "  const " + std::string(number) + " a = " + read + "[i], b = " + read + "[n + i];\n  int k = 0;\n";
  const std::string end = std::string(number) == "float" ? "f" : "";
  for (const of_one& f : ones) text += "  y[k++ * n + i] = tern_" + std::string(f.name) + end + "(a);\n";
  for (const of_two& f : twos) text += "  y[k++ * n + i] = tern_" + std::string(f.name) + end + "(a, b);\n";
  return text + "}\n";
}
const std::string& opencl_text() {
  static const std::string text =
      std::string(detail::prelude(detail::language::opencl)) + text_of(detail::tern_math::tern_source()) +
      text_of(detail::tern_math_float::tern_source()) +
      "kernel void wide(int n, global const double* x, global double* y) {\n  const int i = get_global_id(0);\n" +
      body("double", "x") +
      "kernel void narrow(int n, global const float* x, global float* y) {\n  const int i = get_global_id(0);\n" +
      body("float", "x");
  return text;
}
const std::string& cuda_text() {
  static const std::string text = std::string(detail::prelude(detail::language::cuda)) +
                                  text_of(detail::tern_math::tern_source()) +
                                  text_of(detail::tern_math_float::tern_source()) + "#undef item\n#undef group\n" +
                                  "extern \"C\" __global__ void wide(int n, const double* x, double* y) {\n  const int "
                                  "i = blockIdx.x * blockDim.x + "
                                  "threadIdx.x;\n" +
                                  body("double", "x") +
                                  "extern \"C\" __global__ void narrow(int n, const float* x, float* y) {\n  const int "
                                  "i = blockIdx.x * blockDim.x + "
                                  "threadIdx.x;\n" +
                                  body("float", "x");
  return text;
}
const opencl_source opencl_wide("wide", opencl_text()), opencl_narrow("narrow", opencl_text());
const cuda_source cuda_wide("wide", cuda_text()), cuda_narrow("narrow", cuda_text());

template <class T> void look_at_all(const opencl_source& opencl, const cuda_source& cuda) {
  constexpr int n = 2048;
  hetero_object<T, 1> x(2 * n), y(static_cast<int>(std::size(ones) + std::size(twos)) * n);
  std::vector<T> a(n), b(n);
  arguments some;
  for (int i = 0; i < n; ++i) { // one argument for all functions
    a[static_cast<std::size_t>(i)] = some.next<T>(i % 2 ? -1 : -50, i % 2 ? 1 : 50);
    b[static_cast<std::size_t>(i)] = some.next<T>(-10, 10);
  }
  {
    const auto at = x.host(access_mode::write).get();
    for (int i = 0; i < n; ++i) {
      at[i] = a[static_cast<std::size_t>(i)];
      at[n + i] = b[static_cast<std::size_t>(i)];
    }
  }
  submit(variants(opencl, cuda), tern::items(n), n, read(x), write(y));
  wait_all();
  const auto got = y.host(access_mode::read).get();
  int k = 0;
  const auto look = [&](const char* name, const auto& right) {
    double worst = 0;
    for (int i = 0; i < n; ++i) {
      const auto j = static_cast<std::size_t>(i);
      worst = std::max(worst, ulps<T>(got[k * n + i], right(a[j], b[j])));
    }
    EXPECT_LE(worst, most_ulp) << name << " of a " << type_name<T>;
    ++k;
  };
  for (const of_one& f : ones) look(f.name, [&](T v, T) { return f.right(v); });
  for (const of_two& f : twos) look(f.name, [&](T v, T w) { return f.right(v, w); });
}

TEST(math, is_within_two_units_on_opencl) {
  on({.devices = "opencl0"}, [] {
    look_at_all<double>(opencl_wide, cuda_wide);
    look_at_all<float>(opencl_narrow, cuda_narrow);
  });
}
TEST(math, is_within_two_units_on_the_mock_of_cuda) {
  const mock_cuda driver;
  on({.devices = "cuda0", .cuda = true}, [] {
    look_at_all<double>(opencl_wide, cuda_wide);
    look_at_all<float>(opencl_narrow, cuda_narrow);
  });
}

} // namespace
} // namespace tern::hetero
