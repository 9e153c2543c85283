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
#ifndef __grid_constant__
#define __grid_constant__
#endif
#define TERN_DEVICE static __device__ __forceinline__

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
};

TERN_DEVICE unsigned int __float_as_uint(float v) { return (unsigned int)__nvvm_bitcast_f2i(v); }
TERN_DEVICE float __uint_as_float(unsigned int v) { return __nvvm_bitcast_i2f((int)v); }

TERN_DEVICE int atomicAdd(int* p, int v) { return __nvvm_atom_add_gen_i(p, v); }
TERN_DEVICE int atomicMin(int* p, int v) { return __nvvm_atom_min_gen_i(p, v); }
TERN_DEVICE int atomicMax(int* p, int v) { return __nvvm_atom_max_gen_i(p, v); }
TERN_DEVICE int atomicCAS(int* p, int expected, int v) { return __nvvm_atom_cas_gen_i(p, expected, v); }
TERN_DEVICE unsigned int atomicAdd(unsigned int* p, unsigned int v) {
  return (unsigned int)__nvvm_atom_add_gen_i((int*)p, (int)v);
}
TERN_DEVICE unsigned int atomicMin(unsigned int* p, unsigned int v) { return __nvvm_atom_min_gen_ui(p, v); }
TERN_DEVICE unsigned int atomicMax(unsigned int* p, unsigned int v) { return __nvvm_atom_max_gen_ui(p, v); }
TERN_DEVICE unsigned int atomicCAS(unsigned int* p, unsigned int expected, unsigned int v) {
  return (unsigned int)__nvvm_atom_cas_gen_i((int*)p, (int)expected, (int)v);
}
TERN_DEVICE float atomicAdd(float* p, float v) { return __nvvm_atom_add_gen_f(p, v); }

#define TERN_NUMBER(T) \
  TERN_DEVICE T min(T a, T b) { return b < a ? b : a; } \
  TERN_DEVICE T max(T a, T b) { return a < b ? b : a; }
TERN_NUMBER(int)
TERN_NUMBER(unsigned int)
TERN_NUMBER(long)
TERN_NUMBER(unsigned long)
TERN_NUMBER(float)
TERN_NUMBER(double)
#undef TERN_NUMBER

TERN_DEVICE int abs(int v) { return v < 0 ? -v : v; }
TERN_DEVICE long abs(long v) { return v < 0 ? -v : v; }
#define TERN_OF_ONE(name) \
  TERN_DEVICE float name(float x) { return __builtin_##name##f(x); } \
  TERN_DEVICE double name(double x) { return __builtin_##name(x); }
#define TERN_OF_TWO(name) \
  TERN_DEVICE float name(float x, float y) { return __builtin_##name##f(x, y); } \
  TERN_DEVICE double name(double x, double y) { return __builtin_##name(x, y); }
TERN_OF_ONE(ceil)
TERN_OF_ONE(fabs)
TERN_OF_ONE(floor)
TERN_OF_ONE(rint)
TERN_OF_ONE(round)
TERN_OF_ONE(sqrt)
TERN_OF_ONE(trunc)
TERN_OF_TWO(copysign)
TERN_OF_TWO(fmax)
TERN_OF_TWO(fmin)
#undef TERN_OF_ONE
#undef TERN_OF_TWO
TERN_DEVICE float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
TERN_DEVICE double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
// Only NVRTC has these: what uses them has no PTX from here (tern kernels ptx).
__device__ float erf(float);
__device__ double erf(double);
__device__ float erfc(float);
__device__ double erfc(double);
)";
}

std::string_view clang_cuda_functions() {
  return R"(
#define TERN_OF_ONE(name) \
  TERN_DEVICE float name(float x) { return tern_##name##f(x); } \
  TERN_DEVICE double name(double x) { return tern_##name(x); }
#define TERN_OF_TWO(name) \
  TERN_DEVICE float name(float x, float y) { return tern_##name##f(x, y); } \
  TERN_DEVICE double name(double x, double y) { return tern_##name(x, y); }
TERN_OF_ONE(acos)
TERN_OF_ONE(acosh)
TERN_OF_ONE(asin)
TERN_OF_ONE(asinh)
TERN_OF_ONE(atan)
TERN_OF_ONE(atanh)
TERN_OF_ONE(cbrt)
TERN_OF_ONE(cos)
TERN_OF_ONE(cosh)
TERN_OF_ONE(exp)
TERN_OF_ONE(exp2)
TERN_OF_ONE(expm1)
TERN_OF_ONE(log)
TERN_OF_ONE(log10)
TERN_OF_ONE(log1p)
TERN_OF_ONE(log2)
TERN_OF_ONE(sin)
TERN_OF_ONE(sinh)
TERN_OF_ONE(tan)
TERN_OF_ONE(tanh)
TERN_OF_TWO(atan2)
TERN_OF_TWO(fdim)
TERN_OF_TWO(fmod)
TERN_OF_TWO(hypot)
TERN_OF_TWO(pow)
TERN_OF_TWO(remainder)
#undef TERN_OF_ONE
#undef TERN_OF_TWO
// One instruction, as of NVRTC: two ulp at most (PTX ISA, rsqrt).
TERN_DEVICE float rsqrt(float x) { return __nvvm_rsqrt_approx_f(x); }
TERN_DEVICE double rsqrt(double x) { return 1.0 / sqrt(x); }
TERN_DEVICE float ldexp(float x, int n) { return tern_ldexpf(x, n); }
TERN_DEVICE double ldexp(double x, int n) { return tern_ldexp(x, n); }
)";
}

} // namespace tern::hetero::detail
