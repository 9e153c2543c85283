// SPDX-License-Identifier: Apache-2.0
// CUDA as clang reads it, where nothing of NVIDIA's is.
#include <tern/hetero/kernel/prelude.hpp>

namespace tern::hetero::detail {

std::string_view clang_cuda() {
  // Clang brings `threadIdx` and its like itself: `-include __clang_cuda_builtin_vars.h`.
  return R"(
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __align__(n) __attribute__((aligned(n)))

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
};

__device__ unsigned int __float_as_uint(float);
__device__ float __uint_as_float(unsigned int);

#define TERN_ATOMIC(T) \
  __device__ T atomicAdd(T*, T); \
  __device__ T atomicMin(T*, T); \
  __device__ T atomicMax(T*, T); \
  __device__ T atomicCAS(T*, T, T);
TERN_ATOMIC(int)
TERN_ATOMIC(unsigned int)
__device__ float atomicAdd(float*, float);
#undef TERN_ATOMIC

#define TERN_NUMBER(T) \
  static __device__ __forceinline__ T min(T a, T b) { return b < a ? b : a; } \
  static __device__ __forceinline__ T max(T a, T b) { return a < b ? b : a; }
TERN_NUMBER(int)
TERN_NUMBER(unsigned int)
TERN_NUMBER(long)
TERN_NUMBER(unsigned long)
TERN_NUMBER(float)
TERN_NUMBER(double)
#undef TERN_NUMBER

__device__ int abs(int);
__device__ long abs(long);
#define TERN_OF_ONE(name) \
  __device__ float name(float); \
  __device__ double name(double);
#define TERN_OF_TWO(name) \
  __device__ float name(float, float); \
  __device__ double name(double, double);
TERN_OF_ONE(acos)
TERN_OF_ONE(acosh)
TERN_OF_ONE(asin)
TERN_OF_ONE(asinh)
TERN_OF_ONE(atan)
TERN_OF_ONE(atanh)
TERN_OF_ONE(cbrt)
TERN_OF_ONE(ceil)
TERN_OF_ONE(cos)
TERN_OF_ONE(cosh)
TERN_OF_ONE(erf)
TERN_OF_ONE(erfc)
TERN_OF_ONE(exp)
TERN_OF_ONE(exp2)
TERN_OF_ONE(expm1)
TERN_OF_ONE(fabs)
TERN_OF_ONE(floor)
TERN_OF_ONE(log)
TERN_OF_ONE(log10)
TERN_OF_ONE(log1p)
TERN_OF_ONE(log2)
TERN_OF_ONE(rint)
TERN_OF_ONE(round)
TERN_OF_ONE(rsqrt)
TERN_OF_ONE(sin)
TERN_OF_ONE(sinh)
TERN_OF_ONE(sqrt)
TERN_OF_ONE(tan)
TERN_OF_ONE(tanh)
TERN_OF_ONE(trunc)
TERN_OF_TWO(atan2)
TERN_OF_TWO(copysign)
TERN_OF_TWO(fdim)
TERN_OF_TWO(fmax)
TERN_OF_TWO(fmin)
TERN_OF_TWO(fmod)
TERN_OF_TWO(hypot)
TERN_OF_TWO(pow)
TERN_OF_TWO(remainder)
__device__ float fma(float, float, float);
__device__ double fma(double, double, double);
__device__ float ldexp(float, int);
__device__ double ldexp(double, int);
#undef TERN_OF_ONE
#undef TERN_OF_TWO
)";
}

} // namespace tern::hetero::detail
