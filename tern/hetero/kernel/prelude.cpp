// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/kernel/prelude.hpp>

namespace tern::hetero::detail {
namespace {

// In both: kernels are called tern_kernel_NAME, as OpenCL C has functions such as `mix` and `step`.
// `item` and `group` are values of structs whose members are computed when asked for. TERN_STEPS
// stands where values begin that live from region to region (below). Reductions: a group's numbers
// lie side by side, and its items take a row of them in each step, which GPUs and PoCL's vectors
// like. TERN_FOUR_STEPS: four of them at a time where that is faster; the order of what is added
// stays the same.
constexpr std::string_view common = R"(
#define TERN_REGION if (tern_sync())
#define TERN_REGION_NOSYNC if (1)
#define TERN_REGION_IN(nx, ny, nz) if (item.x < (nx) && item.y < (ny) && item.z < (nz))
#define TERN_BARRIER() tern_sync()
#define TERN_PRIVATE(T, name) T name; TERN_STEPS
#define TERN_MY(name) name
#define item (tern_item())
#define group (tern_group())
#define TERN_GROUP_REDUCE(T, name, zero, op, i, n, ...)                                                  \
  TERN_SHARED(T, tern_part_##name, [1024]);                                                              \
  T name = (zero);                                                                                       \
  {                                                                                                      \
    TERN_STEPS;                                                                                          \
    const long tern_groups = (long)group.count_x * group.count_y * group.count_z;                        \
    const long tern_at = ((long)group.z * group.count_y + group.y) * group.count_x + group.x;            \
    const long tern_n = (n), tern_last = tern_n * (tern_at + 1) / tern_groups;                           \
    const int tern_me = item.local_linear;                                                               \
    long tern_i = tern_n * tern_at / tern_groups;                                                        \
    TERN_FOUR_STEPS(name, op, i, __VA_ARGS__)                                                            \
    for (; tern_i + group.size <= tern_last; tern_i += group.size) {                                     \
      const int i = (int)tern_i + tern_me;                                                               \
      name = op(name, (__VA_ARGS__));                                                                    \
    }                                                                                                    \
    if (tern_i + tern_me < tern_last) {                                                                  \
      const int i = (int)tern_i + tern_me;                                                               \
      name = op(name, (__VA_ARGS__));                                                                    \
    }                                                                                                    \
    tern_sync();                                                                                         \
    tern_part_##name[tern_me] = name;                                                                    \
    tern_sync();                                                                                         \
    for (int tern_left = group.size; tern_left > 1;) {                                                   \
      const int tern_half = (tern_left + 1) / 2;                                                         \
      if (tern_me + tern_half < tern_left)                                                               \
        tern_part_##name[tern_me] = op(tern_part_##name[tern_me], tern_part_##name[tern_me + tern_half]); \
      tern_sync();                                                                                       \
      tern_left = tern_half;                                                                             \
    }                                                                                                    \
    name = tern_part_##name[0];                                                                          \
  }
)";

constexpr std::string_view opencl = R"(#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#define TERN_GLOBAL __global
#define TERN_LOCAL __local
#define TERN_CONSTANT __constant
#define TERN_RESTRICT restrict
#define TERN_FN static inline
#define TERN_KERNEL(name, ...) __kernel void tern_kernel_##name(__local char* tern_dynamic, ##__VA_ARGS__)
#define TERN_KERNEL_FIXED(name, SX, SY, SZ, ...) \
  __kernel __attribute__((reqd_work_group_size(SX, SY, SZ))) void \
  tern_kernel_##name(__local char* tern_dynamic, ##__VA_ARGS__)
#define TERN_SHARED(T, name, ...) __local T name __VA_ARGS__
#define TERN_DYNAMIC(T, name) __local T* const name = (__local T*)tern_dynamic

typedef struct { int x, y, z, local_x, local_y, local_z, local_linear; } tern_item_index;
typedef struct { int x, y, z, size_x, size_y, size_z, size, count_x, count_y, count_z; } tern_group_context;
static inline int tern_sync(void) { barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE); return 1; }
static inline int tern_local(void) {
  return (int)((get_local_id(2) * get_local_size(1) + get_local_id(1)) * get_local_size(0) + get_local_id(0));
}
static inline tern_item_index tern_item(void) {
  tern_item_index i;
  i.x = (int)get_global_id(0); i.y = (int)get_global_id(1); i.z = (int)get_global_id(2);
  i.local_x = (int)get_local_id(0); i.local_y = (int)get_local_id(1); i.local_z = (int)get_local_id(2);
  i.local_linear = tern_local();
  return i;
}
static inline tern_group_context tern_group(void) {
  tern_group_context g;
  g.x = (int)get_group_id(0); g.y = (int)get_group_id(1); g.z = (int)get_group_id(2);
  g.size_x = (int)get_local_size(0); g.size_y = (int)get_local_size(1); g.size_z = (int)get_local_size(2);
  g.size = g.size_x * g.size_y * g.size_z;
  g.count_x = (int)get_num_groups(0); g.count_y = (int)get_num_groups(1); g.count_z = (int)get_num_groups(2);
  return g;
}
// PoCL (3.1) turns a loop that all items go through into steps that all of them take together,
// vectorised, only in kernels with some barrier; without, each item goes through it alone: up to
// five times slower. Others lose nothing.
#ifdef POCL_DEVICE_ADDRESS_BITS
#define TERN_STEPS barrier(CLK_LOCAL_MEM_FENCE)
#else
#define TERN_STEPS (void)0
#endif
#define TERN_FOUR_STEPS(name, op, i, ...)

#define TERN_OVERLOADED __attribute__((overloadable)) static inline
#define TERN_INTEGER_ATOMICS(space, T)                                                                          \
  TERN_OVERLOADED T fetch_add(volatile space T* p, T v) { return atomic_add(p, v); }                            \
  TERN_OVERLOADED T fetch_min(volatile space T* p, T v) { return atomic_min(p, v); }                            \
  TERN_OVERLOADED T fetch_max(volatile space T* p, T v) { return atomic_max(p, v); }                            \
  TERN_OVERLOADED T compare_exchange(volatile space T* p, T expected, T desired) {                              \
    return atomic_cmpxchg(p, expected, desired);                                                                \
  }
#define TERN_FLOAT_ATOMIC(space, name, result)                                                                  \
  TERN_OVERLOADED float name(volatile space float* p, float v) {                                                \
    for (;;) {                                                                                                  \
      const float before = *p;                                                                                  \
      if (atomic_cmpxchg((volatile space uint*)p, as_uint(before), as_uint((float)(result))) == as_uint(before)) \
        return before;                                                                                          \
    }                                                                                                           \
  }
#define TERN_ATOMICS(space)                                                                                     \
  TERN_INTEGER_ATOMICS(space, int)                                                                              \
  TERN_INTEGER_ATOMICS(space, uint)                                                                             \
  TERN_FLOAT_ATOMIC(space, fetch_add, before + v)                                                               \
  TERN_FLOAT_ATOMIC(space, fetch_min, v < before ? v : before)                                                  \
  TERN_FLOAT_ATOMIC(space, fetch_max, before < v ? v : before)                                                  \
  TERN_OVERLOADED float compare_exchange(volatile space float* p, float expected, float desired) {              \
    return as_float(atomic_cmpxchg((volatile space uint*)p, as_uint(expected), as_uint(desired)));              \
  }
TERN_ATOMICS(__global)
TERN_ATOMICS(__local)
)";

// NVRTC must not tell of functions that are not called: of those below it would fill the log of
// every error.
constexpr std::string_view cuda = R"(#ifdef __NVCC_DIAG_PRAGMA_SUPPORT__
#pragma nv_diag_suppress 177
#endif
typedef unsigned int uint;
#define TERN_GLOBAL
#define TERN_LOCAL
#define TERN_CONSTANT const
#define TERN_RESTRICT __restrict__
#define TERN_FN static __device__ __forceinline__
#ifdef TERN_FUSED
#define TERN_KERNEL(name, ...) TERN_FUSED_KERNEL(name, , __VA_ARGS__)
#define TERN_KERNEL_FIXED(name, SX, SY, SZ, ...) \
  TERN_FUSED_KERNEL(name, __launch_bounds__((SX) * (SY) * (SZ)), __VA_ARGS__)
#else
#define TERN_KERNEL(name, ...) extern "C" __global__ void tern_kernel_##name(__VA_ARGS__)
#define TERN_KERNEL_FIXED(name, SX, SY, SZ, ...) \
  extern "C" __global__ void __launch_bounds__((SX) * (SY) * (SZ)) tern_kernel_##name(__VA_ARGS__)
#endif
#define TERN_SHARED(T, name, ...) __shared__ T name __VA_ARGS__
#define TERN_DYNAMIC(T, name) extern __shared__ __align__(16) char tern_dynamic[]; T* const name = (T*)tern_dynamic

struct tern_item_index { int x, y, z, local_x, local_y, local_z, local_linear; };
struct tern_group_context { int x, y, z, size_x, size_y, size_z, size, count_x, count_y, count_z; };
static __device__ __forceinline__ int tern_sync() { __syncthreads(); return 1; }
static __device__ __forceinline__ int tern_local() {
  return (int)((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x);
}
static __device__ __forceinline__ tern_item_index tern_item() {
  return {(int)(blockIdx.x * blockDim.x + threadIdx.x), (int)(blockIdx.y * blockDim.y + threadIdx.y),
          (int)(blockIdx.z * blockDim.z + threadIdx.z), (int)threadIdx.x, (int)threadIdx.y, (int)threadIdx.z,
          tern_local()};
}
static __device__ __forceinline__ tern_group_context tern_group() {
  return {(int)blockIdx.x, (int)blockIdx.y, (int)blockIdx.z, (int)blockDim.x, (int)blockDim.y, (int)blockDim.z,
          (int)(blockDim.x * blockDim.y * blockDim.z), (int)gridDim.x, (int)gridDim.y, (int)gridDim.z};
}
#define TERN_STEPS (void)0
// NVRTC does not know how often the loop of single steps goes round: unrolled, it would look
// whether it has ended before each load. Here four loads are under way at a time.
#define TERN_FOUR_STEPS(name, op, i, ...)                                                                      \
  for (; tern_i + 4L * group.size <= tern_last; tern_i += 4L * group.size) {                                   \
    _Pragma("unroll") for (int tern_s = 0; tern_s < 4; ++tern_s) {                                             \
      const int i = (int)tern_i + tern_s * group.size + tern_me;                                               \
      name = op(name, (__VA_ARGS__));                                                                          \
    }                                                                                                          \
  }

template <class T> static __device__ __forceinline__ T tern_min(T a, T b) { return b < a ? b : a; }
template <class T> static __device__ __forceinline__ T tern_max(T a, T b) { return a < b ? b : a; }
template <class T> static __device__ __forceinline__ T clamp(T x, T low, T high) {
  return tern_min(tern_max(x, low), high);
}
static __device__ __forceinline__ int fetch_add(int* p, int v) { return atomicAdd(p, v); }
static __device__ __forceinline__ uint fetch_add(uint* p, uint v) { return atomicAdd(p, v); }
static __device__ __forceinline__ float fetch_add(float* p, float v) { return atomicAdd(p, v); }
static __device__ __forceinline__ int fetch_min(int* p, int v) { return atomicMin(p, v); }
static __device__ __forceinline__ uint fetch_min(uint* p, uint v) { return atomicMin(p, v); }
static __device__ __forceinline__ int fetch_max(int* p, int v) { return atomicMax(p, v); }
static __device__ __forceinline__ uint fetch_max(uint* p, uint v) { return atomicMax(p, v); }
static __device__ __forceinline__ int compare_exchange(int* p, int e, int d) { return atomicCAS(p, e, d); }
static __device__ __forceinline__ uint compare_exchange(uint* p, uint e, uint d) { return atomicCAS(p, e, d); }
static __device__ __forceinline__ float compare_exchange(float* p, float e, float d) {
  return __uint_as_float(atomicCAS((uint*)p, __float_as_uint(e), __float_as_uint(d)));
}
#define TERN_FLOAT_ATOMIC(name, result)                                                                        \
  static __device__ __forceinline__ float name(float* p, float v) {                                             \
    for (;;) {                                                                                                  \
      const float before = *(volatile float*)p;                                                                 \
      if (atomicCAS((uint*)p, __float_as_uint(before), __float_as_uint(result)) == __float_as_uint(before))     \
        return before;                                                                                          \
    }                                                                                                           \
  }
TERN_FLOAT_ATOMIC(fetch_min, v < before ? v : before)
TERN_FLOAT_ATOMIC(fetch_max, before < v ? v : before)
)";

// Before the definitions for CUDA, for launches that are several of one plane of groups each
// (cuda_fused.cpp): planes in z are the launches, each of which finds its arguments in a table.
// What is 0 in z is so for all.
static_assert(fused_table_bytes == 256 * 8);
constexpr std::string_view fused = R"(#ifdef __NVCC_DIAG_PRAGMA_SUPPORT__
#pragma nv_diag_suppress 177
#endif
#define TERN_FUSED
struct __align__(16) tern_fused_table { unsigned long long words[256]; };
template <unsigned at, class... P> struct tern_unpack {
  template <class F, class... V> static __device__ __forceinline__ void run(F f, const char*, V... v) { f(v...); }
};
template <unsigned at, class P, class... Rest> struct tern_unpack<at, P, Rest...> {
  static constexpr unsigned align = sizeof(P) % 16 == 0 ? 16 : 8, here = (at + align - 1) / align * align;
  template <class F, class... V> static __device__ __forceinline__ void run(F f, const char* all, V... v) {
    tern_unpack<here + (unsigned)sizeof(P), Rest...>::run(f, all, v..., *(const P*)(all + here));
  }
};
template <class... P> static __device__ __forceinline__ void tern_run_fused(void (*f)(P...), const char* all) {
  tern_unpack<0, P...>::run(f, all);
}
#define TERN_FUSED_KERNEL(name, bounds, ...)                                                                   \
  static __device__ __forceinline__ void tern_body_##name(__VA_ARGS__);                                         \
  extern "C" __global__ void bounds tern_fused_##name(const __grid_constant__ tern_fused_table table,           \
                                                      unsigned bytes) {                                         \
    tern_run_fused(&tern_body_##name, (const char*)table.words + tern_plane() * bytes);                         \
  }                                                                                                             \
  static __device__ __forceinline__ void tern_body_##name(__VA_ARGS__)
static __device__ __forceinline__ unsigned tern_plane() { return blockIdx.z; }
static __device__ __forceinline__ uint3 tern_block_index() { return {blockIdx.x, blockIdx.y, 0}; }
static __device__ __forceinline__ dim3 tern_grid_size() { return {gridDim.x, gridDim.y, 1}; }
#undef blockIdx
#undef gridDim
#define blockIdx (tern_block_index())
#define gridDim (tern_grid_size())
)";

} // namespace

std::string_view prelude(language l) {
  static const std::string of_opencl = std::string(opencl) + std::string(common);
  static const std::string of_cuda = std::string(cuda) + std::string(common);
  static const std::string of_fused = std::string(fused) + of_cuda;
  return l == language::opencl ? of_opencl : l == language::cuda ? of_cuda : of_fused;
}

std::string fused_name(const kernel_code& code) { return "tern_fused_" + std::string(code.name); }

std::string entry_name(const kernel_code& code) {
  return (code.form == code_form::dialect ? "tern_kernel_" : "") + std::string(code.name);
}

std::string device_source(const source_block& block, language l) { return std::string(prelude(l)) + text_of(block); }

} // namespace tern::hetero::detail
