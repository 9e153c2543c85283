// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Functions of mathematics for float in the dialect itself, computed in double: see
/// device_math.hpp.

#include <tern/hetero/kernel/device_math.hpp>

namespace tern::hetero::detail {

using namespace tern_math; // on devices both blocks are one text

// clang-format off
TERN_KERNELS_BEGIN(tern_math_float)

// Within 1e-9, for |x| < 750.
TERN_FN double tern_quick_exp(double x) {
  const double n = rint(x * 0x1.71547652b82fep+0), r = fma(-n, 0x1.62e42fefa39efp-1, x);
  const double q = 0.5 + r * (0.16666666666666666 + r * (0.041666666666666664 + r * (0.008333333333333333 + r *
      (0.001388888888888889 + r * (0.0001984126984126984 + r * (2.48015873015873e-05))))));
  return (1.0 + (r + r * r * q)) * tern_of_bits((long)(1023 + (int)n) << 52);
}
// Within 1e-13. x > 0, not infinite, and no subnormal number.
TERN_FN double tern_quick_log_near_1(double f) {
  const double s = f / (2.0 + f), z = s * s;
  return s * ( 2.0 + z * (0.6666666666666666 + z * (0.4 + z * (0.2857142857142857 + z * (0.2222222222222222 + z *
      (0.18181818181818182 + z * (0.15384615384615385 + z * (0.13333333333333333 + z * (0.11764705882352941 + z *
      (0.10526315789473684))))))))));
}
TERN_FN double tern_quick_log(double x) {
  double m;
  const int k = tern_split(x, &m);
  return fma((double)k, 0x1.62e42fefa39efp-1, tern_quick_log_near_1(m - 1.0));
}
TERN_FN float tern_expf(float x) {
  if (x > 89.0f) return (float)tern_infinity();
  if (x < -104.0f) return 0.0f;
  return x != x ? x : (float)tern_quick_exp((double)x);
}
TERN_FN float tern_logf(float x) {
  double special;
  if (tern_log_is_special((double)x, &special)) return (float)special;
  return (float)tern_quick_log((double)x);
}
TERN_FN float tern_powf(float x, float y) {
  double special, sign;
  if (tern_pow_is_special((double)x, (double)y, &special, &sign)) return (float)special;
  const double p = (double)y * tern_quick_log(fabs((double)x));
  if (p > 89.0) return (float)(sign * tern_infinity());
  return (float)(p < -104.0 ? sign * 0.0 : sign * tern_quick_exp(p));
}
TERN_FN double tern_quick_sin(double r) {
  const double z = r * r;
  return r + r * z * ( -0.16666666666666666 + z * (0.008333333333333333 + z * (-0.0001984126984126984 + z *
      (2.7557319223985893e-06 + z * (-2.505210838544172e-08)))));
}
TERN_FN double tern_quick_cos(double r) {
  const double z = r * r;
  return 1.0 + z * ( -0.5 + z * (0.041666666666666664 + z * (-0.001388888888888889 + z * (2.48015873015873e-05 + z *
      (-2.755731922398589e-07 + z * (2.08767569878681e-09))))));
}
TERN_FN double tern_quick_turned(double x, int quarter) {
  int quadrant;
  double r;
  if (fabs(x) < 0x1p20) { // a float is not so close to a multiple of a quarter turn that more bits would matter
    const double n = rint(x * 0.6366197723675814);
    quadrant = (int)n & 3;
    r = fma(-n, 0x1.0b4611a626331p-34, x - n * 0x1.921fb54400000p+0);
  } else {
    r = tern_reduce(x, &quadrant).high;
  }
  quadrant += quarter;
  const double s = quadrant & 1 ? tern_quick_cos(r) : tern_quick_sin(r);
  return quadrant & 2 ? -s : s;
}
TERN_FN float tern_sinf(float x) {
  if (x == 0.0f || !(fabs((double)x) < tern_infinity())) return x == 0.0f ? x : (float)tern_no_number();
  return (float)tern_quick_turned((double)x, 0);
}
TERN_FN float tern_cosf(float x) {
  if (!(fabs((double)x) < tern_infinity())) return (float)tern_no_number();
  return (float)tern_quick_turned((double)x, 1);
}
TERN_FN float tern_tanf(float x) {
  if (x == 0.0f || !(fabs((double)x) < tern_infinity())) return x == 0.0f ? x : (float)tern_no_number();
  return (float)(tern_quick_turned((double)x, 0) / tern_quick_turned((double)x, 1));
}
#define TERN_BY_DOUBLE(name) TERN_FN float tern_##name##f(float x) { return (float)tern_##name((double)x); }
TERN_BY_DOUBLE(acos)
TERN_BY_DOUBLE(acosh)
TERN_BY_DOUBLE(asin)
TERN_BY_DOUBLE(asinh)
TERN_BY_DOUBLE(atan)
TERN_BY_DOUBLE(atanh)
TERN_BY_DOUBLE(cbrt)
TERN_BY_DOUBLE(cosh)
TERN_BY_DOUBLE(exp2)
TERN_BY_DOUBLE(expm1)
TERN_BY_DOUBLE(log10)
TERN_BY_DOUBLE(log1p)
TERN_BY_DOUBLE(log2)
TERN_BY_DOUBLE(rsqrt)
TERN_BY_DOUBLE(sinh)
TERN_BY_DOUBLE(tanh)
#undef TERN_BY_DOUBLE
#define TERN_BY_DOUBLE(name) \
  TERN_FN float tern_##name##f(float x, float y) { return (float)tern_##name((double)x, (double)y); }
TERN_BY_DOUBLE(atan2)
TERN_BY_DOUBLE(fdim)
TERN_BY_DOUBLE(fmod)
TERN_BY_DOUBLE(hypot)
TERN_BY_DOUBLE(remainder)
#undef TERN_BY_DOUBLE
TERN_FN float tern_ldexpf(float x, int n) { return (float)tern_ldexp((double)x, n < -400 ? -400 : n > 400 ? 400 : n); }

TERN_KERNELS_END(tern_math_float)
// clang-format on

} // namespace tern::hetero::detail
