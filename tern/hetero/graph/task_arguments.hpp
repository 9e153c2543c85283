// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How a task's arguments become a record. Internal.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <tern/base/conversion/conversion.hpp>
#include <tern/hetero/hetero_object.hpp>
#include <tern/hetero/record/argument_source.hpp>
#include <tern/hetero/record/task_record.hpp>

namespace tern::hetero::detail {

// They do not keep the object: the task does, and before that a handle of the user's.
template <class T, int N> struct used { // T is const if it is only read
  object_state* object;
  box part;
  access_mode how;
};
template <class T, int N, class Op> struct reduced {
  object_state* object;
  box part;
  T identity;
};
template <class T, int N> struct used_list { std::vector<used<T, N>> all; }; // all in the same way
template <class T, int N> struct number_of {
  object_state* object;
  box part;
  asked what;
};

template <class A> inline constexpr bool is_used = false;
template <class T, int N> inline constexpr bool is_used<used<T, N>> = true;
template <class T, int N, class Op> inline constexpr bool is_used<reduced<T, N, Op>> = true;
template <class A> inline constexpr bool is_list = false;
template <class T, int N> inline constexpr bool is_list<used_list<T, N>> = true;
template <class A> inline constexpr bool is_number = false;
template <class T, int N> inline constexpr bool is_number<number_of<T, N>> = true;

template <class T, int N> hetero_view<T, N> view_of(const hetero_view<T, N>&); // not evaluated
/// Objects, or views of such, of one type. <ranges>, which has words for that, would cost each
/// program a twentieth of a second.
template <class Range> using element_view = decltype(view_of(*std::begin(std::declval<Range&>())));
template <class Range>
concept range_of_views = requires(Range& all) {
  std::end(all);
  typename element_view<Range>;
};

template <class T, int N, class Range> used_list<T, N> list_of(Range&& range, access_mode how) {
  used_list<T, N> list;
  for (const auto& v : range) list.all.push_back({v.inside(), v.inside_part(), how});
  return list;
}

template <class A> struct element_of {};
template <class T, int N> struct element_of<used<T, N>> {
  using type = T;
  static constexpr int dimensions = N;
};
template <class T, int N, class Op> struct element_of<reduced<T, N, Op>> {
  using type = T;
  static constexpr int dimensions = N;
};

template <class K> inline constexpr bool is_kernel_type = false;
template <class Group, class... Params> inline constexpr bool is_kernel_type<kernel<Group, Params...>> = true;
template <class Kernel, class Opencl, class Cuda, class Function, class... Queued> struct variant_set;
template <class W> inline constexpr bool is_variant_set = false;
template <class K, class O, class C, class F, class... Q>
inline constexpr bool is_variant_set<variant_set<K, O, C, F, Q...>> = true;
template <class W>
concept variants_with_code = is_variant_set<W> && W::has_code;
template <class W>
concept variants_of_functions = is_variant_set<W> && !W::has_code;
/// A kernel in a device's own language.
template <class K>
concept native_kernel = std::is_base_of_v<kernel_code, K> && requires {
  K::native_to;
};
struct call_operator_probe {
  void operator()();
};
template <class F> struct beside_a_probe : F, call_operator_probe {};
/// Has the class a call operator, of whatever parameters? Beside another one its name is ambiguous.
/// (A final class is taken to have one.)
template <class F>
concept has_call_operator = std::is_class_v<F> && requires {
  sizeof(F);
} &&(std::is_final_v<F> || !requires { &beside_a_probe<F>::operator(); });
/// What can be called, and is neither a kernel nor what contains one. So `submit` leaves alone
/// calls of a program's own `submit`, which the name is looked up for where an argument is one of
/// Tern's.
template <class F>
concept is_function = !is_kernel_type<std::remove_cvref_t<F>> && !is_variant_set<std::remove_cvref_t<F>> &&
                      !std::is_base_of_v<kernel_code, std::remove_cvref_t<F>> &&
                      (std::is_function_v<std::remove_pointer_t<std::remove_cvref_t<F>>> ||
                       std::is_member_pointer_v<std::remove_cvref_t<F>> || has_call_operator<std::remove_cvref_t<F>>);

// What is not inlined -------------------------------------------------------------------------------------------------

task_record* make_task();
void submit_task(task_record* t);
void unmake_task(task_record* t) noexcept;
/// Of a task that is not submitted: what it needs no more.
void drop_arguments(task_record& t) noexcept;
/// One more use.
void add_use(task_record& t, object_state* o, const box& part, access_mode how);
void add_reduction(task_record& t, object_state* o, const box& part, const reducer& how);
/// A task that uses it is about to be made. \pre it lives.
void prefetch(const object_state& o) noexcept;
void* host_address(const use& u) noexcept;
std::int64_t slice_of(const use& u) noexcept;
[[noreturn]] void no_such_argument(const object_state& o, const box& part, asked what);

/// A task that is being filled; unmade if that throws.
class new_task {
public:
  new_task() : task_(make_task()) {}
  ~new_task() {
    if (task_) unmake_task(task_);
  }
  new_task(const new_task&) = delete;
  new_task& operator=(const new_task&) = delete;
  task_record& operator*() const noexcept { return *task_; }
  void submit() {
    submit_task(task_); // if it throws, it is still ours
    task_ = nullptr;
  }

private:
  task_record* task_;
};

// Uses ----------------------------------------------------------------------------------------------------------------

template <class T, int N> void add(task_record& t, const used<T, N>& a) { add_use(t, a.object, a.part, a.how); }
template <class T, int N, class Op> void add(task_record& t, const reduced<T, N, Op>& a) {
  static_assert(sizeof(T) <= reduce_block::capacity, "elements of a reduction have at most 448 bytes");
  add_reduction(t, a.object, a.part,
                {[](std::byte* into, const std::byte* from, std::int64_t n) {
                   T* const x = reinterpret_cast<T*>(into);
                   const T* const y = reinterpret_cast<const T*>(from);
                   for (std::int64_t i = 0; i < n; ++i) x[i] = Op{}(x[i], y[i]);
                 },
                 reinterpret_cast<const std::byte*>(&a.identity)});
}
template <class T, int N> void add(task_record& t, const used_list<T, N>& a) {
  for (const used<T, N>& one : a.all) add(t, one);
}
template <class A> void add(task_record&, const A&) {}

/// Which of the uses an argument became.
template <class T, int N, class... Args>
std::uint8_t use_of_number(const number_of<T, N>& p, const Args&... arguments) {
  int found = -1, n = 0;
  const auto look = [&]<class A>(const A& a) {
    const auto look_at = [&](const auto& one) {
      if (found < 0 && one.object == p.object && one.part == p.part) found = n;
      ++n;
    };
    if constexpr (is_used<A>)
      look_at(a);
    else if constexpr (is_list<A>)
      for (const auto& one : a.all) look_at(one);
  };
  (look(arguments), ...);
  if (found < 0) no_such_argument(*p.object, p.part, p.what);
  return static_cast<std::uint8_t>(found);
}

/// \throws error(unsupported) if it is no int.
int resolve_number(task_record& t, std::uint8_t which, asked what);

// Kernels -------------------------------------------------------------------------------------------------------------

/// An object's memory on the device that the task has been acquired for.
argument device_argument(const use& u) noexcept;

class sampled_kernel;
/// The time of what a task runs on the host, if a policy has chosen it: it may choose otherwise the
/// next time. What throws has none.
class host_time {
public:
  /// \param what null: its time is not taken.
  host_time(task_record& t, const kernel_at& what) noexcept;
  void over() noexcept;

private:
  task_record& task_;
  sampled_kernel* const sampled_;
  const std::int64_t begin_; // nanoseconds
};

/// Runs all groups on the host, spread over the workers. \param sources where each of the
/// parameters comes from.
void run_kernel(task_record& t, std::span<const source_of> sources, const kernel_code& code, const grid& shape,
                std::size_t dynamic, const void* const* values);

template <class... Params> struct kernel_work {
  const kernel_code* code;
  grid shape;
  std::size_t dynamic;
  std::array<source_of, sizeof...(Params)> sources;
  std::tuple<Params...> values;

  /// With addresses and pitches as they are on the host.
  void run(task_record& t) {
    std::tuple<Params...> v = values;
    std::size_t i = 0;
    const auto put = [&]<class P>(P& p) {
      const source_of& s = sources[i++];
      if constexpr (std::is_pointer_v<P>) {
        if (s.what == source_of::object) p = static_cast<P>(host_address(t.use_at(s.which)));
      } else if constexpr (std::is_same_v<P, int>) {
        if (s.what == source_of::number) p = resolve_number(t, s.which, s.of_it);
      }
    };
    std::apply(
        [&](Params&... p) {
          (put(p), ...);
          const void* const addresses[sizeof...(Params) + 1] = {static_cast<const void*>(&p)..., nullptr};
          run_kernel(t, sources, *code, shape, dynamic, addresses);
        },
        v);
  }
  /// The same as they are on the device that the task has been acquired for.
  void describe(task_record& t, launch_request& what, argument* arguments) {
    static_assert(sizeof...(Params) <= arguments_most, "a kernel has at most 48 parameters");
    what.code = code;
    what.shape = shape;
    what.dynamic_bytes = dynamic;
    std::size_t i = 0;
    const auto put = [&]<class P>(P& p) {
      const source_of& s = sources[i];
      if constexpr (std::is_same_v<P, int>)
        if (s.what == source_of::number) p = resolve_number(t, s.which, s.of_it);
      arguments[i++] =
          s.what == source_of::object ? device_argument(t.use_at(s.which)) : argument{&p, sizeof(P), nullptr, 0};
    };
    std::apply([&](Params&... p) { (put(p), ...); }, values);
    what.arguments = {arguments, i};
  }
};

template <class Work> void destroy_work(task_record& t) noexcept {
  if constexpr (task_record::fits<Work>)
    t.work_as<Work>().~Work();
  else
    delete &t.work_as<Work>();
}

template <class... Params> struct kernel_type {
  using work = kernel_work<Params...>;
  static void run(task_record& t) { t.work_as<work>().run(t); }
  static void describe(task_record& t, launch_request& what, argument* arguments) {
    t.work_as<work>().describe(t, what, arguments);
  }
  static void destroy(task_record& t) noexcept { destroy_work<work>(t); }
  static const char* name(const task_record& t) noexcept {
    return const_cast<task_record&>(t).template work_as<work>().code->name; // only looked at
  }
  static kernel_at kernel(task_record& t, device_kind) noexcept {
    const auto& w = t.work_as<work>();
    return {w.code, &w.shape};
  }
  static constexpr work_type type{any_device, &run,  task_record::fits<work> ? nullptr : &destroy,
                                  &describe,  &name, &kernel};
};

/// \tparam I its number, from 1 on.
template <std::size_t I, class P, class A> consteval bool check_argument() {
  static_assert(!is_list<A>, "lists of objects go to functions of the host: a kernel's parameters are counted");
  if constexpr (is_list<A>) {
    return false;
  } else if constexpr (is_used<A>) {
    static_assert(std::is_pointer_v<P>, "an object was given for a parameter of the kernel that is no pointer");
    using T = typename element_of<A>::type;
    using E = std::remove_pointer_t<P>;
    static_assert(std::is_same_v<std::remove_const_t<E>, std::remove_const_t<T>>,
                  "the object's elements have another type than the kernel's parameter");
    static_assert(
        std::is_const_v<E> == std::is_const_v<T>,
        "read() goes with a parameter to const, write(), read_write(), commute() and reduce() with one that is"
        " not");
  } else if constexpr (is_number<A>) {
    static_assert(std::is_same_v<P, int>, "pitch(), slice() and own_layout() go to a parameter of type int");
  } else {
    static_assert(!std::is_pointer_v<P>, "a kernel gets objects for its pointers: read(x), write(x), read_write(x)");
    static_assert(std::is_convertible_v<const A&, P>, "an argument does not convert to the kernel's parameter");
    if constexpr (std::is_convertible_v<const A&, P>)
      return tern::detail::accept_argument<I, tern::detail::conversion_of<const A&, P>()>();
  }
  return true;
}
/// "argument 2 of 'scale'"; null: of the task's function.
std::string argument_name(const char* function, std::size_t number);

template <class Work> void put_work(task_record& t, Work&& w) {
  using work = std::remove_cvref_t<Work>;
  if constexpr (task_record::fits<work>)
    ::new (static_cast<void*>(t.closure)) work(std::forward<Work>(w));
  else
    ::new (static_cast<void*>(t.closure)) work*(new work(std::forward<Work>(w)));
}

/// Makes a kernel's work of the arguments of a task.
template <class... Params, class... Args>
kernel_work<Params...> work_of_kernel(const kernel_code& k, const grid& shape, std::size_t dynamic,
                                      const Args&... arguments) {
  static_assert(sizeof...(Params) == sizeof...(Args), "the kernel has another number of parameters");
  if constexpr (sizeof...(Params) == sizeof...(Args)) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      static_cast<void>((check_argument<I + 1, std::remove_cv_t<Params>, Args>() && ...));
    }
    (std::index_sequence_for<Args...>{});
    [[maybe_unused]] std::uint8_t next = 0;
    [[maybe_unused]] std::size_t number = 0;
    [[maybe_unused]] const auto source = [&]<class A>(const A& a) -> source_of {
      if constexpr (is_used<A>)
        return {source_of::object, next++};
      else if constexpr (is_number<A>)
        return {source_of::number, use_of_number(a, arguments...), a.what};
      else
        return {};
    };
    [[maybe_unused]] const auto value = [&]<class P, class A>(std::type_identity<P>, const A& a) -> P {
      ++number;
      if constexpr (is_used<A> || is_number<A> || is_list<A>) {
        return P{};
      } else {
        tern::detail::check_fit<std::remove_cv_t<P>>(a, [&] { return argument_name(k.name, number); });
        return static_cast<P>(a);
      }
    };
    // Braces: in the order of the arguments.
    return {&k, shape, dynamic, {source(arguments)...}, {value(std::type_identity<Params>(), arguments)...}};
  }
}

template <class Group, class... Params, class... Args>
void fill_kernel(task_record& t, const kernel<Group, Params...>& k, const grid& shape, std::size_t dynamic,
                 Args&&... arguments) {
  using type = kernel_type<Params...>;
  (add(t, arguments), ...);
  put_work(t, work_of_kernel<Params...>(k, shape, dynamic, arguments...));
  t.work = &type::type;
  t.kinds = type::type.kinds;
}

// Functions -----------------------------------------------------------------------------------------------------------

template <class T, int N> struct view_argument {
  std::uint8_t which;
  host_view<T, N> resolve(task_record& t) const noexcept {
    const use& u = t.use_at(which);
    extents<N> size;
    for (int d = 0; d < N; ++d) size[static_cast<std::size_t>(d)] = u.part.extent(static_cast<std::size_t>(3 - N + d));
    return {static_cast<T*>(host_address(u)), size, u.pitch, slice_of(u)};
  }
};
template <class T, int N> struct list_argument {
  using view = host_view<T, N>;
  std::uint8_t first;
  std::vector<view> views;
  std::span<const view> resolve(task_record& t) noexcept {
    for (std::size_t i = 0; i < views.size(); ++i)
      views[i] = view_argument<T, N>{static_cast<std::uint8_t>(first + i)}.resolve(t);
    return views;
  }
};
struct number_argument {
  std::uint8_t which;
  asked what;
  int resolve(task_record& t) const { return resolve_number(t, which, what); }
};
template <class V> struct value_argument {
  V value;
  V& resolve(task_record&) noexcept { return value; }
};

template <class A> struct stored { using type = value_argument<A>; };
template <class T, int N> struct stored<used<T, N>> { using type = view_argument<T, N>; };
template <class T, int N, class Op> struct stored<reduced<T, N, Op>> { using type = view_argument<T, N>; };
template <class T, int N> struct stored<used_list<T, N>> { using type = list_argument<T, N>; };
template <class T, int N> struct stored<number_of<T, N>> { using type = number_argument; };

template <class F, class... Stored> struct function_work {
  using function = F;
  [[no_unique_address]] F f;
  [[no_unique_address]] std::tuple<Stored...> arguments;
  void call(task_record& t) {
    std::apply([&](Stored&... s) { std::invoke(f, s.resolve(t)...); }, arguments);
  }
};

/// One argument of a function. (Views and numbers are made of what the task uses.)
template <std::size_t I, class P, class A> consteval bool check_function_argument() {
  if constexpr (is_used<A> || is_number<A> || is_list<A>)
    return true;
  else
    return tern::detail::accept_argument<I, tern::detail::conversion_of<A&, P>()>();
}
template <class P, class A> void check_function_value(const A& a, std::size_t number) {
  if constexpr (!is_used<A> && !is_number<A> && !is_list<A>)
    tern::detail::check_fit<P>(a, [&] { return argument_name(nullptr, number); });
}
template <class... P, class... Args>
void check_function(std::type_identity<tern::detail::parameter_list<P...>>, const Args&... arguments) {
  if constexpr (sizeof...(P) == sizeof...(Args)) { // else the call itself does not compile
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      if constexpr ((check_function_argument<I + 1, std::remove_cvref_t<P>, Args>() && ...))
        (check_function_value<std::remove_cvref_t<P>>(arguments, I + 1), ...);
    }
    (std::index_sequence_for<Args...>{});
  }
}
template <class... Args> void check_function(std::type_identity<void>, const Args&...) {} // not known
template <class F> using known_parameters = std::type_identity<typename tern::detail::parameters_of_function<F>::type>;

template <class F, class... Args> auto work_of_function(F&& f, Args&&... arguments) {
  check_function(known_parameters<std::decay_t<F>>(), arguments...);
  [[maybe_unused]] std::uint8_t next = 0;
  [[maybe_unused]] const auto keep = [&]<class A>(A&& a) {
    using kept = typename stored<std::decay_t<A>>::type;
    if constexpr (is_used<std::decay_t<A>>) {
      return kept{next++};
    } else if constexpr (is_list<std::decay_t<A>>) {
      const std::uint8_t first = next;
      next = static_cast<std::uint8_t>(next + a.all.size());
      return kept{first, std::vector<typename kept::view>(a.all.size())};
    } else if constexpr (is_number<std::decay_t<A>>) {
      return kept{use_of_number(a, arguments...), a.what};
    } else {
      return kept{std::forward<A>(a)};
    }
  };
  using work = function_work<std::decay_t<F>, typename stored<std::decay_t<Args>>::type...>;
  return work{std::forward<F>(f), {keep(std::forward<Args>(arguments))...}}; // braces: in the order of the arguments
}

template <class Work> struct function_type {
  static void run(task_record& t) { t.work_as<Work>().call(t); }
  static void destroy(task_record& t) noexcept { destroy_work<Work>(t); }
  static constexpr bool nothing_to_destroy = task_record::fits<Work> && std::is_trivially_destructible_v<Work>;
  static constexpr work_type type{kinds_of(device_kind::host), &run, nothing_to_destroy ? nullptr : &destroy, nullptr,
                                  nullptr};
};

template <class F, class... Args> void fill_function(task_record& t, F&& f, Args&&... arguments) {
  (add(t, arguments), ...);
  auto w = work_of_function(std::forward<F>(f), std::forward<Args>(arguments)...);
  using type = function_type<decltype(w)>;
  put_work(t, std::move(w));
  t.work = &type::type;
  t.kinds = type::type.kinds;
}

} // namespace tern::hetero::detail
