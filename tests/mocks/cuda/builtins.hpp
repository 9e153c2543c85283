// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What CUDA's compiler knows without being told, for the host's compiler: read before every kernel
/// that the mock NVRTC compiles. `__global__`, `__shared__` and `__launch_bounds__` stay in the
/// text: kernel_text.cpp looks for them. Nothing is included, which would take longer than the
/// kernels.

#include "kernel_image.hpp"

#define __CUDACC__ 1
#define __CUDACC_RTC__ 1
#define __NVCC_DIAG_PRAGMA_SUPPORT__ 1
#define __device__ __attribute__((visibility("default"))) // so cuModuleGetGlobal finds variables
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __grid_constant__

typedef decltype(sizeof(0)) size_t;
typedef tern_mock_index uint3;
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

extern "C" {
extern tern_mock_items* tern_mock_now __attribute__((visibility("hidden")));
int printf(const char*, ...);
void* memcpy(void*, const void*, size_t);
void* memset(void*, int, size_t);
}
#define threadIdx (tern_mock_now->item)
#define blockIdx (tern_mock_now->group)
#define blockDim (dim3(tern_mock_now->items))
#define gridDim (dim3(tern_mock_now->groups))
#define warpSize 32

// ---- barriers, and what items of a warp say to each other

static inline void __syncthreads() { tern_mock_now->meet(0); }
static inline void __syncwarp(unsigned = ~0u) { tern_mock_now->meet(1); }
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}
static inline void __trap() { tern_mock_now->trap(); }
static inline int __syncthreads_count(int p) {
  tern_mock_now->slots[tern_mock_now->linear] = p != 0;
  __syncthreads();
  int n = 0;
  for (unsigned i = 0; i < tern_mock_now->count; ++i) n += (int)tern_mock_now->slots[i];
  __syncthreads();
  return n;
}
static inline int __syncthreads_or(int p) { return __syncthreads_count(p) != 0; }
static inline int __syncthreads_and(int p) { return __syncthreads_count(!p) == 0; }
static inline unsigned __ballot_sync(unsigned mask, int p) {
  const unsigned first = tern_mock_now->linear / 32 * 32;
  tern_mock_now->slots[tern_mock_now->linear] = p != 0;
  __syncwarp();
  unsigned bits = 0;
  for (unsigned i = 0; i < 32 && first + i < tern_mock_now->count; ++i)
    bits |= (mask >> i & 1) && tern_mock_now->slots[first + i] ? 1u << i : 0;
  __syncwarp();
  return bits;
}
static inline int __any_sync(unsigned mask, int p) { return __ballot_sync(mask, p) != 0; }
static inline int __all_sync(unsigned mask, int p) { return __ballot_sync(mask, !p) == 0; }
template <class T> static inline T tern_mock_from_lane(T v, int lane, int width) {
  static_assert(sizeof(T) <= 8);
  const unsigned me = tern_mock_now->linear, base = me / 32 * 32 + me % 32 / (unsigned)width * (unsigned)width;
  __builtin_memcpy(&tern_mock_now->slots[me], &v, sizeof v);
  __syncwarp();
  const unsigned from = lane < 0 || lane >= width || base + (unsigned)lane >= tern_mock_now->count ? me : base + lane;
  T got;
  __builtin_memcpy(&got, &tern_mock_now->slots[from], sizeof got);
  __syncwarp();
  return got;
}
#define TERN_MOCK_LANE(width) ((int)(tern_mock_now->linear % 32 % (unsigned)(width)))
template <class T> static inline T __shfl_sync(unsigned, T v, int lane, int width = 32) {
  return tern_mock_from_lane(v, lane & (width - 1), width);
}
template <class T> static inline T __shfl_down_sync(unsigned, T v, unsigned by, int width = 32) {
  return tern_mock_from_lane(v, TERN_MOCK_LANE(width) + (int)by, width);
}
template <class T> static inline T __shfl_up_sync(unsigned, T v, unsigned by, int width = 32) {
  return tern_mock_from_lane(v, TERN_MOCK_LANE(width) - (int)by, width);
}
template <class T> static inline T __shfl_xor_sync(unsigned, T v, int by, int width = 32) {
  return tern_mock_from_lane(v, TERN_MOCK_LANE(width) ^ by, width);
}

// ---- atomic operations: items take turns at barriers only

template <class T> struct tern_mock_same { typedef T type; };
#define TERN_MOCK_ATOMIC(name, value)                                                                                  \
  template <class T> static inline T name(T* p, typename tern_mock_same<T>::type v) {                                  \
    const T before = *p;                                                                                               \
    *p = (value);                                                                                                      \
    return before;                                                                                                     \
  }                                                                                                                    \
  template <class T> static inline T name##_block(T* p, typename tern_mock_same<T>::type v) { return name(p, v); }     \
  template <class T> static inline T name##_system(T* p, typename tern_mock_same<T>::type v) { return name(p, v); }
TERN_MOCK_ATOMIC(atomicAdd, before + v)
TERN_MOCK_ATOMIC(atomicSub, before - v)
TERN_MOCK_ATOMIC(atomicMin, v < before ? v : before)
TERN_MOCK_ATOMIC(atomicMax, before < v ? v : before)
TERN_MOCK_ATOMIC(atomicAnd, before& v)
TERN_MOCK_ATOMIC(atomicOr, before | v)
TERN_MOCK_ATOMIC(atomicXor, before ^ v)
TERN_MOCK_ATOMIC(atomicExch, v)
TERN_MOCK_ATOMIC(atomicInc, before >= v ? 0 : before + 1)
TERN_MOCK_ATOMIC(atomicDec, before == 0 || before > v ? v : before - 1)
template <class T>
static inline T atomicCAS(T* p, typename tern_mock_same<T>::type expected, typename tern_mock_same<T>::type desired) {
  const T before = *p;
  if (before == expected) *p = desired;
  return before;
}

// ---- numbers

template <class To, class From> static inline To tern_mock_bits(From v) {
  To to;
  __builtin_memcpy(&to, &v, sizeof to);
  return to;
}
static inline unsigned __float_as_uint(float v) { return tern_mock_bits<unsigned>(v); }
static inline int __float_as_int(float v) { return tern_mock_bits<int>(v); }
static inline float __uint_as_float(unsigned v) { return tern_mock_bits<float>(v); }
static inline float __int_as_float(int v) { return tern_mock_bits<float>(v); }
static inline long long __double_as_longlong(double v) { return tern_mock_bits<long long>(v); }
static inline double __longlong_as_double(long long v) { return tern_mock_bits<double>(v); }
template <class T> static inline T __ldg(const T* p) { return *p; }
template <class T> static inline T __ldcg(const T* p) { return *p; }
static inline int __popc(unsigned v) { return __builtin_popcount(v); }
static inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
static inline int __clz(int v) { return v ? __builtin_clz((unsigned)v) : 32; }
static inline int __clzll(long long v) { return v ? __builtin_clzll((unsigned long long)v) : 64; }
static inline int __ffs(int v) { return __builtin_ffs(v); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
static inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
static inline int __mul24(int a, int b) { return a * b; }
static inline unsigned __brev(unsigned v) {
  unsigned to = 0;
  for (int i = 0; i < 32; ++i) to |= (v >> i & 1) << (31 - i);
  return to;
}
static inline long long clock64() {
  static long long ticks;
  return ++ticks;
}

extern "C" int abs(int) noexcept(true);
static inline long abs(long v) { return v < 0 ? -v : v; }
static inline long long abs(long long v) { return v < 0 ? -v : v; }

template <class T> struct tern_mock_is_integer {};
#define TERN_MOCK_INTEGER(T)                                                                                           \
  template <> struct tern_mock_is_integer<T> { typedef double real; };
TERN_MOCK_INTEGER(char)
TERN_MOCK_INTEGER(signed char)
TERN_MOCK_INTEGER(unsigned char)
TERN_MOCK_INTEGER(short)
TERN_MOCK_INTEGER(unsigned short)
TERN_MOCK_INTEGER(int)
TERN_MOCK_INTEGER(unsigned)
TERN_MOCK_INTEGER(long)
TERN_MOCK_INTEGER(unsigned long)
TERN_MOCK_INTEGER(long long)
TERN_MOCK_INTEGER(unsigned long long)

// As in CUDA there are those for double and float by one name, and C's names for float.
#define TERN_MOCK_OF_ONE(name)                                                                                         \
  extern "C" double name(double) noexcept(true);                                                                       \
  extern "C" float name##f(float) noexcept(true);                                                                      \
  static inline float name(float x) { return __builtin_##name##f(x); }                                                 \
  template <class T> static inline typename tern_mock_is_integer<T>::real name(T x) { return __builtin_##name(x); }
#define TERN_MOCK_OF_TWO(name)                                                                                         \
  extern "C" double name(double, double) noexcept(true);                                                               \
  extern "C" float name##f(float, float) noexcept(true);                                                               \
  static inline float name(float x, float y) { return __builtin_##name##f(x, y); }                                     \
  static inline double name(double x, float y) { return __builtin_##name(x, y); }                                      \
  static inline double name(float x, double y) { return __builtin_##name(x, y); }                                      \
  template <class T> static inline typename tern_mock_is_integer<T>::real name(T x, double y) {                        \
    return __builtin_##name(x, y);                                                                                     \
  }                                                                                                                    \
  template <class T> static inline typename tern_mock_is_integer<T>::real name(double x, T y) {                        \
    return __builtin_##name(x, y);                                                                                     \
  }                                                                                                                    \
  template <class T> static inline typename tern_mock_is_integer<T>::real name(float x, T y) {                         \
    return __builtin_##name(x, y);                                                                                     \
  }
TERN_MOCK_OF_ONE(acos)
TERN_MOCK_OF_ONE(acosh)
TERN_MOCK_OF_ONE(asin)
TERN_MOCK_OF_ONE(asinh)
TERN_MOCK_OF_ONE(atan)
TERN_MOCK_OF_ONE(atanh)
TERN_MOCK_OF_ONE(cbrt)
TERN_MOCK_OF_ONE(ceil)
TERN_MOCK_OF_ONE(cos)
TERN_MOCK_OF_ONE(cosh)
TERN_MOCK_OF_ONE(erf)
TERN_MOCK_OF_ONE(erfc)
TERN_MOCK_OF_ONE(exp)
TERN_MOCK_OF_ONE(exp2)
TERN_MOCK_OF_ONE(expm1)
TERN_MOCK_OF_ONE(fabs)
TERN_MOCK_OF_ONE(floor)
TERN_MOCK_OF_ONE(lgamma)
TERN_MOCK_OF_ONE(log)
TERN_MOCK_OF_ONE(log10)
TERN_MOCK_OF_ONE(log1p)
TERN_MOCK_OF_ONE(log2)
TERN_MOCK_OF_ONE(nearbyint)
TERN_MOCK_OF_ONE(rint)
TERN_MOCK_OF_ONE(round)
TERN_MOCK_OF_ONE(sin)
TERN_MOCK_OF_ONE(sinh)
TERN_MOCK_OF_ONE(sqrt)
TERN_MOCK_OF_ONE(tan)
TERN_MOCK_OF_ONE(tanh)
TERN_MOCK_OF_ONE(tgamma)
TERN_MOCK_OF_ONE(trunc)
TERN_MOCK_OF_TWO(atan2)
TERN_MOCK_OF_TWO(copysign)
TERN_MOCK_OF_TWO(fdim)
TERN_MOCK_OF_TWO(fmax)
TERN_MOCK_OF_TWO(fmin)
TERN_MOCK_OF_TWO(fmod)
TERN_MOCK_OF_TWO(hypot)
TERN_MOCK_OF_TWO(pow)
TERN_MOCK_OF_TWO(remainder)
extern "C" double fma(double, double, double) noexcept(true);
extern "C" float fmaf(float, float, float) noexcept(true);
static inline float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
extern "C" double ldexp(double, int) noexcept(true);
extern "C" float ldexpf(float, int) noexcept(true);
static inline float ldexp(float x, int n) { return __builtin_ldexpf(x, n); }
extern "C" double frexp(double, int*) noexcept(true);
static inline float frexp(float x, int* n) { return __builtin_frexpf(x, n); }
static inline float rsqrtf(float x) { return 1.0f / __builtin_sqrtf(x); }
static inline float rsqrt(float x) { return rsqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
static inline float rcbrtf(float x) { return 1.0f / __builtin_cbrtf(x); }
static inline float exp10f(float x) { return __builtin_powf(10.0f, x); }
static inline double exp10(double x) { return __builtin_pow(10.0, x); }
static inline void sincosf(float x, float* s, float* c) { *s = __builtin_sinf(x), *c = __builtin_cosf(x); }
static inline void sincos(float x, float* s, float* c) { sincosf(x, s, c); }
static inline void sincos(double x, double* s, double* c) { *s = __builtin_sin(x), *c = __builtin_cos(x); }
template <class T> static inline int isnan(T x) { return __builtin_isnan(x); }
template <class T> static inline int isinf(T x) { return __builtin_isinf(x); }
template <class T> static inline int isfinite(T x) { return __builtin_isfinite(x); }
template <class T> static inline int signbit(T x) { return __builtin_signbit(x); }

static inline float __fdividef(float a, float b) { return a / b; }
static inline float __expf(float x) { return __builtin_expf(x); }
static inline float __exp10f(float x) { return exp10f(x); }
static inline float __logf(float x) { return __builtin_logf(x); }
static inline float __log2f(float x) { return __builtin_log2f(x); }
static inline float __log10f(float x) { return __builtin_log10f(x); }
static inline float __sinf(float x) { return __builtin_sinf(x); }
static inline float __cosf(float x) { return __builtin_cosf(x); }
static inline float __tanf(float x) { return __builtin_tanf(x); }
static inline float __powf(float x, float y) { return __builtin_powf(x, y); }
static inline float __saturatef(float x) { return x > 0 ? x < 1 ? x : 1.0f : 0.0f; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fsqrt_rn(float a) { return __builtin_sqrtf(a); }
static inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline int __float2int_rn(float x) { return (int)__builtin_rintf(x); }
static inline int __float2int_rz(float x) { return (int)x; }
static inline int __float2int_rd(float x) { return (int)__builtin_floorf(x); }
static inline int __float2int_ru(float x) { return (int)__builtin_ceilf(x); }
static inline float __int2float_rn(int x) { return (float)x; }

// Numbers of two types become one as in `a + b`; those that are not numbers are left to floats' own
// rule.
#define TERN_MOCK_LESSER(T, less, more)                                                                                \
  static inline T min(T a, T b) { return less; }                                                                       \
  static inline T max(T a, T b) { return more; }
TERN_MOCK_LESSER(int, b < a ? b : a, a < b ? b : a)
TERN_MOCK_LESSER(unsigned, b < a ? b : a, a < b ? b : a)
TERN_MOCK_LESSER(long, b < a ? b : a, a < b ? b : a)
TERN_MOCK_LESSER(unsigned long, b < a ? b : a, a < b ? b : a)
TERN_MOCK_LESSER(long long, b < a ? b : a, a < b ? b : a)
TERN_MOCK_LESSER(unsigned long long, b < a ? b : a, a < b ? b : a)
TERN_MOCK_LESSER(float, __builtin_fminf(a, b), __builtin_fmaxf(a, b))
TERN_MOCK_LESSER(double, __builtin_fmin(a, b), __builtin_fmax(a, b))
template <class A, class B> static inline decltype(A() + B()) min(A a, B b) {
  return min((decltype(A() + B()))a, (decltype(A() + B()))b);
}
template <class A, class B> static inline decltype(A() + B()) max(A a, B b) {
  return max((decltype(A() + B()))a, (decltype(A() + B()))b);
}

// ---- vectors

#define TERN_MOCK_VECTORS(T, name, two, four)                                                                          \
  struct name##1 {                                                                                                     \
    T x;                                                                                                               \
  };                                                                                                                   \
  struct __attribute__((aligned(two))) name##2 {                                                                       \
    T x, y;                                                                                                            \
  };                                                                                                                   \
  struct __attribute__((aligned(four))) name##4 {                                                                      \
    T x, y, z, w;                                                                                                      \
  };                                                                                                                   \
  static inline name##1 make_##name##1(T x) { return {x}; }                                                            \
  static inline name##2 make_##name##2(T x, T y) { return {x, y}; }                                                    \
  static inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                                            \
  static inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
#define TERN_MOCK_OF_THREE(T, name)                                                                                    \
  struct name##3 {                                                                                                     \
    T x, y, z;                                                                                                         \
  };
TERN_MOCK_OF_THREE(signed char, char)
TERN_MOCK_OF_THREE(unsigned char, uchar)
TERN_MOCK_OF_THREE(short, short)
TERN_MOCK_OF_THREE(unsigned short, ushort)
TERN_MOCK_OF_THREE(int, int)
TERN_MOCK_OF_THREE(long long, longlong)
TERN_MOCK_OF_THREE(unsigned long long, ulonglong)
TERN_MOCK_OF_THREE(float, float)
TERN_MOCK_OF_THREE(double, double)
TERN_MOCK_VECTORS(signed char, char, 2, 4)
TERN_MOCK_VECTORS(unsigned char, uchar, 2, 4)
TERN_MOCK_VECTORS(short, short, 4, 8)
TERN_MOCK_VECTORS(unsigned short, ushort, 4, 8)
TERN_MOCK_VECTORS(int, int, 8, 16)
TERN_MOCK_VECTORS(unsigned, uint, 8, 16)
TERN_MOCK_VECTORS(long long, longlong, 16, 16)
TERN_MOCK_VECTORS(unsigned long long, ulonglong, 16, 16)
TERN_MOCK_VECTORS(float, float, 8, 16)
TERN_MOCK_VECTORS(double, double, 16, 16)

// ---- what kernel_text.cpp has behind the kernels

template <int... I> struct tern_mock_list {};
template <int N, int... I> struct tern_mock_count : tern_mock_count<N - 1, N - 1, I...> {};
template <int... I> struct tern_mock_count<0, I...> { typedef tern_mock_list<I...> type; };
template <class T> constexpr unsigned char tern_mock_is_pointer = 0;
template <class T> constexpr unsigned char tern_mock_is_pointer<T*> = 1;
template <class F> struct tern_mock_shape;
template <class... P> struct tern_mock_shape<void(P...)> {
  struct table {
    unsigned long offsets[sizeof...(P) + 1], sizes[sizeof...(P) + 1];
    unsigned char pointers[sizeof...(P) + 1];
  };
  static constexpr table make() {
    table t{{}, {sizeof(P)..., 0}, {tern_mock_is_pointer<P>..., 0}};
    const unsigned long aligned[] = {alignof(P)..., 1};
    unsigned long at = 0;
    for (unsigned long i = 0; i < sizeof...(P); ++i) {
      at = (at + aligned[i] - 1) / aligned[i] * aligned[i];
      t.offsets[i] = at;
      at += t.sizes[i];
    }
    return t;
  }
  static constexpr unsigned long count = sizeof...(P);
  static constexpr table values = make();
  template <void (*K)(P...), int... I> static void call(void** p, tern_mock_list<I...>) { K(*(P*)p[I]...); }
  template <void (*K)(P...)> static void run(void** p) { call<K>(p, typename tern_mock_count<sizeof...(P)>::type()); }
};
