// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How the variants of a task become one record. Internal.

#include <cstddef>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include <tern/hetero/graph/task_arguments.hpp>
#include <tern/hetero/record/function_code.hpp>
#include <tern/hetero/variants.hpp>

namespace tern::hetero::detail {

/// In the place of a way that is not there.
struct no_variant {};
template <class W> inline constexpr bool is_there = !std::is_same_v<W, no_variant>;

/// \tparam Kernel of the dialect. \tparam Opencl, Cuda kernel_codes in a device's own language.
/// \tparam Queued functions for queues.
template <class Kernel, class Opencl, class Cuda, class Function, class... Queued> struct variant_set {
  const Kernel* kernel;
  const Opencl* opencl;
  const Cuda* cuda;
  Function function;
  std::tuple<on_queue<Queued>...> queued;

  device_kinds kinds() const noexcept {
    if constexpr (is_there<Kernel>) {
      return any_device;
    } else {
      device_kinds k = is_there<Function> ? kinds_of(device_kind::host) : device_kinds{0};
      if constexpr (is_there<Opencl>) k |= kinds_of(device_kind::opencl);
      if constexpr (is_there<Cuda>) k |= kinds_of(device_kind::cuda);
      std::apply([&](const auto&... q) { ((k |= kinds_of(q.kind)), ...); }, queued);
      return k;
    }
  }
  static constexpr bool has_dialect = is_there<Kernel>, has_code = has_dialect || is_there<Opencl> || is_there<Cuda>;
  /// The variant that gives the task its name and its size of groups.
  const kernel_code& code() const noexcept requires(has_code) {
    if constexpr (is_there<Kernel>)
      return *kernel;
    else if constexpr (is_there<Opencl>)
      return *opencl;
    else
      return *cuda;
  }
};

// Gathering -----------------------------------------------------------------------------------------------------------

template <class W> inline constexpr bool is_on_queue = false;
template <class F> inline constexpr bool is_on_queue<on_queue<F>> = true;
template <class W, device_kind Kind> inline constexpr bool is_native = false;
template <native_kernel W, device_kind Kind> inline constexpr bool is_native<W, Kind> = W::native_to == Kind;
template <class W> inline constexpr bool is_plain = !is_on_queue<W> && !std::is_base_of_v<kernel_code, W>;

/// The one of `w` for which `Is` holds, moved if it was given so; or no_variant.
template <std::size_t I, class... W> decltype(auto) pick(std::tuple<W...>& w) {
  if constexpr (I < sizeof...(W))
    return std::get<I>(std::move(w));
  else
    return no_variant();
}
/// The same for code, which is only referred to.
template <std::size_t I, class... W> const auto& pick_code(std::tuple<W...>& w) {
  if constexpr (I < sizeof...(W)) {
    return std::get<I>(w);
  } else {
    static constexpr no_variant none;
    return none;
  }
}
template <class W> auto queued_of(W&& w) {
  if constexpr (is_on_queue<std::remove_cvref_t<W>>)
    return std::tuple<std::remove_cvref_t<W>>(std::forward<W>(w));
  else
    return std::tuple<>();
}
template <class Function, class K, class O, class C, class F, class... Queued>
auto gathered(const K* kernel, const O* opencl, const C* cuda, F&& function, std::tuple<on_queue<Queued>...>&& queued) {
  return variant_set<K, O, C, Function, Queued...>{kernel, opencl, cuda, std::forward<F>(function), std::move(queued)};
}
template <class... B> constexpr std::size_t first_of(B... holds) {
  std::size_t i = 0;
  (void)((holds || (++i, false)) || ...);
  return i;
}
template <class... B> constexpr bool at_most_one(B... holds) { return (0 + ... + (holds ? 1 : 0)) <= 1; }

template <class... W> auto gather(W&&... w) {
  static_assert(sizeof...(W) > 0, "variants() needs at least one way to do the task");
  static_assert(((std::is_lvalue_reference_v<W> || !std::is_base_of_v<kernel_code, std::remove_cvref_t<W>>)&&...),
                "a kernel lives as long as the program: name it, rather than making it in the call");
  static_assert(at_most_one(is_kernel_type<std::remove_cvref_t<W>>...), "variants() takes one kernel of the dialect");
  static_assert(at_most_one(is_native<std::remove_cvref_t<W>, device_kind::opencl>...),
                "variants() takes one kernel in OpenCL's own languages");
  static_assert(at_most_one(is_native<std::remove_cvref_t<W>, device_kind::cuda>...),
                "variants() takes one kernel in CUDA's own languages");
  static_assert(at_most_one(is_plain<std::remove_cvref_t<W>>...), "variants() takes one function for the host");
  auto all = std::forward_as_tuple(std::forward<W>(w)...);
  constexpr std::size_t k = first_of(is_kernel_type<std::remove_cvref_t<W>>...),
                        o = first_of(is_native<std::remove_cvref_t<W>, device_kind::opencl>...),
                        c = first_of(is_native<std::remove_cvref_t<W>, device_kind::cuda>...),
                        f = first_of(is_plain<std::remove_cvref_t<W>>...);
  auto queued = std::tuple_cat(queued_of(std::forward<W>(w))...);
  device_kinds known = 0;
  std::apply(
      [&](const auto&... q) {
        [[maybe_unused]] const auto add_kind = [&](device_kind kind) {
          if (known & kinds_of(kind)) two_for_a_queue(kind);
          known |= kinds_of(kind);
        };
        (add_kind(q.kind), ...);
      },
      queued);
  const auto code = []<class C>(C& one) {
    if constexpr (is_there<C>)
      return &one;
    else
      return static_cast<const no_variant*>(nullptr);
  };
  using function = std::decay_t<decltype(pick<f>(all))>;
  return gathered<function>(code(pick_code<k>(all)), code(pick_code<o>(all)), code(pick_code<c>(all)), pick<f>(all),
                            std::move(queued));
}

// Functions for queues ------------------------------------------------------------------------------------------------

/// Of the device that the task has been acquired for.
device_kind kind_of_device(const task_record& t) noexcept;
/// All that the task uses, as `arguments` of what it launches.
void describe_uses(task_record& t, launch_request& what, argument* arguments);

template <class T, int N> struct queued_view {
  std::uint8_t which;
  device_view<T, N> resolve(task_record& t, const argument* memory) const {
    const use& u = t.use_at(which);
    extents<N> size;
    for (int d = 0; d < N; ++d) size[static_cast<std::size_t>(d)] = u.part.extent(static_cast<std::size_t>(3 - N + d));
    return {memory[which].memory, memory[which].offset, size, u.pitch, slice_of(u)};
  }
};
struct queued_number : number_argument {
  int resolve(task_record& t, const argument*) const { return number_argument::resolve(t); }
};
template <class V> struct queued_value {
  V value;
  V& resolve(task_record&, const argument*) noexcept { return value; }
};
template <class A> struct queued { using type = queued_value<A>; };
template <class T, int N> struct queued<used<T, N>> { using type = queued_view<T, N>; };
template <class T, int N, class Op> struct queued<reduced<T, N, Op>> { using type = queued_view<T, N>; };
template <class T, int N> struct queued<number_of<T, N>> { using type = queued_number; };

template <class F, class... Queued> struct queue_work {
  using function = F;
  [[no_unique_address]] F f;
  [[no_unique_address]] std::tuple<Queued...> arguments;
  void call(task_record& t, const native_queue& q, const argument* memory) {
    std::apply([&](Queued&... s) { std::invoke(f, q, s.resolve(t, memory)...); }, arguments);
  }
};

template <class Queue, class... P, class... Args>
void check_queue_function(std::type_identity<tern::detail::parameter_list<Queue, P...>>, const Args&... arguments) {
  check_function(std::type_identity<tern::detail::parameter_list<P...>>(), arguments...);
}
template <class... Args> void check_queue_function(std::type_identity<void>, const Args&...) {} // not known

template <class F, class... Args> auto work_of_queue(F&& f, const Args&... arguments) {
  check_queue_function(known_parameters<std::decay_t<F>>(), arguments...);
  [[maybe_unused]] std::uint8_t next = 0;
  [[maybe_unused]] const auto keep = [&]<class A>(const A& a) {
    using kept = typename queued<A>::type;
    if constexpr (is_used<A>)
      return kept{next++};
    else if constexpr (is_number<A>)
      return kept{{use_of_number(a, arguments...), a.what}};
    else
      return kept{a};
  };
  using work = queue_work<std::decay_t<F>, typename queued<Args>::type...>;
  return work{std::forward<F>(f), {keep(arguments)...}}; // braces: in the order of the arguments
}

// All -----------------------------------------------------------------------------------------------------------------

/// What an argument is to a kernel in a device's own language.
template <class A> struct native_parameter {
  static_assert(std::is_trivially_copyable_v<A>, "a kernel's arguments are numbers, structs and objects");
  using type = A;
};
template <class T, int N> struct native_parameter<used<T, N>> { using type = T*; };
template <class T, int N, class Op> struct native_parameter<reduced<T, N, Op>> { using type = T*; };
template <class T, int N> struct native_parameter<number_of<T, N>> { using type = int; };

template <class Kernel> struct parameters_of;
template <class Group, class... Params> struct parameters_of<kernel<Group, Params...>> {
  template <class... Args>
  static auto work(const kernel_code& k, const grid& shape, std::size_t dynamic, const Args&... arguments) {
    return work_of_kernel<Params...>(k, shape, dynamic, arguments...);
  }
};
template <> struct parameters_of<no_variant> { // those that the arguments make
  template <class... Args>
  static auto work(const kernel_code& k, const grid& shape, std::size_t dynamic, const Args&... arguments) {
    return work_of_kernel<typename native_parameter<Args>::type...>(k, shape, dynamic, arguments...);
  }
};

template <class Work> struct queued_work {
  device_kind kind;
  Work work;
};

template <class Variants, class KernelWork, class FunctionWork, class... QueueWork> struct variants_work {
  using of = Variants;
  KernelWork kernel;
  FunctionWork function;
  std::tuple<queued_work<QueueWork>...> queued;
  const kernel_code *opencl, *cuda; ///< null: none
};

/// What the times of a function are kept by.
template <class F> kernel_at timed_as() noexcept {
  static constexpr grid once;
  const kernel_code* const code = code_of_function<F>();
  return {code, code ? &once : nullptr};
}

template <class Work> struct variants_type {
  static constexpr bool has_kernel = is_there<decltype(Work::kernel)>,
                        has_function = is_there<decltype(Work::function)>,
                        on_host = has_function || Work::of::has_dialect;
  static void run(task_record& t) {
    if constexpr (has_function) {
      host_time time(t, timed_as<typename decltype(Work::function)::function>());
      t.work_as<Work>().function.call(t);
      time.over();
    } else if constexpr (Work::of::has_dialect)
      t.work_as<Work>().kernel.run(t);
  }
  static void call(task_record& t, const native_queue& q, const argument* memory) {
    std::apply([&](auto&... one) { ((one.kind == q.kind ? one.work.call(t, q, memory) : void()), ...); },
               t.work_as<Work>().queued);
  }
  static void describe(task_record& t, launch_request& what, argument* arguments) {
    Work& w = t.work_as<Work>();
    const device_kind kind = kind_of_device(t);
    if (std::apply([&](const auto&... one) { return (false || ... || (one.kind == kind)); }, w.queued)) {
      describe_uses(t, what, arguments);
      what.call = &call;
      return;
    }
    if constexpr (has_kernel) {
      w.kernel.describe(t, what, arguments);
      if (w.opencl && kind == device_kind::opencl) what.code = w.opencl;
      if (w.cuda && kind == device_kind::cuda) what.code = w.cuda;
    }
  }
  static void destroy(task_record& t) noexcept { destroy_work<Work>(t); }
  static const char* name(const task_record& t) noexcept {
    if constexpr (has_kernel)
      return const_cast<task_record&>(t).template work_as<Work>().kernel.code->name; // only looked at
    else
      return "task";
  }
  static kernel_at kernel(task_record& t, device_kind kind) noexcept {
    if constexpr (has_kernel) {
      const Work& w = t.work_as<Work>();
      const bool queued =
          std::apply([&](const auto&... one) { return (false || ... || (one.kind == kind)); }, w.queued);
      if (queued || (has_function && kind == device_kind::host)) return {};
      const kernel_code* code = w.kernel.code;
      if (w.opencl && kind == device_kind::opencl) code = w.opencl;
      if (w.cuda && kind == device_kind::cuda) code = w.cuda;
      return {code, &w.kernel.shape};
    } else {
      return {};
    }
  }
  static kernel_at function(task_record& t, device_kind kind) noexcept {
    if constexpr (has_function)
      if (kind == device_kind::host) return timed_as<typename decltype(Work::function)::function>();
    kernel_at found;
    std::apply(
        [&]<class... Q>(const Q&... one) {
          ((one.kind == kind ? void(found = timed_as<typename decltype(Q::work)::function>()) : void()), ...);
        },
        t.work_as<Work>().queued);
    return found;
  }
  static constexpr work_type type{any_device, on_host ? &run : nullptr, &destroy, &describe, &name, &kernel, nullptr,
                                  &function};
};

/// \param shape, dynamic meant if there is a kernel.
template <class Kernel, class Opencl, class Cuda, class Function, class... Queued, class... Args>
void fill_variants(task_record& t, variant_set<Kernel, Opencl, Cuda, Function, Queued...>& w, const grid& shape,
                   std::size_t dynamic, const Args&... arguments) {
  using given = variant_set<Kernel, Opencl, Cuda, Function, Queued...>;
  static_assert((!is_list<Args> && ...), "lists of objects go to functions of the host, not to variants");
  (add(t, arguments), ...);
  const auto of_kernel = [&] {
    if constexpr (given::has_code)
      return parameters_of<Kernel>::work(w.code(), shape, dynamic, arguments...);
    else
      return no_variant();
  };
  const auto of_function = [&] {
    if constexpr (is_there<Function>)
      return work_of_function(std::move(w.function), arguments...);
    else
      return no_variant();
  };
  const auto of_queue = [&]<class F>(on_queue<F>& q) { return work_of_queue(std::move(q.function), arguments...); };
  using work = variants_work<given, decltype(of_kernel()), decltype(of_function()),
                             decltype(of_queue(std::declval<on_queue<Queued>&>()))...>;
  const kernel_code *opencl = nullptr, *cuda = nullptr;
  if constexpr (is_there<Opencl>) opencl = w.opencl;
  if constexpr (is_there<Cuda>) cuda = w.cuda;
  t.kinds = w.kinds();
  auto queued = std::apply(
      [&](auto&... q) {
        return std::tuple<queued_work<decltype(of_queue(q))>...>{
            queued_work<decltype(of_queue(q))>{q.kind, of_queue(q)}...};
      },
      w.queued);
  put_work(t, work{of_kernel(), of_function(), std::move(queued), opencl, cuda});
  t.work = &variants_type<work>::type;
}

} // namespace tern::hetero::detail
