// SPDX-License-Identifier: Apache-2.0
// What the dialect's words mean where the host checks every access.
#include <string>
#include <string_view>

#include <tern/hetero/checked/checked.hpp>

namespace tern::hetero::detail {
namespace {

// An element that is a number is read and written through a class, with a mask in the place of a
// branch: so loops are vectorised. A struct is a reference, to `spare` if it is beyond the end.
// Line numbers are those of the call: the default argument of a conversion to an index.
constexpr std::string_view classes = R"tern(
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <type_traits>
#include <utility>
#define TERN_INLINED __attribute__((always_inline))
#if defined(__clang__)
#define TERN_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define TERN_INDEPENDENT _Pragma("GCC ivdep")
#endif
namespace tern_checked {
constexpr long most = 2147483647L;
struct state {
  int bad, line;
  char* spare;
  checked_failure* failure;
  int in_item, x, y, z;
};
inline state nowhere{};

template <class T> struct pointer;
template <class T> struct element;
template <class T> TERN_INLINED inline T value_of(T v) { return v; }
template <class T> TERN_INLINED inline std::remove_cv_t<T> value_of(const element<T>& e) { return e.get(); }
template <class I> using value_type = decltype(value_of(std::declval<I>()));
template <class I>
constexpr bool is_narrow =
    sizeof(value_type<I>) < 4 || (sizeof(value_type<I>) == 4 && std::is_signed_v<value_type<I>>);
struct narrow_index {
  int at, line;
  template <class I>
  requires(is_narrow<I>) TERN_INLINED narrow_index(const I& i, int l = __builtin_LINE())
      : at(static_cast<int>(value_of(i))), line(l) {}
};
struct wide_index {
  long at;
  int line;
  template <class I>
  requires(!is_narrow<I>) TERN_INLINED wide_index(const I& i, int l = __builtin_LINE())
      : at(static_cast<long>(value_of(i))), line(l) {}
};

template <class T> struct element {
  using value = std::remove_cv_t<T>;
  pointer<T> of;
  long at;
  int narrow, line;
  bool is_narrow;
  TERN_INLINED bool inside(int access) const {
    return is_narrow ? of.inside(narrow, line, access) : of.inside(at, line, access);
  }
  TERN_INLINED T* address() const { return is_narrow ? of.base + narrow : of.base + at; }
  TERN_INLINED value get() const { return inside(0) ? *address() : value(); }
  TERN_INLINED value set(value v) const {
    if (inside(1)) *address() = v;
    return v;
  }
  TERN_INLINED operator value() const { return get(); }
  TERN_INLINED value operator=(value v) const { return set(v); }
  TERN_INLINED value operator=(const element& other) const { return set(other.get()); }
  TERN_INLINED pointer<T> operator&() const { return of + (is_narrow ? narrow : at); }
#define TERN_CHANGED(op)                                                                                               \
  template <class V> TERN_INLINED value operator op##=(const V& v) const {                                             \
    return set(static_cast<value>(get() op value_of(v)));                                                              \
}
  TERN_CHANGED(+) TERN_CHANGED(-) TERN_CHANGED(*) TERN_CHANGED(/) TERN_CHANGED(%)
  TERN_CHANGED(&) TERN_CHANGED(|) TERN_CHANGED(^) TERN_CHANGED(<<) TERN_CHANGED(>>)
#undef TERN_CHANGED
  TERN_INLINED value operator++() const { return set(static_cast<value>(get() + 1)); }
  TERN_INLINED value operator--() const { return set(static_cast<value>(get() - 1)); }
  TERN_INLINED value operator++(int) const {
    const value v = get();
    set(static_cast<value>(v + 1));
    return v;
  }
  TERN_INLINED value operator--(int) const {
    const value v = get();
    set(static_cast<value>(v - 1));
    return v;
  }
};

// Elements from `low` to `last`, counted from where it points, exist. For indices that are int:
// `narrow_more` elements after `narrow_low`.
template <class T> struct pointer {
  T* base;
  long low, last;
  int narrow_low;
  unsigned narrow_more;
  state* s;
  const checked_view* view; // null: memory of the group
  int parameter;
  const char* memory;

  pointer() = default;
  TERN_INLINED pointer(T* p, long first, long end, state* st, const checked_view* v, int number, const char* name)
      : base(p), low(first), last(end), s(st), view(v), parameter(number), memory(name) {
    narrow_low = static_cast<int>(first < -most ? -most : first);
    narrow_more = static_cast<unsigned>(end > most ? most : end) - static_cast<unsigned>(narrow_low);
    if (end < first) narrow_low = static_cast<int>(most), narrow_more = 0; // empty: no index comes to this
  }
  // Of an address that the kernel has taken itself, of a struct that was checked.
  TERN_INLINED pointer(T* p) : pointer(p, -most, most, &nowhere, nullptr, -1, "") {}
  template <class U>
  requires(std::is_same_v<const U, T> || std::is_same_v<volatile U, T>) TERN_INLINED pointer(const pointer<U>& o)
      : pointer(o.base, o.low, o.last, o.s, o.view, o.parameter, o.memory) {}
  template <class U>
  requires(!std::is_same_v<std::remove_cv_t<U>, std::remove_cv_t<T>>) explicit pointer(const pointer<U>& o)
      : pointer((T*)o.base, o.low * static_cast<long>(sizeof(U)) / static_cast<long>(sizeof(T)),
                (o.last + 1) * static_cast<long>(sizeof(U)) / static_cast<long>(sizeof(T)) - 1, o.s, nullptr,
                o.parameter, o.memory) {}

#if TERN_FORM != 0
  TERN_INLINED bool in_part(long i) const {
    if (!view || !view->pitch) return true;
    const long o = i - low;
    // Exact: o is below 2^51, and half an element is more than what rounding does.
    const long k = static_cast<long>((static_cast<double>(o) + 0.5) * view->per_slice);
    const long rest = o - k * view->slice;
    const long r = static_cast<long>((static_cast<double>(rest) + 0.5) * view->per_pitch);
    return (rest - r * view->pitch < view->columns) & (r < view->rows);
  }
#endif
  template <class I> TERN_INLINED bool inside(I i, [[maybe_unused]] int line, [[maybe_unused]] int access) const {
    bool ok;
    if constexpr (sizeof(I) == 4) {
      // Without a comparison for the flag: vector units have no masks for that, or few.
      const unsigned o = static_cast<unsigned>(i) - static_cast<unsigned>(narrow_low);
      const unsigned nearest = o < narrow_more ? o : narrow_more;
      s->bad |= static_cast<int>(o - nearest);
      ok = o == nearest;
    } else {
      ok = i >= low && i <= last;
      s->bad |= !ok;
    }
#if TERN_FORM != 0
    const bool in = in_part(i);
    s->bad |= !in;
    ok = ok && in;
#endif
#if TERN_FORM == 2
    if (!ok && s->failure && !s->failure->told)
      *s->failure = {1,       line ? line : s->line, access, s->in_item, s->x, s->y, s->z, parameter, memory,
                     i - low, last - low + 1};
#endif
    return ok;
  }
  // A row of memory of the group, a struct, a number.
  template <class I> TERN_INLINED decltype(auto) at(I i, int line) const {
    if constexpr (std::is_array_v<T>) {
      constexpr long n = static_cast<long>(std::extent_v<T>);
      using row = std::remove_extent_t<T>;
      const bool ok = inside(i, line, 2);
      return pointer<row>(ok ? &base[i][0] : &base[0][0], 0, n - 1, s, nullptr, -1, memory);
    } else if constexpr (std::is_class_v<T> || std::is_union_v<T>) {
      static_assert(sizeof(T) <= 4096, "elements of checked kernels have at most 4096 bytes");
      const bool ok = inside(i, line, 2);
      return static_cast<T&>(*(ok ? base + i : reinterpret_cast<T*>(s->spare ? s->spare : (char*)base)));
    } else {
      constexpr bool narrow = sizeof(I) == 4;
      return element<T>{*this, static_cast<long>(i), narrow ? static_cast<int>(i) : 0, line, narrow};
    }
  }
  TERN_INLINED decltype(auto) operator[](narrow_index i) const { return at(i.at, i.line); }
  TERN_INLINED decltype(auto) operator[](wide_index i) const { return at(i.at, i.line); }
  TERN_INLINED decltype(auto) operator*() const { return at(0, 0); }
  TERN_INLINED T* operator->() const { return &at(0, 0); }
  TERN_INLINED pointer moved(long i) const { return {base + i, low - i, last - i, s, view, parameter, memory}; }
  template <class I> TERN_INLINED pointer operator+(const I& i) const {
    return moved(static_cast<long>(value_of(i)));
  }
  template <class I>
  requires(!std::is_same_v<I, pointer>) TERN_INLINED pointer operator-(const I& i) const {
    return moved(-static_cast<long>(value_of(i)));
  }
  template <class I> friend TERN_INLINED pointer operator+(const I& i, const pointer& p) { return p + i; }
  TERN_INLINED std::ptrdiff_t operator-(const pointer& o) const { return base - o.base; }
  template <class I> TERN_INLINED pointer& operator+=(const I& i) { return *this = *this + i; }
  template <class I> TERN_INLINED pointer& operator-=(const I& i) { return *this = *this - i; }
  TERN_INLINED pointer& operator++() { return *this = moved(1); }
  TERN_INLINED pointer& operator--() { return *this = moved(-1); }
  TERN_INLINED pointer operator++(int) {
    const pointer p = *this;
    *this = moved(1);
    return p;
  }
  TERN_INLINED pointer operator--(int) {
    const pointer p = *this;
    *this = moved(-1);
    return p;
  }
  TERN_INLINED bool operator==(const pointer& o) const { return base == o.base; }
  TERN_INLINED auto operator<=>(const pointer& o) const { return base <=> o.base; }
};

template <int SX, int SY, int SZ> struct fixed_size {
  static constexpr int size_x = SX, size_y = SY, size_z = SZ, size = SX * SY * SZ;
  explicit fixed_size(const checked_call&) {}
};
struct any_size {
  int size_x, size_y, size_z, size;
  explicit any_size(const checked_call& c)
      : size_x(c.items[0]), size_y(c.items[1]), size_z(c.items[2]), size(size_x * size_y * size_z) {}
};
template <class Size> struct context : Size {
  int x, y, z, count_x, count_y, count_z;
  char* dynamic;
  long dynamic_bytes;
  state* s;
  context(const checked_call& c, long number, state* st)
      : Size(c), x(static_cast<int>(number % c.groups[0])), y(static_cast<int>(number / c.groups[0] % c.groups[1])),
        z(static_cast<int>(number / c.groups[0] / c.groups[1])), count_x(c.groups[0]), count_y(c.groups[1]),
        count_z(c.groups[2]), dynamic(c.dynamic), dynamic_bytes(c.dynamic_bytes), s(st) {}
};
struct item_index {
  int x, y, z, local_x, local_y, local_z, local_linear;
};

template <class Group> struct clipped {
  const Group& group;
  int nx, ny, nz, line;
};
template <class Group> TERN_INLINED inline clipped<Group> clip(const Group& g, int line) {
  return {g, g.size_x, g.size_y, g.size_z, line};
}
template <class Group> TERN_INLINED inline clipped<Group> clip(const Group& g, int line, int nx, int ny, int nz) {
  return {g, std::min<int>(g.size_x, nx - g.x * g.size_x), std::min<int>(g.size_y, ny - g.y * g.size_y),
          std::min<int>(g.size_z, nz - g.z * g.size_z), line};
}
template <class Group, class Body> TERN_INLINED inline void operator+(const clipped<Group>& c, const Body& body) {
  const Group& g = c.group;
  const int x0 = g.x * g.size_x, y0 = g.y * g.size_y, z0 = g.z * g.size_z;
  for (int z = 0; z < c.nz; ++z)
    for (int y = 0; y < c.ny; ++y) {
      const int row = (z * g.size_y + y) * g.size_x;
#if TERN_FORM == 2
      g.s->line = c.line;
      for (int x = 0; x < c.nx; ++x) {
        g.s->in_item = 1, g.s->x = x0 + x, g.s->y = y0 + y, g.s->z = z0 + z;
        body(item_index{x0 + x, y0 + y, z0 + z, x, y, z, row + x});
      }
      g.s->in_item = 0;
#else
      TERN_INDEPENDENT
      for (int x = 0; x < c.nx; ++x) body(item_index{x0 + x, y0 + y, z0 + z, x, y, z, row + x});
#endif
    }
}

template <class P> struct given {
  static TERN_INLINED P get(const checked_call& c, std::size_t i, state*) {
    return *static_cast<const P*>(c.values[i]);
  }
};
template <class T> struct given<pointer<T>> {
  static TERN_INLINED pointer<T> get(const checked_call& c, std::size_t i, state* s) {
    return {*static_cast<T* const*>(c.values[i]), 0, c.views[i].count - 1, s, c.views + i, static_cast<int>(i), ""};
  }
};
// The kernel's body becomes part of it, so that what it finds out about `s` stays in registers.
template <auto Body, class Group, class... P, std::size_t... I>
TERN_INLINED inline int run(void (*)(Group, P...), const checked_call& c, checked_failure* failure, long number,
                            std::index_sequence<I...>) {
  state s{0, 0, c.spare, failure, 0, 0, 0, 0};
  Body(Group(c, number, &s), given<P>::get(c, I, &s)...);
  return s.bad;
}
template <auto Body, class Group, class... P>
TERN_INLINED inline int run(void (*body)(Group, P...), checked_call* c, long number) {
  return run<Body>(body, *c, &c->failure, number, std::index_sequence_for<P...>());
}
template <class T, std::size_t N> TERN_INLINED inline pointer<T> shared(T(&all)[N], state * s, const char* name) {
  return {&all[0], 0, static_cast<long>(N) - 1, s, nullptr, -1, name};
}
} // namespace tern_checked
)tern";

constexpr std::string_view words = R"tern(
namespace tern_checked::dialect {
using uint = unsigned int;
#define TERN_OF_ONE(name)                                                                     \
  template <class A> TERN_INLINED inline auto name(const A& a) { return std::name(value_of(a)); }
#define TERN_OF_TWO(name)                                                                     \
  template <class A, class B> TERN_INLINED inline auto name(const A& a, const B& b) {         \
    return std::name(value_of(a), value_of(b));                                               \
  }
TERN_OF_ONE(acos) TERN_OF_ONE(acosh) TERN_OF_ONE(asin) TERN_OF_ONE(asinh) TERN_OF_ONE(atan) TERN_OF_ONE(atanh)
TERN_OF_ONE(cbrt) TERN_OF_ONE(ceil) TERN_OF_ONE(cos) TERN_OF_ONE(cosh) TERN_OF_ONE(erf) TERN_OF_ONE(erfc)
TERN_OF_ONE(exp) TERN_OF_ONE(exp2) TERN_OF_ONE(expm1) TERN_OF_ONE(fabs) TERN_OF_ONE(floor) TERN_OF_ONE(log)
TERN_OF_ONE(log10) TERN_OF_ONE(log1p) TERN_OF_ONE(log2) TERN_OF_ONE(rint) TERN_OF_ONE(round) TERN_OF_ONE(sin)
TERN_OF_ONE(sinh) TERN_OF_ONE(sqrt) TERN_OF_ONE(tan) TERN_OF_ONE(tanh) TERN_OF_ONE(trunc) TERN_OF_ONE(abs)
TERN_OF_TWO(atan2) TERN_OF_TWO(copysign) TERN_OF_TWO(fdim) TERN_OF_TWO(fmax) TERN_OF_TWO(fmin) TERN_OF_TWO(fmod)
TERN_OF_TWO(hypot) TERN_OF_TWO(ldexp) TERN_OF_TWO(pow) TERN_OF_TWO(remainder)
#undef TERN_OF_ONE
#undef TERN_OF_TWO
template <class A, class B, class C> TERN_INLINED inline auto fma(const A& a, const B& b, const C& c) {
  return std::fma(value_of(a), value_of(b), value_of(c));
}
template <class A> TERN_INLINED inline auto rsqrt(const A& a) { return 1 / std::sqrt(value_of(a)); }
template <class A, class B> requires std::is_same_v<value_type<A>, value_type<B>>
TERN_INLINED inline value_type<A> min(const A& a, const B& b) {
  const auto x = value_of(a), y = value_of(b);
  return y < x ? y : x;
}
template <class A, class B> requires std::is_same_v<value_type<A>, value_type<B>>
TERN_INLINED inline value_type<A> max(const A& a, const B& b) {
  const auto x = value_of(a), y = value_of(b);
  return x < y ? y : x;
}
template <class A, class B, class C> TERN_INLINED inline auto clamp(const A& x, const B& low, const C& high) {
  return min(max(x, low), high);
}
// Relaxed, as on devices.
template <class T> inline T compare_exchange(pointer<T> p, std::type_identity_t<T> expected,
                                             std::type_identity_t<T> desired) {
  if (p.inside(0, 0, 3))
    __atomic_compare_exchange(p.base, &expected, &desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
template <class T, class Op> inline T fetch_op(pointer<T> p, T v, Op op) {
  T before{};
  if (!p.inside(0, 0, 3)) return before;
  __atomic_load(p.base, &before, __ATOMIC_RELAXED);
  for (;;) {
    T after = op(before, v);
    if (__atomic_compare_exchange(p.base, &before, &after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return before;
  }
}
template <class T> inline T fetch_add(pointer<T> p, std::type_identity_t<T> v) {
  return fetch_op(p, v, [](T a, T b) { return static_cast<T>(a + b); });
}
template <class T> inline T fetch_min(pointer<T> p, std::type_identity_t<T> v) {
  return fetch_op(p, v, [](T a, T b) { return b < a ? b : a; });
}
template <class T> inline T fetch_max(pointer<T> p, std::type_identity_t<T> v) {
  return fetch_op(p, v, [](T a, T b) { return a < b ? b : a; });
}
#define TERN_OF_RAW(name)                                                                     \
  template <class T> requires std::is_arithmetic_v<T>                                         \
  inline T name(T* p, std::type_identity_t<T> v) { return name(pointer<T>(p), v); }
TERN_OF_RAW(fetch_add) TERN_OF_RAW(fetch_min) TERN_OF_RAW(fetch_max)
#undef TERN_OF_RAW
template <class T> inline T compare_exchange(T* p, std::type_identity_t<T> expected, std::type_identity_t<T> desired) {
  return compare_exchange(pointer<T>(p), expected, desired);
}
} // namespace tern_checked::dialect

#define TERN_SEEN __attribute__((visibility("default")))
#define TERN_KERNEL_OF_(name, size, ...)                                                      \
  TERN_INLINED static inline void tern_body_of_##name(                                        \
      ::tern_checked::context<size> __VA_OPT__(, ) __VA_ARGS__);                              \
  __attribute__((noinline)) static int tern_group_of_##name(checked_call* c, long number) {   \
    return ::tern_checked::run<&tern_body_of_##name>(&tern_body_of_##name, c, number);        \
  }                                                                                           \
  extern "C" TERN_SEEN const char tern_parameters_##name[];                                   \
  const char tern_parameters_##name[] = #__VA_ARGS__;                                         \
  extern "C" TERN_SEEN void tern_kernel_##name(checked_call* tern_call) {                     \
    for (long n = tern_call->first; n < tern_call->last && tern_call->bad_group < 0; ++n)     \
      if (tern_group_of_##name(tern_call, n)) tern_call->bad_group = n;                       \
  }                                                                                           \
  TERN_INLINED static inline void tern_body_of_##name(                                        \
      [[maybe_unused]] ::tern_checked::context<size> group __VA_OPT__(, ) __VA_ARGS__)
#define TERN_KERNEL(name, ...) TERN_KERNEL_OF_(name, ::tern_checked::any_size __VA_OPT__(, ) __VA_ARGS__)
#define TERN_KERNEL_FIXED(name, SX, SY, SZ, ...)                                              \
  using tern_size_of_##name = ::tern_checked::fixed_size<SX, SY, SZ>;                         \
  TERN_KERNEL_OF_(name, tern_size_of_##name __VA_OPT__(, ) __VA_ARGS__)
#define TERN_FN [[maybe_unused]] static inline
#define TERN_POINTER(...) ::tern_checked::pointer<__VA_ARGS__>
#define TERN_GLOBAL
#define TERN_LOCAL
#define TERN_CONSTANT const
#define TERN_RESTRICT
#define TERN_REGION                                                                           \
  ::tern_checked::clip(group, __LINE__) + [=](const ::tern_checked::item_index item) TERN_INLINED
#define TERN_REGION_NOSYNC TERN_REGION
#define TERN_REGION_IN(nx, ny, nz)                                                            \
  ::tern_checked::clip(group, __LINE__, nx, ny, nz) + [=](const ::tern_checked::item_index item) TERN_INLINED
#define TERN_BARRIER() (void)0
#define TERN_SHARED(T, name, ...)                                                             \
  alignas(64) T tern_shared_##name __VA_ARGS__;                                               \
  const auto name = ::tern_checked::shared(tern_shared_##name, group.s, #name)
#define TERN_DYNAMIC(T, name)                                                                 \
  const ::tern_checked::pointer<T> name(reinterpret_cast<T*>(group.dynamic), 0,               \
                                        group.dynamic_bytes / static_cast<long>(sizeof(T)) - 1, group.s, nullptr, -1, #name)
#define TERN_PRIVATE(T, name)                                                                 \
  T* const name = static_cast<T*>(__builtin_alloca_with_align(sizeof(T) * static_cast<std::size_t>(group.size), 512))
#define TERN_MY(name) name[item.local_linear]
#define TERN_GROUP_REDUCE(T, name, zero, op, i, n, ...)                                       \
  T name = (zero);                                                                            \
  {                                                                                           \
    group.s->line = __LINE__;                                                                 \
    constexpr int tern_strands = 64 / sizeof(T) * 2;                                          \
    const long long tern_n = (n);                                                             \
    const long long tern_groups = 1LL * group.count_x * group.count_y * group.count_z;        \
    const long long tern_at = (1LL * group.z * group.count_y + group.y) * group.count_x + group.x; \
    const int tern_first = static_cast<int>(tern_n * tern_at / tern_groups);                  \
    const int tern_last = static_cast<int>(tern_n * (tern_at + 1) / tern_groups);             \
    T tern_parts[tern_strands];                                                               \
    for (int tern_s = 0; tern_s < tern_strands; ++tern_s) tern_parts[tern_s] = (zero);        \
    int tern_i = tern_first;                                                                  \
    for (; tern_i + tern_strands <= tern_last; tern_i += tern_strands) {                      \
      TERN_INDEPENDENT                                                                        \
      for (int tern_s = 0; tern_s < tern_strands; ++tern_s) {                                 \
        const int i = tern_i + tern_s;                                                        \
        tern_parts[tern_s] = op(tern_parts[tern_s], (__VA_ARGS__));                           \
      }                                                                                       \
    }                                                                                         \
    for (; tern_i < tern_last; ++tern_i) {                                                    \
      const int i = tern_i;                                                                   \
      name = op(name, (__VA_ARGS__));                                                         \
    }                                                                                         \
    for (int tern_s = 0; tern_s < tern_strands; ++tern_s) name = op(name, tern_parts[tern_s]); \
  }                                                                                           \
  static_assert(true)
namespace tern_block {
using namespace ::tern_checked::dialect;
)tern";

bool is_word(char c) noexcept {
  return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// Where a comment or a literal that begins at `at` ends; `at` if none does.
std::size_t after_opaque(std::string_view text, std::size_t at) noexcept {
  const auto upto = [&](std::string_view end) {
    const std::size_t found = text.find(end, at + 2);
    return found == text.npos ? text.size() : found + end.size();
  };
  if (text.substr(at, 2) == "//") return upto("\n") - 1; // the line's end is not part of it
  if (text.substr(at, 2) == "/*") return upto("*/");
  if (text[at] != '"' && text[at] != '\'') return at;
  std::size_t i = at + 1;
  while (i < text.size() && text[i] != text[at] && text[i] != '\n') i += text[i] == '\\' ? 2 : 1;
  return std::min(i + 1, text.size());
}

} // namespace

std::string with_checked_pointers(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (std::size_t at = 0; at < text.size();) {
    if (const std::size_t end = after_opaque(text, at); end != at) {
      out.append(text.substr(at, end - at));
      at = end;
      continue;
    }
    std::size_t end = at + 1;
    if (is_word(text[at]))
      while (end < text.size() && is_word(text[end])) ++end;
    const std::string_view word = text.substr(at, end - at);
    at = end;
    if (word == "TERN_GLOBAL" || word == "TERN_LOCAL") {
      const std::size_t star = text.find_first_of("*(),;={}", at);
      if (star != text.npos && text[star] == '*') {
        out.append("TERN_POINTER(").append(text.substr(at, star - at)).append(")");
        at = star + 1;
        continue;
      }
    }
    out.append(word);
  }
  return out;
}

std::string parameter_name(std::string_view parameters, std::size_t number) {
  int depth = 0;
  std::string_view rest = parameters;
  for (std::size_t i = 0, begin = 0;; ++i) {
    const char c = i < rest.size() ? rest[i] : ',';
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if (c == ',' && depth == 0) {
      if (number == 0) {
        std::string_view one = rest.substr(begin, i - begin);
        while (!one.empty() && !is_word(one.back())) one.remove_suffix(1);
        std::size_t first = one.size();
        while (first > 0 && is_word(one[first - 1])) --first;
        return std::string(one.substr(first));
      }
      --number;
      begin = i + 1;
    }
    if (i >= rest.size()) return {};
  }
}

std::string checked_source(const source_block& block, checked_form form) {
  std::string text = "#define TERN_FORM " + std::to_string(static_cast<int>(form)) + "\n";
  text.append(checked_definitions).append(classes).append(words).append(with_checked_pointers(text_of(block)));
  return text + "}\n";
}

} // namespace tern::hetero::detail
