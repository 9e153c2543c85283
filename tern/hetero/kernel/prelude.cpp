// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/kernel/prelude.hpp>

#include <tern/hetero/kernel/device_math_float.hpp>
#include <tern/hetero/kernel/kernel_blocks.hpp>

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

// With TERN_FUSED planes in z are launches, of one plane of groups each: what is 0 in z is
// so for all.
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
#ifdef TERN_FUSED
  i.z = (int)get_local_id(2);
#endif
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
#ifdef TERN_FUSED
  g.z = 0; g.count_z = 1;
#endif
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

// NVRTC must not tell of functions that are not called, or are friends and no templates: of those
// below it would fill the log of every error.
constexpr std::string_view cuda = R"(#ifdef __NVCC_DIAG_PRAGMA_SUPPORT__
#pragma nv_diag_suppress 177
#pragma nv_diag_suppress 1301
#endif
typedef unsigned int uint;
#define TERN_GLOBAL
#define TERN_LOCAL
#define TERN_CONSTANT const
#define TERN_RESTRICT __restrict__
#define TERN_FN static __device__ __forceinline__
#define TERN_KERNEL(name, ...) TERN_KERNEL_OF(name, , __VA_ARGS__)
#define TERN_KERNEL_FIXED(name, SX, SY, SZ, ...) \
  TERN_KERNEL_OF(name, __launch_bounds__((SX) * (SY) * (SZ)), __VA_ARGS__)
#define TERN_KERNEL_OF(name, bounds, ...)                                                                      \
  namespace tern_kernels {                                                                                     \
  struct tern_tag_of_##name {};                                                                                \
  enum { tern_place_of_##name = tern_free_place<tern_tag_of_##name>() };                                       \
  static_assert(sizeof(tern_take<tern_place_of_##name, tern_place_of_##name, 0, 0>) > 0, "");                  \
  }                                                                                                            \
  TERN_ENTRY(name, bounds, __VA_ARGS__)
#ifdef TERN_FUSED
#define TERN_ENTRY(name, bounds, ...) TERN_FUSED_KERNEL(name, bounds, __VA_ARGS__)
#else
#define TERN_ENTRY(name, bounds, ...) extern "C" __global__ void bounds tern_kernel_##name(__VA_ARGS__)
#endif
extern "C" {
extern __shared__ __align__(16) char tern_dynamic[];
}
#define TERN_DYNAMIC(T, name) T* const name = (T*)tern_dynamic

// A kernel has at most 48 KiB of its own. TERN_SHARED beyond that lies at the end of dynamic
// memory, whose size is known when the kernel runs. Each kernel, and each TERN_SHARED in it, takes
// a place in one row, the next that is free, and says there what is taken so far. (NVRTC has no
// __COUNTER__; what has been said in the row is found as a friend. Tags make each search one of
// its own.)
template <int Kernel, int Fixed, int Large> struct tern_taken {
  enum { kernel = Kernel, fixed = Fixed, large = Large };
};
template <int N> struct tern_place { friend auto tern_taken_at(tern_place<N>); };
template <int N, int Kernel, int Fixed, int Large> struct tern_take {
  friend auto tern_taken_at(tern_place<N>) { return tern_taken<Kernel, Fixed, Large>(); }
};
template <int N> using tern_at = decltype(tern_taken_at(tern_place<N>()));
template <class Tag, int N, class = tern_at<N>> constexpr bool tern_is_taken(int) { return true; }
template <class Tag, int N> constexpr bool tern_is_taken(long) { return false; }
template <class Tag, int Low = 0, int High = 4096> constexpr int tern_free_place() {
  if constexpr (Low == High) {
    return Low;
  } else {
    constexpr int middle = (Low + High) / 2;
    if constexpr (tern_is_taken<Tag, middle>(0))
      return tern_free_place<Tag, middle + 1, High>();
    else
      return tern_free_place<Tag, Low, middle>();
  }
}
template <class Tag, int Bytes> struct tern_more {
  enum { place = tern_free_place<Tag>() };
  typedef tern_at<place - 1> before;
  enum { fits = before::fixed + Bytes <= 48 * 1024 - 256 }; // a little for what lies between
  enum { end = before::large + (fits ? 0 : (Bytes + 15) / 16 * 16) };
  enum { size = sizeof(tern_take<place, before::kernel, before::fixed + (fits ? Bytes : 8), end>) };
};
static __device__ __forceinline__ char* tern_large_block(int end) {
  unsigned size;
  asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(size));
  return tern_dynamic + (size - (unsigned)end);
}
template <bool Fits> struct tern_block {
  template <class A> struct kept { typedef A type; };
  template <class A> static __device__ __forceinline__ A& at(A& here, int) { return here; }
};
template <> struct tern_block<false> {
  template <class A> struct kept { typedef char type; };
  template <class A> static __device__ __forceinline__ A& at(char&, int end) { return *(A*)tern_large_block(end); }
};
#define TERN_SHARED(T, name, ...)                                                                              \
  typedef T tern_type_of_##name __VA_ARGS__;                                                                   \
  struct tern_tag_of_##name { char unused; };                                                                  \
  typedef tern_more<tern_tag_of_##name, (int)sizeof(tern_type_of_##name)> tern_more_of_##name;                 \
  static_assert(tern_more_of_##name::size > 0, "");                                                            \
  typedef tern_block<(bool)tern_more_of_##name::fits> tern_block_of_##name;                                          \
  __shared__ typename tern_block_of_##name::template kept<tern_type_of_##name>::type tern_shared_##name;       \
  tern_type_of_##name& name =                                                                                  \
    tern_block_of_##name::template at<tern_type_of_##name>(tern_shared_##name, tern_more_of_##name::end)
// Behind the kernels: symbols of as many bytes as 16 bytes of dynamic memory are wanted, and one.
template <int Kernel, int N, int End> constexpr int tern_large_from(int so_far) {
  if constexpr (Kernel >= 0 && N < End) {
    if constexpr (tern_at<N>::kernel == Kernel) return tern_large_from<Kernel, N + 1, End>(tern_at<N>::large);
  }
  return so_far;
}
template <int Begin, int End> constexpr int tern_most_large() {
  if constexpr (End - Begin > 1) {
    constexpr int a = tern_most_large<Begin, (Begin + End) / 2>(), b = tern_most_large<(Begin + End) / 2, End>();
    return a > b ? a : b;
  } else if constexpr (End - Begin == 1) {
    return tern_at<Begin>::large;
  }
  return 0;
}
#define TERN_END_OF_KERNELS                                                                                    \
  struct tern_tag_of_end {};                                                                                   \
  enum { tern_places = tern_free_place<tern_tag_of_end>() };                                                   \
  extern "C" {                                                                                                 \
  __device__ char tern_large_blocks[tern_most_large<0, tern_places>() / 16 + 1];                               \
  }
// A name that stands in the text and is no kernel there (`#if`, comments) is found without.
#define TERN_LARGE_OF(name)                                                                                    \
  enum { tern_place_of_##name = -1 };                                                                          \
  namespace tern_kernels {                                                                                     \
  extern "C" {                                                                                                 \
  __device__ char                                                                                              \
    tern_large_of_##name[tern_large_from<tern_place_of_##name, tern_place_of_##name, tern_places>(0) / 16 + 1]; \
  }                                                                                                            \
  }

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
  static const std::string functions =
      text_of(tern_math::tern_source()) + text_of(tern_math_float::tern_source()) + std::string(clang_cuda_functions());
  static const std::string of_clang = std::string(clang_cuda()) + of_cuda + functions;
  static const std::string of_clang_fused = std::string(clang_cuda()) + of_fused + functions;
  static const std::string of_opencl_fused = "#define TERN_FUSED\n" + of_opencl;
  switch (l) {
  case language::opencl:
    return of_opencl;
  case language::opencl_fused:
    return of_opencl_fused;
  case language::cuda:
    return of_cuda;
  case language::cuda_fused:
    return of_fused;
  case language::cuda_clang:
    return of_clang;
  case language::cuda_clang_fused:
    break;
  }
  return of_clang_fused;
}

std::string fused_name(const kernel_code& code) { return "tern_fused_" + std::string(code.name); }

std::string entry_name(const kernel_code& code) {
  return (code.form == code_form::dialect ? "tern_kernel_" : "") + std::string(code.name);
}

std::string large_symbol(const kernel_code& code) { return "tern_large_of_" + std::string(code.name); }

std::string device_source(const source_block& block, language l) {
  std::string text = text_of(block);
  if (l != language::opencl) {
    std::string end = "\nTERN_END_OF_KERNELS\n";
    for (const std::string& kernel : kernels_in(text)) end += "TERN_LARGE_OF(" + kernel + ")\n";
    text += end;
  }
  if (l == language::cuda_clang || l == language::cuda_clang_fused) // as NVRTC is told: there is nothing but devices
    text = "#pragma clang force_cuda_host_device begin\n" + text + "\n#pragma clang force_cuda_host_device end\n";
  return std::string(prelude(l)) + text;
}

} // namespace tern::hetero::detail
