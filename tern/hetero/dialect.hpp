// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The kernel dialect: kernels written once, in a C++ file like any other, which run on host,
/// OpenCL and CUDA devices.
///
/// ```cpp
/// TERN_KERNELS_BEGIN(blas)
/// TERN_KERNEL(axpy, int n, double a, TERN_GLOBAL const double* x, TERN_GLOBAL double* y)
/// {
///   TERN_REGION_IN(n, 1, 1) { y[item.x] += a * x[item.x]; };
/// }
/// TERN_KERNELS_END(blas)
/// ```
///
/// defines the kernel `blas::axpy`. The lines between the two markers are read by the host's C++
/// compiler here, and, as they stand, by the compilers of the devices at run time: each names this
/// file and its lines in its errors. So they must be both C++ and C99 (with structs, helpers and
/// `#define`s, without templates, `bool` or `size_t` parameters).
///
/// A kernel runs for a grid of groups of items, in up to three dimensions, as in OpenCL and CUDA.
/// Its body is executed once for each group; the items of a group work inside regions:
/// - `TERN_REGION { … };` is done by all items. Whatever was written before it, by any item of the
///   group, is seen.
/// - `TERN_REGION_NOSYNC { … };` the same without that promise, for items that look only at what is
///   their own. Cheaper.
/// - `TERN_REGION_IN(nx, ny, nz) { … };` is done only by items with a grid index below (nx, ny,
///   nz). It does not have that promise either.
/// - On the host a region is a loop, which is vectorised: its iterations must not depend on each
///   other. What is declared outside of regions belongs to the group and cannot be written inside
///   them (the compiler says "read-only"). `return`, `break` and `continue` must not leave a
///   region. `TERN_BARRIER();` stands between regions; inside a region it is an error, and so is
///   another region.
///
/// Inside a region `item.x`, `.y`, `.z` is the item's index in the grid, `item.local_x`, … that in
/// its group and `item.local_linear` the same in one number; everywhere `group.x`, … is the group's
/// index, `group.size_x`, … how many items it has, `group.size` all of them, `group.count_x`, … how
/// many groups there are. All are `int`: unsigned ones are not vectorised as well.
///
/// - `TERN_SHARED(T, name, [16][16]);` memory of the group; `TERN_DYNAMIC(T, name);` the block
///   whose size is given when the kernel is launched. Neither is initialised.
/// - `TERN_PRIVATE(T, name);` a value for each item that lives across regions, used as
///   `TERN_MY(name)`.
/// - `TERN_GROUP_REDUCE(T, name, zero, op, i, n, expression);` declares `T name`, the group's part
///   of `op` over `expression` for i in [0, n): all groups' parts together are each i once. The
///   order is the device's.
/// - `fetch_add`, `fetch_min`, `fetch_max` (p, v) and `compare_exchange` (p, expected, desired) on
///   int, unsigned and float in either memory return what was there; relaxed.
/// - Functions of <math.h> for float and double, `rsqrt`; `TERN_FN T helper(…)` for functions of
///   one's own.
/// - `TERN_KERNEL_FIXED(name, 16, 16, 1, …)` has groups of just this size, which every compiler
///   uses.
///
/// Compile with -O3 and -fno-math-errno. The results of two devices differ in the last bits where
/// one of them contracts a multiplication and an addition; docs/concepts/kernels.md says how to
/// forbid that.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <type_traits>

#include <tern/hetero/kernel.hpp>

namespace tern::hetero::dialect {

/// Where a group stands, as `group` in kernels.
struct group_context {
  static constexpr bool fixed = false;
  int x, y, z;
  int size_x, size_y, size_z, size;
  int count_x, count_y, count_z;
  char* dynamic; ///< aligned to 64 bytes

  // Regions have a constant copy.
  void a_barrier_cannot_stand_inside_a_region() {}
  void a_barrier_cannot_stand_inside_a_region() const = delete;
};

/// The same with a size that compilers know.
template <int SX, int SY, int SZ> struct fixed_group_context {
  static constexpr bool fixed = true;
  static constexpr int size_x = SX, size_y = SY, size_z = SZ, size = SX * SY * SZ;
  int x, y, z;
  int count_x, count_y, count_z;
  char* dynamic;

  fixed_group_context(const group_context& g)
      : x(g.x), y(g.y), z(g.z), count_x(g.count_x), count_y(g.count_y), count_z(g.count_z), dynamic(g.dynamic) {}
  void a_barrier_cannot_stand_inside_a_region() {}
  void a_barrier_cannot_stand_inside_a_region() const = delete;
};

/// Where an item stands, as `item` in regions.
struct item_index {
  int x, y, z;
  int local_x, local_y, local_z, local_linear;
};

namespace detail {

// What regions are on the host: `group + body` and `clipped + body` call the body for each item.
// Always inlined, so that the loop is one of the kernel's function, with its target.
#define TERN_INLINED __attribute__((always_inline))
#if defined(__clang__)
#define TERN_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define TERN_INDEPENDENT _Pragma("GCC ivdep")
#endif

#if defined(__clang__) // it says so if it does not vectorise a loop, which is no fault of the kernel's
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpass-failed"
#endif
template <class Group, class Body>
TERN_INLINED inline void each_item(const Group& g, int nx, int ny, int nz, const Body& body) {
  const int x0 = g.x * g.size_x, y0 = g.y * g.size_y, z0 = g.z * g.size_z;
  for (int z = 0; z < nz; ++z)
    for (int y = 0; y < ny; ++y) {
      const int row = (z * g.size_y + y) * g.size_x;
      TERN_INDEPENDENT
      for (int x = 0; x < nx; ++x) body(item_index{x0 + x, y0 + y, z0 + z, x, y, z, row + x});
    }
}

#if defined(__clang__)
#pragma clang diagnostic pop
#endif

template <class Group> struct clipped {
  const Group& group;
  int nx, ny, nz;
};
template <class Group> TERN_INLINED inline clipped<Group> clip(Group& g, int nx, int ny, int nz) {
  static_assert(!std::is_const_v<Group>, "a region cannot stand inside a region"); // which captures a constant group
  return {g, nx, ny, nz};
}

/// \return its dimensions stripped off: what an element of T[..][..] is, as a row.
template <class T> using row_of = std::remove_reference_t<decltype(std::declval<T&>()[0])>;

template <class T> TERN_INLINED inline T fold(T a, T (*op)(T, T), T b) { return op(a, b); }

} // namespace detail

template <class Group, class Body>
requires requires { Group::fixed; }
TERN_INLINED inline void operator+(Group& g, const Body& body) {
  static_assert(!std::is_const_v<Group>, "a region cannot stand inside a region"); // which captures a constant group
  detail::each_item(g, g.size_x, g.size_y, g.size_z, body);
}
template <class Group, class Body>
TERN_INLINED inline void operator+(const detail::clipped<Group>& c, const Body& body) {
  const Group& g = c.group;
  detail::each_item(g, std::min<int>(g.size_x, c.nx - g.x * g.size_x), std::min<int>(g.size_y, c.ny - g.y * g.size_y),
                    std::min<int>(g.size_z, c.nz - g.z * g.size_z), body);
}

// What kernels may call -----------------------------------------------------------------------------------------------

using uint = unsigned int;

using std::acos, std::acosh, std::asin, std::asinh, std::atan, std::atan2, std::atanh, std::cbrt, std::ceil,
    std::copysign, std::cos, std::cosh, std::erf, std::erfc, std::exp, std::exp2, std::expm1, std::fabs, std::fdim,
    std::floor, std::fma, std::fmax, std::fmin, std::fmod, std::hypot, std::ldexp, std::log, std::log10, std::log1p,
    std::log2, std::pow, std::remainder, std::rint, std::round, std::sin, std::sinh, std::sqrt, std::tan, std::tanh,
    std::trunc;
inline float rsqrt(float x) { return 1 / std::sqrt(x); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
template <class T> constexpr T min(T a, T b) { return b < a ? b : a; }
template <class T> constexpr T max(T a, T b) { return a < b ? b : a; }
template <class T> constexpr T clamp(T x, T low, T high) { return min(max(x, low), high); }
using ::abs, std::abs; // of integers; fabs for the others

template <class T>
concept atomic_number = std::is_same_v<T, int> || std::is_same_v<T, unsigned> || std::is_same_v<T, float>;

/// \return what was there.
template <atomic_number T> T compare_exchange(T* p, std::type_identity_t<T> expected, std::type_identity_t<T> desired) {
  // relaxed, as on devices: an order comes only from regions and from tasks
  std::atomic_ref<T>(*p).compare_exchange_strong(expected, desired, std::memory_order_relaxed);
  return expected;
}
template <atomic_number T> T fetch_add(T* p, std::type_identity_t<T> v) {
  return std::atomic_ref<T>(*p).fetch_add(v, std::memory_order_relaxed);
}
namespace detail {
template <class T, class Op> T fetch_op(T* p, T v, Op op) {
  std::atomic_ref<T> at(*p);
  T before = at.load(std::memory_order_relaxed);
  while (!at.compare_exchange_weak(before, op(before, v), std::memory_order_relaxed)) {
  }
  return before;
}
} // namespace detail
template <atomic_number T> T fetch_min(T* p, std::type_identity_t<T> v) {
  return detail::fetch_op<T>(p, v, [](T a, T b) { return min(a, b); });
}
template <atomic_number T> T fetch_max(T* p, std::type_identity_t<T> v) {
  return detail::fetch_op<T>(p, v, [](T a, T b) { return max(a, b); });
}

} // namespace tern::hetero::dialect

// The macros ----------------------------------------------------------------------------------------------------------

// One body for each kind of vector unit, chosen when the program is loaded. Not where that does not
// work: the thread sanitizer (it runs before the sanitizer has started), and compilers that cannot
// clone what a kernel is made of.
#ifndef TERN_KERNEL_CLONES
#if defined(__x86_64__) && defined(__ELF__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_THREAD__) && defined(__OPTIMIZE__)
#define TERN_KERNEL_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TERN_KERNEL_CLONES
#endif
#endif

#define TERN_KERNEL(name, ...)                                                                                         \
  static void tern_body_of_##name(::tern::hetero::dialect::group_context __VA_OPT__(, ) __VA_ARGS__);                  \
  [[maybe_unused]] constexpr ::tern::hetero::kernel name{#name, &tern_body_of_##name, &tern_source, {0, 0, 0}};        \
  [[maybe_unused]] TERN_KERNEL_CLONES static void tern_body_of_##name(                                                 \
      [[maybe_unused]] ::tern::hetero::dialect::group_context group __VA_OPT__(, ) __VA_ARGS__)
#define TERN_KERNEL_FIXED(name, SX, SY, SZ, ...)                                                                       \
  static void tern_body_of_##name(::tern::hetero::dialect::fixed_group_context<SX, SY, SZ> __VA_OPT__(, )              \
                                      __VA_ARGS__);                                                                    \
  [[maybe_unused]] constexpr ::tern::hetero::kernel name{#name, &tern_body_of_##name, &tern_source, {SX, SY, SZ}};     \
  [[maybe_unused]] TERN_KERNEL_CLONES static void tern_body_of_##name(                                                 \
      [[maybe_unused]] ::tern::hetero::dialect::fixed_group_context<SX, SY, SZ> group __VA_OPT__(, ) __VA_ARGS__)

#define TERN_FN [[maybe_unused]] static inline
#define TERN_GLOBAL
#define TERN_LOCAL
#define TERN_CONSTANT const
#define TERN_RESTRICT __restrict__

#define TERN_REGION group + [=](const ::tern::hetero::dialect::item_index item) TERN_INLINED
#define TERN_REGION_NOSYNC TERN_REGION
#define TERN_REGION_IN(nx, ny, nz)                                                                                     \
  ::tern::hetero::dialect::detail::clip(group, nx, ny, nz) + [=](const ::tern::hetero::dialect::item_index item)       \
                                                                 TERN_INLINED
#define TERN_BARRIER() group.a_barrier_cannot_stand_inside_a_region()

#define TERN_SHARED(T, name, ...)                                                                                      \
  alignas(64) T tern_shared_##name __VA_ARGS__;                                                                        \
  auto* const name = &tern_shared_##name[0]
#define TERN_DYNAMIC(T, name) T* const name = reinterpret_cast<T*>(group.dynamic)
// On the stack of the thread that runs the group; a group has at most 1024 items.
#define TERN_PRIVATE(T, name)                                                                                          \
  T* const name = static_cast<T*>(__builtin_alloca_with_align(sizeof(T) * static_cast<std::size_t>(group.size), 512))
#define TERN_MY(name) name[item.local_linear]

// The group's part is a piece of its own, which is read in order, in as many strands as vector
// units like.
#define TERN_GROUP_REDUCE(T, name, zero, op, i, n, ...)                                                                \
  T name = (zero);                                                                                                     \
  {                                                                                                                    \
    constexpr int tern_strands = 64 / sizeof(T) * 2;                                                                   \
    const long long tern_n = (n);                                                                                      \
    const long long tern_groups = 1LL * group.count_x * group.count_y * group.count_z;                                 \
    const long long tern_at = (1LL * group.z * group.count_y + group.y) * group.count_x + group.x;                     \
    const int tern_first = static_cast<int>(tern_n * tern_at / tern_groups);                                           \
    const int tern_last = static_cast<int>(tern_n * (tern_at + 1) / tern_groups);                                      \
    T tern_parts[tern_strands];                                                                                        \
    for (int tern_s = 0; tern_s < tern_strands; ++tern_s) tern_parts[tern_s] = (zero);                                 \
    int tern_i = tern_first;                                                                                           \
    for (; tern_i + tern_strands <= tern_last; tern_i += tern_strands) {                                               \
      TERN_INDEPENDENT                                                                                                 \
      for (int tern_s = 0; tern_s < tern_strands; ++tern_s) {                                                          \
        const int i = tern_i + tern_s;                                                                                 \
        tern_parts[tern_s] = op(tern_parts[tern_s], (__VA_ARGS__));                                                    \
      }                                                                                                                \
    }                                                                                                                  \
    for (; tern_i < tern_last; ++tern_i) {                                                                             \
      const int i = tern_i;                                                                                            \
      name = op(name, (__VA_ARGS__));                                                                                  \
    }                                                                                                                  \
    for (int tern_s = 0; tern_s < tern_strands; ++tern_s) name = op(name, tern_parts[tern_s]);                         \
  }                                                                                                                    \
  static_assert(true)

#include <tern/hetero/kernel/host_groups.hpp> // how kernels run on the host, for all that have any
