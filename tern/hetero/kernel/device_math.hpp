// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Functions of mathematics in the dialect itself, for compilers that bring none: clang, where it
/// makes PTX without anything of NVIDIA's. `tern_exp` is for double; for float there is `tern_expf`
/// (device_math_float.hpp).
///
/// Within 2 units in the last place (device_math_test.cpp measures it), for all arguments; powers,
/// hypotenuses and remainders too. Results and arguments that are infinite or no numbers are as C
/// has them; nothing sets errno. Any thread: functions of their arguments alone.
///
/// How: a series of Taylor's, after the argument has been brought close to zero; where a rounding
/// would be seen, as a sum of two numbers (Dekker 1971).
///
/// Sources: W. J. Cody, W. Waite, "Software Manual for the Elementary Functions", 1980 (reduction);
/// M. Payne, R. Hanek, "Radian reduction for trigonometric functions", 1983 (large angles).

#include <tern/hetero/dialect.hpp>

namespace tern::hetero::detail {

// clang-format off
TERN_KERNELS_BEGIN(tern_math)

// A sum of two numbers: the second is a rounding error of the first.
typedef struct { double high, low; } tern_two;

TERN_FN tern_two tern_sum(double a, double b) {
  tern_two s;
  s.high = a + b;
  const double of_b = s.high - a;
  s.low = (a - (s.high - of_b)) + (b - of_b);
  return s;
}
// For |a| >= |b|, or a = 0.
TERN_FN tern_two tern_fast_sum(double a, double b) {
  tern_two s;
  s.high = a + b;
  s.low = b - (s.high - a);
  return s;
}
TERN_FN tern_two tern_product(double a, double b) {
  tern_two p;
  p.high = a * b;
  p.low = fma(a, b, -p.high);
  return p;
}
TERN_FN tern_two tern_quotient(tern_two a, tern_two b) {
  tern_two q;
  q.high = a.high / b.high;
  q.low = (fma(-q.high, b.high, a.high) + a.low - q.high * b.low) / b.high;
  return q;
}
TERN_FN tern_two tern_root(tern_two a) {
  tern_two s;
  s.high = sqrt(a.high);
  s.low = s.high > 0.0 ? (fma(-s.high, s.high, a.high) + a.low) / (2.0 * s.high) : 0.0;
  return s;
}

// Their bits -----------------------------------------------------------------------------------------------

TERN_FN long tern_bits(double x) {
  union { double number; long bits; } u;
  u.number = x;
  return u.bits;
}
TERN_FN double tern_of_bits(long bits) {
  union { double number; long bits; } u;
  u.bits = bits;
  return u.number;
}
TERN_FN double tern_infinity(void) { return tern_of_bits(0x7ffl << 52); }
TERN_FN double tern_no_number(void) { return tern_of_bits(0x7ff8l << 48); }
TERN_FN int tern_is_no_number(double x) { return x != x; }

TERN_FN double tern_ldexp(double x, int n) {
  if (n > 1023) {
    x *= 0x1p1023;
    n -= 1023;
    if (n > 1023) {
      x *= 0x1p1023;
      n = n - 1023 < 1023 ? n - 1023 : 1023;
    }
  } else if (n < -1022) { // one rounding: what is left of small numbers has all its bits until the last step
    x *= 0x1p-969;
    n += 969;
    if (n < -1022) {
      x *= 0x1p-969;
      n = n + 969 > -1022 ? n + 969 : -1022;
    }
  }
  return x * tern_of_bits((long)(1023 + n) << 52);
}

// Powers of e ----------------------------------------------------------------------------------------------

// e to the power of x + more is the result times two to the power of k. |x| < 800.
TERN_FN tern_two tern_exp_of_two(double x, double more, int* k) {
  const double n = rint(x * 0x1.71547652b82fep+0);
  const tern_two r = tern_sum(fma(-n, 0x1.62e42fee00000p-1, x), fma(-n, 0x1.a39ef35793c76p-33, more));
  const double q = 0.5 + r.high * (0.16666666666666666 + r.high * (0.041666666666666664 + r.high *
      (0.008333333333333333 + r.high * (0.001388888888888889 + r.high * (0.0001984126984126984 + r.high *
      (2.48015873015873e-05 + r.high * (2.7557319223985893e-06 + r.high * (2.755731922398589e-07 + r.high *
      (2.505210838544172e-08 + r.high * (2.08767569878681e-09 + r.high * (1.6059043836821613e-10)))))))))));
  tern_two s = tern_fast_sum(1.0, r.high);
  s.low += fma(r.high * r.high, q, r.low * s.high);
  *k = (int)n;
  return tern_fast_sum(s.high, s.low);
}
TERN_FN double tern_exp_of_sum(double x, double more) {
  if (tern_is_no_number(x)) return x;
  if (x > 709.79) return tern_infinity();
  if (x < -745.2) return 0.0;
  int k;
  const tern_two e = tern_exp_of_two(x, more, &k);
  return tern_ldexp(e.high + e.low, k);
}
TERN_FN double tern_exp(double x) { return tern_exp_of_sum(x, 0.0); }
TERN_FN double tern_exp2(double x) {
  if (tern_is_no_number(x)) return x;
  if (x >= 1024.0) return tern_infinity();
  if (x < -1075.0) return 0.0;
  const double n = rint(x);
  tern_two p = tern_product(x - n, 0x1.62e42fefa39efp-1);
  p.low = fma(x - n, 0x1.abc9e3b39803fp-56, p.low);
  int k;
  const tern_two e = tern_exp_of_two(p.high, p.low, &k);
  return tern_ldexp(e.high + e.low, (int)n + k);
}
// Without 1. |x| < 60.
TERN_FN tern_two tern_expm1_of_two(double x) {
  const double n = rint(x * 0x1.71547652b82fep+0);
  const tern_two r = tern_sum(fma(-n, 0x1.62e42fee00000p-1, x), -n * 0x1.a39ef35793c76p-33);
  const double q = 0.5 + r.high * (0.16666666666666666 + r.high * (0.041666666666666664 + r.high *
      (0.008333333333333333 + r.high * (0.001388888888888889 + r.high * (0.0001984126984126984 + r.high *
      (2.48015873015873e-05 + r.high * (2.7557319223985893e-06 + r.high * (2.755731922398589e-07 + r.high *
      (2.505210838544172e-08 + r.high * (2.08767569878681e-09 + r.high * (1.6059043836821613e-10)))))))))));
  const tern_two s = tern_fast_sum(r.high, fma(r.high * r.high, q, r.low + r.low * r.high));
  if (n == 0.0) return s;
  const double t = tern_of_bits((long)(1023 + (int)n) << 52);
  tern_two e = tern_sum(t - 1.0, t * s.high);
  e.low += t * s.low;
  return e;
}
TERN_FN double tern_expm1(double x) {
  if (x == 0.0 || tern_is_no_number(x)) return x;
  if (x > 40.0) return tern_exp(x);
  if (x < -45.0) return -1.0;
  const tern_two e = tern_expm1_of_two(x);
  return e.high + e.low;
}
// (e^x + sign * e^-x) / 2, for x >= 0.
TERN_FN double tern_hyperbolic(double x, double sign) {
  if (x > 710.4758600739439) return tern_infinity();
  int k;
  const tern_two e = tern_exp_of_two(x, 0.0, &k);
  if (x > 40.0) return tern_ldexp(e.high + e.low, k - 1);
  const double high = tern_ldexp(e.high, k), low = tern_ldexp(e.low, k), inverse = sign / high;
  const tern_two d = tern_fast_sum(high, inverse);
  return 0.5 * (d.high + (d.low + low - low * inverse / high));
}
TERN_FN double tern_sinh(double x) {
  if (x == 0.0 || tern_is_no_number(x)) return x;
  if (fabs(x) < 1.0) {
    const double z = x * x;
    return x + x * z * ( 0.16666666666666666 + z * (0.008333333333333333 + z * (0.0001984126984126984 + z *
      (2.7557319223985893e-06 + z * (2.505210838544172e-08 + z * (1.6059043836821613e-10 + z *
      (7.647163731819816e-13 + z * (2.8114572543455206e-15 + z * (8.22063524662433e-18)))))))));
  }
  return copysign(tern_hyperbolic(fabs(x), -1.0), x);
}
TERN_FN double tern_cosh(double x) { return tern_is_no_number(x) ? x : tern_hyperbolic(fabs(x), 1.0); }
TERN_FN double tern_tanh(double x) {
  if (x == 0.0 || tern_is_no_number(x)) return x;
  if (fabs(x) > 22.0) return copysign(1.0, x);
  const tern_two e = tern_expm1_of_two(2.0 * fabs(x));
  tern_two below = tern_sum(e.high, 2.0);
  below.low += e.low;
  const tern_two q = tern_quotient(e, below);
  return copysign(q.high + q.low, x);
}

// Logarithms -----------------------------------------------------------------------------------------------

// Of 1 + f + more, for f from -0.3 to 0.42: twice the area tangent of f / (2 + f).
TERN_FN tern_two tern_log_near_1(double f, double more) {
  tern_two above, below = tern_sum(2.0, f);
  below.low += more;
  above.high = f;
  above.low = more;
  const tern_two s = tern_quotient(above, below);
  tern_two z = tern_product(s.high, s.high);
  z.low += 2.0 * s.high * s.low;
  const double t = z.high * ( 0.4 + z.high * (0.2857142857142857 + z.high * (0.2222222222222222 + z.high *
      (0.18181818181818182 + z.high * (0.15384615384615385 + z.high * (0.13333333333333333 + z.high *
      (0.11764705882352941 + z.high * (0.10526315789473684 + z.high * (0.09523809523809523 + z.high *
      (0.08695652173913043 + z.high * (0.08))))))))))) + 0.4 * z.low;
  tern_two u = tern_fast_sum(0x1.5555555555555p-1, t);
  u.low += 0x1.5555555555555p-55;
  tern_two w = tern_product(z.high, u.high);
  w.low += z.high * u.low + z.low * u.high;
  const double v = s.high * w.high;
  tern_two r = tern_fast_sum(2.0 * s.high, v);
  r.low += fma(s.high, w.high, -v) + s.high * w.low + s.low * (2.0 + w.high);
  return tern_fast_sum(r.high, r.low);
}
// x is m times two to the power of the result, m between the roots of 1/2 and of 2. x > 0, finite.
TERN_FN int tern_split(double x, double* m) {
  int k = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    k = -54;
  }
  const long bits = tern_bits(x) + ((0x3ff0000000000000l) - (0x3fe6a09e667f3bcdl));
  k += (int)(bits >> 52) - 1023;
  *m = tern_of_bits((bits & 0xfffffffffffffl) + 0x3fe6a09e667f3bcdl);
  return k;
}
// Of x + more.
TERN_FN tern_two tern_log_of_two(double x, double more) {
  double m;
  const int k = tern_split(x, &m);
  const tern_two c = tern_log_near_1(m - 1.0, more == 0.0 ? 0.0 : tern_ldexp(more, -k));
  tern_two r = tern_fast_sum((double)k * 0x1.62e42fee00000p-1, c.high);
  r.low += c.low + (double)k * 0x1.a39ef35793c76p-33;
  return tern_fast_sum(r.high, r.low);
}
// Whether the logarithm of x is one of those numbers; then it is `special`.
TERN_FN int tern_log_is_special(double x, double* special) {
  *special = x == 0.0 ? -tern_infinity() : x < 0.0 ? tern_no_number() : x;
  return !(x > 0.0) || x == tern_infinity();
}
TERN_FN double tern_log(double x) {
  double special;
  if (tern_log_is_special(x, &special)) return special;
  const tern_two r = tern_log_of_two(x, 0.0);
  return r.high + r.low;
}
TERN_FN double tern_log2(double x) {
  double m;
  if (tern_log_is_special(x, &m)) return m;
  const int k = tern_split(x, &m);
  const tern_two c = tern_log_near_1(m - 1.0, 0.0);
  const tern_two p = tern_product(c.high, 0x1.71547652b82fep+0);
  const tern_two r = tern_fast_sum((double)k, p.high);
  return r.high + (r.low + p.low + c.high * 0x1.777d0ffda0d24p-56 + c.low * 0x1.71547652b82fep+0);
}
TERN_FN double tern_log10(double x) {
  double special;
  if (tern_log_is_special(x, &special)) return special;
  const tern_two c = tern_log_of_two(x, 0.0);
  const tern_two p = tern_product(c.high, 0x1.bcb7b1526e50ep-2);
  return p.high + (p.low + c.high * 0x1.95355baaafad3p-57 + c.low * 0x1.bcb7b1526e50ep-2);
}
// Of 1 + x + more.
TERN_FN tern_two tern_log1p_of_two(double x, double more) {
  if (x > -0.29 && x < 0.41) return tern_log_near_1(x, more);
  const tern_two s = tern_sum(1.0, x);
  return tern_log_of_two(s.high, s.low + more);
}
TERN_FN double tern_log1p(double x) {
  if (x == 0.0 || tern_is_no_number(x) || x == tern_infinity()) return x;
  if (x <= -1.0) return x == -1.0 ? -tern_infinity() : tern_no_number();
  const tern_two r = tern_log1p_of_two(x, 0.0);
  return r.high + r.low;
}
// Of twice x, for large ones.
TERN_FN double tern_log_of_twice(double x) {
  const tern_two r = tern_log_of_two(x, 0.0);
  const tern_two s = tern_fast_sum(r.high, 0x1.62e42fefa39efp-1);
  return s.high + (s.low + r.low + 0x1.abc9e3b39803fp-56);
}
TERN_FN double tern_asinh(double x) {
  const double a = fabs(x);
  if (x == 0.0 || !(a < tern_infinity())) return x;
  if (a > 0x1p28) return copysign(tern_log_of_twice(a), x);
  const tern_two u = tern_sum(a, a * a / (1.0 + sqrt(fma(a, a, 1.0))));
  const tern_two r = tern_log1p_of_two(u.high, u.low);
  return copysign(r.high + r.low, x);
}
TERN_FN double tern_acosh(double x) {
  if (!(x < tern_infinity())) return x;
  if (x <= 1.0) return x == 1.0 ? 0.0 : tern_no_number();
  if (x > 0x1p28) return tern_log_of_twice(x);
  const double t = x - 1.0;
  const tern_two t2 = tern_sum(t, 2.0);
  tern_two w = tern_product(t, t2.high);
  w.low += t * t2.low;
  const tern_two s = tern_root(w);
  const tern_two u = tern_sum(t, s.high);
  const tern_two r = tern_log1p_of_two(u.high, u.low + s.low);
  return r.high + r.low;
}
TERN_FN double tern_atanh(double x) {
  if (x == 0.0) return x;
  if (!(fabs(x) < 1.0)) return fabs(x) == 1.0 ? copysign(tern_infinity(), x) : tern_no_number();
  tern_two above;
  above.high = 2.0 * fabs(x);
  above.low = 0.0;
  const tern_two q = tern_quotient(above, tern_fast_sum(1.0, -fabs(x)));
  const tern_two r = tern_log1p_of_two(q.high, q.low);
  return copysign(0.5 * (r.high + r.low), x);
}

// Powers and roots -----------------------------------------------------------------------------------------

// 0: y is no whole number; 1: an odd one; 2: an even one.
TERN_FN int tern_parity(double y) {
  if (fabs(y) >= 0x1p53) return 2;
  if (rint(y) != y) return 0;
  return rint(0.5 * y) == 0.5 * y ? 2 : 1;
}
// What pow(x, y) is where that is not e to the power of y log |x|; with `sign` that of the latter.
TERN_FN int tern_pow_is_special(double x, double y, double* special, double* sign) {
  const double a = fabs(x);
  *sign = 1.0;
  *special = 1.0;
  if (y == 0.0 || x == 1.0) return 1;
  *special = x + y;
  if (tern_is_no_number(x) || tern_is_no_number(y)) return 1;
  if (fabs(y) == tern_infinity()) {
    *special = a == 1.0 ? 1.0 : (a > 1.0) == (y > 0.0) ? tern_infinity() : 0.0;
    return 1;
  }
  if (tern_bits(x) < 0) {
    const int parity = tern_parity(y);
    if (parity == 1) *sign = -1.0;
    *special = tern_no_number();
    if (parity == 0 && a > 0.0 && a < tern_infinity()) return 1;
  }
  *special = *sign * ((a == 0.0) == (y < 0.0) ? tern_infinity() : 0.0);
  return a == 0.0 || a == tern_infinity();
}
TERN_FN double tern_pow(double x, double y) {
  double special, sign;
  if (tern_pow_is_special(x, y, &special, &sign)) return special;
  const tern_two l = tern_log_of_two(fabs(x), 0.0);
  const double p = y * l.high;
  if (!(fabs(p) < 800.0)) return sign * (p > 0.0 ? tern_infinity() : 0.0);
  return sign * tern_exp_of_sum(p, fma(y, l.high, -p) + y * l.low);
}
TERN_FN double tern_cbrt(double x) {
  double a = fabs(x), scale = 1.0;
  if (x == 0.0 || !(a < tern_infinity())) return x;
  if (a < 0x1p-900) {
    a *= 0x1p300;
    scale = 0x1p-100;
  } else if (a > 0x1p900) {
    a *= 0x1p-300;
    scale = 0x1p100;
  }
  double t = tern_of_bits(tern_bits(a) / 3 + 0x2a9f789300000000l); // within a twentieth
  for (int i = 0; i < 2; ++i) {
    const double cube = t * t * t;
    t = t * ((cube + 2.0 * a) / (2.0 * cube + a));
  }
  const tern_two p = tern_product(t, t);
  const double over = fma(p.high, t, -a) + p.low * t;
  return copysign(scale * (t - over / (3.0 * p.high)), x);
}
TERN_FN double tern_hypot(double x, double y) {
  const double large = fmax(fabs(x), fabs(y)), small = fmin(fabs(x), fabs(y));
  if (fabs(x) == tern_infinity() || fabs(y) == tern_infinity()) return tern_infinity();
  if (tern_is_no_number(x) || tern_is_no_number(y)) return x + y;
  if (large == 0.0 || small < large * 0x1p-60) return large;
  const double scale = large > 0x1p500 ? 0x1p-600 : large < 0x1p-400 ? 0x1p600 : 1.0;
  const tern_two p = tern_product(large * scale, large * scale), q = tern_product(small * scale, small * scale);
  tern_two s = tern_fast_sum(p.high, q.high);
  s.low += p.low + q.low;
  const tern_two r = tern_root(s);
  return (r.high + r.low) / scale;
}
TERN_FN double tern_rsqrt(double x) { return 1.0 / sqrt(x); }

// Remainders -----------------------------------------------------------------------------------------------

// |x| is the result, of 53 bits, times two to the power of e. x is finite, and not 0.
TERN_FN unsigned long tern_whole(double x, int* e) {
  double a = fabs(x);
  *e = -1075;
  if (a < 0x1p-1022) {
    a *= 0x1p54;
    *e -= 54;
  }
  const long bits = tern_bits(a);
  *e += (int)(bits >> 52);
  return (unsigned long)((bits & 0xfffffffffffffl) | 0x10000000000000l);
}
TERN_FN double tern_fmod(double x, double y) {
  if (tern_is_no_number(x) || tern_is_no_number(y) || y == 0.0 || fabs(x) == tern_infinity()) return tern_no_number();
  if (fabs(x) < fabs(y)) return x;
  int of_x, of_y;
  unsigned long r = tern_whole(x, &of_x);
  const unsigned long m = tern_whole(y, &of_y);
  r %= m;
  for (int left = of_x - of_y; left > 0 && r != 0; left -= 11) r = (r << (left < 11 ? left : 11)) % m;
  return copysign(tern_ldexp((double)r, of_y), x);
}
TERN_FN double tern_remainder(double x, double y) {
  if (tern_is_no_number(x) || tern_is_no_number(y) || y == 0.0 || fabs(x) == tern_infinity()) return tern_no_number();
  const double b = fabs(y);
  double a = fabs(x);
  if (b < 0x1p1023) a = tern_fmod(a, b + b);
  if (b < 0x1p-1021 ? a + a > b : a > 0.5 * b) {
    a -= b;
    if (b < 0x1p-1021 ? a + a >= b : a >= 0.5 * b) a -= b;
  }
  return tern_bits(x) < 0 ? -a : a;
}
TERN_FN double tern_fdim(double x, double y) {
  return tern_is_no_number(x) || tern_is_no_number(y) ? x + y : x > y ? x - y : 0.0;
}

// Angles ---------------------------------------------------------------------------------------------------

// Bits of 2 / pi behind the point, after 64 that are zero.
TERN_CONSTANT unsigned long tern_two_over_pi[21] = {
    0x0ul, 0xa2f9836e4e441529ul, 0xfc2757d1f534ddc0ul, 0xdb6295993c439041ul,
    0xfe5163abdebbc561ul, 0xb7246e3a424dd2e0ul, 0x06492eea09d1921cul, 0xfe1deb1cb129a73eul,
    0xe88235f52ebb4484ul, 0xe99c7026b45f7e41ul, 0x3991d639835339f4ul, 0x9c845f8bbdf9283bul,
    0x1ff897ffde05980ful, 0xef2f118b5a0a6d1ful, 0x6d367ecf27cb09b7ul, 0x4f463f669e5fea2dul,
    0x7527bac7ebe5f17bul, 0x3d0739f78a5292eaul, 0x6bfb5fb11f8d5d08ul, 0x56033046fc7b6babul,
    0xf0cfbc209af4361dul};

TERN_FN unsigned long tern_high_product(unsigned long a, unsigned long b) {
  const unsigned long a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32;
  const unsigned long low = a0 * b0, middle = a1 * b0 + (low >> 32), other = a0 * b1 + (middle & 0xffffffffu);
  return a1 * b1 + (middle >> 32) + (other >> 32);
}
// As below, for x >= 2^20: the bits of x times 2 / pi that matter, from 4 down.
TERN_FN tern_two tern_reduce_large(double x, int* quadrant) {
  int e;
  const unsigned long m = tern_whole(x, &e);
  const int first = e + 62, word = first >> 6, shift = first & 63;
  unsigned long w[3];
  for (int i = 0; i < 3; ++i)
    w[i] = shift == 0 ? tern_two_over_pi[word + i]
                      : tern_two_over_pi[word + i] << shift | tern_two_over_pi[word + i + 1] >> (64 - shift);
  const unsigned long p2 = tern_high_product(m, w[2]), p1 = m * w[1] + p2;
  const unsigned long p0 = m * w[0] + tern_high_product(m, w[1]) + (p1 < p2 ? 1ul : 0ul);
  *quadrant = (int)((p0 + (1ul << 61)) >> 62) & 3;
  const long part = (long)(p0 << 2 | p1 >> 62); // of a quarter turn, from -1/2 to 1/2
  const double a = (double)(part >> 32) * 0x1p-32, b = (double)(part & 0xffffffffl) * 0x1p-64,
               c = (double)((p1 << 2) >> 11) * 0x1p-117;
  tern_two f = tern_sum(a, b);
  f = tern_fast_sum(f.high, f.low + c);
  tern_two r = tern_product(f.high, 0x1.921fb54442d18p+0);
  r.low += f.high * 0x1.1a62633145c07p-54 + f.low * 0x1.921fb54442d18p+0;
  return tern_fast_sum(r.high, r.low);
}
// x is the result and `quadrant` times a quarter turn, but for whole turns. x is finite.
TERN_FN tern_two tern_reduce(double x, int* quadrant) {
  tern_two r;
  r.high = x;
  r.low = 0.0;
  *quadrant = 0;
  if (fabs(x) <= 0.7853981633974483) return r;
  if (fabs(x) < 0x1p20) {
    const double n = rint(x * 0.6366197723675814);
    r = tern_sum(x - n * 0x1.921fb54400000p+0, -n * 0x1.0b4611a600000p-34);
    const tern_two s = tern_sum(r.high, -n * 0x1.3198a2e000000p-69);
    *quadrant = (int)n & 3;
    return tern_fast_sum(s.high, s.low + r.low - n * 0x1.b839a252049c1p-104);
  }
  r = tern_reduce_large(fabs(x), quadrant);
  if (x < 0.0) {
    r.high = -r.high;
    r.low = -r.low;
    *quadrant = -*quadrant & 3;
  }
  return r;
}
TERN_FN tern_two tern_sin_of_two(tern_two r) {
  const double z = r.high * r.high;
  const double v = r.high * z * ( -0.16666666666666666 + z * (0.008333333333333333 + z * (-0.0001984126984126984 + z
      * (2.7557319223985893e-06 + z * (-2.505210838544172e-08 + z * (1.6059043836821613e-10 + z *
      (-7.647163731819816e-13 + z * (2.8114572543455206e-15))))))));
  return tern_fast_sum(r.high, fma(r.low, 1.0 - 0.5 * z, v));
}
TERN_FN tern_two tern_cos_of_two(tern_two r) {
  const double z = r.high * r.high, w = 1.0 - 0.5 * z;
  const double c = 0.041666666666666664 + z * (-0.001388888888888889 + z * (2.48015873015873e-05 + z *
      (-2.755731922398589e-07 + z * (2.08767569878681e-09 + z * (-1.1470745597729725e-11 + z *
      (4.779477332387385e-14 + z * (-1.5619206968586225e-16)))))));
  return tern_fast_sum(w, (1.0 - w) - 0.5 * z - 0.5 * fma(r.high, r.high, -z) + (z * z * c - r.high * r.low));
}
TERN_FN double tern_turned(tern_two r, int quadrant) {
  const tern_two s = quadrant & 1 ? tern_cos_of_two(r) : tern_sin_of_two(r);
  return quadrant & 2 ? -(s.high + s.low) : s.high + s.low;
}
TERN_FN double tern_sin(double x) {
  if (x == 0.0 || !(fabs(x) < tern_infinity())) return x == 0.0 ? x : tern_no_number();
  int quadrant;
  const tern_two r = tern_reduce(x, &quadrant);
  return tern_turned(r, quadrant);
}
TERN_FN double tern_cos(double x) {
  if (!(fabs(x) < tern_infinity())) return tern_no_number();
  int quadrant;
  const tern_two r = tern_reduce(x, &quadrant);
  return tern_turned(r, quadrant + 1);
}
TERN_FN double tern_tan(double x) {
  if (x == 0.0 || !(fabs(x) < tern_infinity())) return x == 0.0 ? x : tern_no_number();
  int quadrant;
  const tern_two r = tern_reduce(x, &quadrant), s = tern_sin_of_two(r), c = tern_cos_of_two(r);
  const tern_two q = quadrant & 1 ? tern_quotient(c, s) : tern_quotient(s, c);
  return quadrant & 1 ? -(q.high + q.low) : q.high + q.low;
}

// Inverses: the angle whose tangent is k / 8.
TERN_CONSTANT double tern_atan_high[9] = {0.0, 0x1.fd5ba9aac2f6ep-4, 0x1.f5b75f92c80ddp-3, 0x1.6f61941e4def1p-2,
    0x1.dac670561bb4fp-2, 0x1.1e00babdefeb4p-1, 0x1.4978fa3269ee1p-1, 0x1.700a7c5784634p-1, 0x1.921fb54442d18p-1};
TERN_CONSTANT double tern_atan_low[9] = {0.0, -0x1.cd37686760c17p-59, 0x1.8ab6e3cf7afbdp-57, -0x1.c63aae6f6e918p-56,
    0x1.a2b7f222f65e2p-56, -0x1.928df287a668fp-58, 0x1.2419a87f2a458p-56, -0x1.8c34d25aadef6p-56,
    0x1.1a62633145c07p-55};

// Of a / b, for 0 <= a <= b.
TERN_FN tern_two tern_atan_of_two(tern_two a, tern_two b) {
  const int k = (int)rint(8.0 * (a.high / b.high));
  const double c = 0.125 * (double)k;
  const tern_two p = tern_product(c, b.high), e = tern_product(c, a.high);
  tern_two above = tern_sum(a.high, -p.high), below = tern_fast_sum(b.high, e.high);
  above.low += a.low - p.low - c * b.low;
  below.low += e.low + b.low + c * a.low;
  const tern_two q = tern_quotient(above, below);
  const double t = q.high, z = t * t;
  const double v = t * z * ( -0.3333333333333333 + z * (0.2 + z * (-0.14285714285714285 + z * (0.1111111111111111 +
      z * (-0.09090909090909091 + z * (0.07692307692307693))))));
  const tern_two r = tern_fast_sum(tern_atan_high[k], t);
  return tern_fast_sum(r.high, r.low + (v + q.low + tern_atan_low[k]));
}
// The angle of a point with x, y >= 0, not both 0. Without `turned`; with it, that of -x.
TERN_FN double tern_angle(tern_two y, tern_two x, int turned) {
  tern_two r;
  if (y.high <= x.high) {
    r = tern_atan_of_two(y, x);
  } else {
    const tern_two other = tern_atan_of_two(x, y);
    r = tern_fast_sum(0x1.921fb54442d18p+0, -other.high);
    r.low += 0x1.1a62633145c07p-54 - other.low;
  }
  if (!turned) return r.high + r.low;
  const tern_two s = tern_fast_sum(0x1.921fb54442d18p+1, -r.high);
  return s.high + (s.low + 0x1.1a62633145c07p-53 - r.low);
}
TERN_FN double tern_atan2(double y, double x) {
  if (tern_is_no_number(x) || tern_is_no_number(y)) return x + y;
  tern_two a, b;
  a.low = b.low = 0.0;
  a.high = fabs(y);
  b.high = fabs(x);
  if (a.high == tern_infinity() || b.high == tern_infinity()) { // as far as 1 and 0 are
    a.high = a.high == tern_infinity() ? 1.0 : 0.0;
    b.high = b.high == tern_infinity() ? 1.0 : 0.0;
  }
  if (a.high == 0.0 && b.high == 0.0) b.high = 1.0;
  const double most = fmax(a.high, b.high), scale = most > 0x1p900 ? 0x1p-200 : most < 0x1p-700 ? 0x1p200 : 1.0;
  if (scale >= 1.0 || fmin(a.high, b.high) > 0x1p-700) { // else what is small would lose bits, and does not matter
    a.high *= scale;
    b.high *= scale;
  } else if (a.high > b.high) {
    return copysign(0x1.921fb54442d18p+0, y);
  } else {
    return copysign(tern_bits(x) < 0 ? 0x1.921fb54442d18p+1 : a.high / b.high, y);
  }
  return copysign(tern_angle(a, b, tern_bits(x) < 0), y);
}
TERN_FN double tern_atan(double x) { return tern_atan2(x, 1.0); }
// The root of 1 - x x.
TERN_FN tern_two tern_other_side(double x) {
  const tern_two p = tern_product(x, x);
  tern_two w = tern_fast_sum(1.0, -p.high);
  w.low -= p.low;
  return tern_root(w);
}
TERN_FN double tern_asin(double x) {
  if (!(fabs(x) <= 1.0)) return tern_no_number();
  tern_two a;
  a.high = fabs(x);
  a.low = 0.0;
  return copysign(tern_angle(a, tern_other_side(x), 0), x);
}
TERN_FN double tern_acos(double x) {
  if (!(fabs(x) <= 1.0)) return tern_no_number();
  tern_two a;
  a.high = fabs(x);
  a.low = 0.0;
  return tern_angle(tern_other_side(x), a, x < 0.0);
}

TERN_KERNELS_END(tern_math)
// clang-format on

} // namespace tern::hetero::detail
