// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Tasks on heterogeneous objects: a kernel or a function, what it uses and how. A task runs when
/// what it uses is ready, on the device that its policy chooses, and the program goes on meanwhile.
///
///     // a kernel, on any device
///     tern::submit(blas::axpy, tern::items(n), n, 2.0, tern::read(x), tern::read_write(y));
///     // a function, on the host
///     tern::submit([](tern::host_view<double, 1> v) { std::sort(v.begin(), v.end()); },
///                  tern::read_write(y));
///     tern::wait_all();
///
/// Order. Tasks are ordered by what they use. The results are those of running them one after the
/// other in the order of their submission, unless a task says otherwise (`commute`, `reduce`,
/// `implicit(false)`).
///
/// Errors. The failure of a task comes out of its `wait`, its `done`, or `wait_all`. Tasks that
/// needed what it was to write are not run, and say why. All other tasks go on.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include <tern/base/options.hpp>
#include <tern/base/unique_function.hpp>
#include <tern/hetero/graph/task_arguments.hpp>
#include <tern/hetero/hetero_object.hpp>
#include <tern/hetero/kernel.hpp>
#include <tern/hetero/variants.hpp>
#include <tern/task/future.hpp>

namespace tern {

// Arguments -----------------------------------------------------------------------------------------------------------

/// What a task does with an object, as its argument. For kernels, the parameter is a pointer to its
/// first element (const for `read`); rows follow each other after `pitch(v)` elements. For
/// functions, it is a host_view, which converts to that pointer.
template <class T, int N> hetero::detail::used<const T, N> read(const hetero_view<T, N>& v) {
  return {v.inside(), v.inside_part(), access_mode::read};
}
template <class T, int N> hetero::detail::used<T, N> write(const hetero_view<T, N>& v) {
  return {v.inside(), v.inside_part(), access_mode::write};
}
template <class T, int N> hetero::detail::used<T, N> read_write(const hetero_view<T, N>& v) {
  return {v.inside(), v.inside_part(), access_mode::read_write};
}
template <class T, int N> hetero::detail::used<T, N> commute(const hetero_view<T, N>& v) {
  return {v.inside(), v.inside_part(), access_mode::commute};
}
/// The same for a list of objects, or views, whose number is known when the program runs: one
/// argument of a function of the host, which gets `std::span<const tern::host_view<T, N>>` (`<const
/// T, N>` for `reads`), in the list's order. A task uses at most 255 objects.
///
///     std::vector<tern::hetero_view<double>> parts = …;
///     tern::submit([](std::span<const tern::host_view<const double, 1>> from, double* to) { … },
///                  tern::reads(parts), tern::write(sum));
template <hetero::detail::range_of_views Range> auto reads(Range&& range) {
  using view = hetero::detail::element_view<Range>;
  return hetero::detail::list_of<const typename view::element, view::dimensions>(range, access_mode::read);
}
template <hetero::detail::range_of_views Range> auto writes(Range&& range) {
  using view = hetero::detail::element_view<Range>;
  return hetero::detail::list_of<typename view::element, view::dimensions>(range, access_mode::write);
}
template <hetero::detail::range_of_views Range> auto read_writes(Range&& range) {
  using view = hetero::detail::element_view<Range>;
  return hetero::detail::list_of<typename view::element, view::dimensions>(range, access_mode::read_write);
}
/// Tasks that reduce into the same view with the same operation may run at the same time: each adds
/// to a part of its own, which begins as `identity`; the parts are added to the view, in a fixed
/// order, before the next task that uses it otherwise. So results are the same in each run. \tparam
/// Op a stateless `T operator()(T, T)`, as std::plus<>.
template <class T, int N, class Op>
hetero::detail::reduced<T, N, Op> reduce(const hetero_view<T, N>& v, Op, std::type_identity_t<T> identity) {
  static_assert(std::is_empty_v<Op>, "the operation of a reduction has no state");
  return {v.inside(), v.inside_part(), identity};
}
/// For a parameter `int`: how many elements lie between two rows of `v` where the task runs. `v` is
/// one of its arguments.
template <class T, int N> hetero::detail::number_of<T, N> pitch(const hetero_view<T, N>& v) {
  return {v.inside(), v.inside_part(), hetero::detail::asked::pitch};
}
/// The same for slices, of objects of three dimensions.
template <class T> hetero::detail::number_of<T, 3> slice(const hetero_view<T, 3>& v) {
  return {v.inside(), v.inside_part(), hetero::detail::asked::slice};
}
/// For a parameter `int`: 1 where the task finds the elements as `hetero_object::layout_on` puts
/// them, 0 where they lie as on the host.
template <class T, int N> hetero::detail::number_of<T, N> own_layout(const hetero_view<T, N>& v) {
  return {v.inside(), v.inside_part(), hetero::detail::asked::layout};
}

/// For how many items a kernel runs, in x, y, z, and in what groups. Without `group` a size is
/// chosen that suits; there may be more items than asked for, at the ends: kernels say
/// `TERN_REGION_IN`. \throws error(invalid_argument) for numbers < 1.
class items {
public:
  explicit items(std::int64_t x, std::int64_t y = 1, std::int64_t z = 1);
  items& group(int x, int y = 1, int z = 1);
  /// Bytes of each group's dynamic memory (`TERN_DYNAMIC`).
  items& dynamic(std::size_t bytes) {
    dynamic_ = bytes;
    return *this;
  }

  hetero::detail::grid inside(const hetero::detail::kernel_code& k) const;
  std::size_t inside_dynamic() const noexcept { return dynamic_; }

private:
  std::array<std::int64_t, 3> count_;
  std::array<int, 3> group_{0, 0, 0};
  std::size_t dynamic_ = 0;
};

// Tasks ---------------------------------------------------------------------------------------------------------------

enum class task_status : std::uint8_t { made, waiting, running, done, failed };

/// A task with a handle: it is made, given more properties, submitted and waited for. Move-only. A
/// handle that is destroyed before `submit` fails the tasks that were to come after it. A task that
/// needs no handle is cheaper with `tern::submit`.
///
/// Guarantees: the task runs once, when all that it follows has ended, or fails and says why.
///
/// Threads: made and submitted in a fiber of the scheduler of its objects; the rest from any fiber
/// of it.
class hetero_task {
public:
  hetero_task() = default;
  /// A kernel, for so many items. Its arguments are checked when this is compiled: their number and
  /// types.
  /// \throws error(invalid_argument) for a group size that the kernel or any device cannot have.
  template <class Group, class... Params, class... Args>
  hetero_task(const hetero::kernel<Group, Params...>& k, const items& n, Args&&... arguments) : hetero_task(begin()) {
    hetero::detail::fill_kernel(*task_, k, n.inside(k), n.inside_dynamic(), std::forward<Args>(arguments)...);
  }
  /// The same with variants (variants.hpp), a kernel among them; arguments are checked against that
  /// of the dialect, if there is one.
  template <hetero::detail::variants_with_code W, class... Args>
  hetero_task(W w, const items& n, const Args&... arguments) : hetero_task(begin()) {
    hetero::detail::fill_variants(*task_, w, n.inside(w.code()), n.inside_dynamic(), arguments...);
  }
  /// Or with functions only.
  template <hetero::detail::variants_of_functions W, class... Args>
  explicit hetero_task(W w, const Args&... arguments) : hetero_task(begin()) {
    hetero::detail::fill_variants(*task_, w, {}, 0, arguments...);
  }
  /// A kernel in a device's own language, and nothing else.
  template <hetero::detail::native_kernel K, class... Args>
  hetero_task(const K& k, const items& n, const Args&... arguments) : hetero_task(variants(k), n, arguments...) {}
  /// A function, called on the host with views of what it uses and copies of its other arguments.
  /// May wait, and submit.
  template <class F, class... Args>
  requires(!std::is_same_v<std::remove_cvref_t<F>, hetero_task> &&
           hetero::detail::is_function<F>) explicit hetero_task(F&& f, Args&&... arguments)
      : hetero_task(begin()) {
    hetero::detail::fill_function(*task_, std::forward<F>(f), std::forward<Args>(arguments)...);
  }
  hetero_task(hetero_task&& other) noexcept : task_(std::exchange(other.task_, nullptr)) {}
  hetero_task& operator=(hetero_task&& other) noexcept {
    std::swap(task_, other.task_);
    return *this;
  }
  ~hetero_task();

  // Before it is submitted; \throws error(invalid_state) afterwards ---------------------------------------------------
  hetero_task& name(const char* lives_as_long_as_the_program);
  /// Only on devices of this kind; or on this one, by its id. \throws error(not_found) for an id
  /// that none has.
  hetero_task& on(hetero::device_kind kind);
  hetero_task& on(std::string_view device);
  /// Higher ones first, where several are ready for one device. 0 if not given.
  hetero_task& priority(int p);
  /// What has the same key runs on the same device, as far as policies think that it pays
  /// (affinity.hpp). In the place of that of the scope in which it is submitted. Any number is a
  /// key.
  hetero_task& affinity(std::uint64_t key);
  /// What the time of its kernel depends on beside sizes, such as a number of iterations: tasks
  /// with different numbers have performance models of their own, and do not tell of each other. 0,
  /// as if not given: on nothing.
  hetero_task& size_class(std::uint64_t number);
  /// Not before the other one is done, which may have been submitted or not; fails if that fails.
  hetero_task& after(const hetero_task& other);
  /// false: it is not ordered by what it uses, as its kernel uses atomics, or `after` says all.
  /// Later tasks that are ordered follow it. Tasks that write the same at once must be on the same
  /// device (`on`): else each writes to a copy of its own, of which one is kept.
  hetero_task& implicit(bool on);

  /// It runs when it can. \throws error(invalid_argument) for an object of another scheduler.
  hetero_task& submit();

  // Then --------------------------------------------------------------------------------------------------------------
  /// Returns when it is done. \throws what it failed with; error(invalid_state) in its own
  /// function.
  void wait() const;
  /// Ready when it is done, with what it failed with.
  future<void> done() const;
  /// Calls `f(error)` when it is done, null if all went well; at once if it is already. On any
  /// thread or fiber: `f` must be quick, and not wait or throw. A task that cannot run any more, as
  /// its scheduler has ended, is done with an error when the access that it waits for is released;
  /// then `f` must not submit tasks.
  const hetero_task& then(unique_function<void(std::exception_ptr)> f) const;
  /// It does not run, if it has not begun: it and those that need what it was to write fail with
  /// error(cancelled).
  /// \return false if it has begun.
  bool cancel() const;
  task_status status() const noexcept;
  explicit operator bool() const noexcept { return task_ != nullptr; }

  hetero::detail::task_record* inside() const noexcept { return task_; }

private:
  explicit hetero_task(hetero::detail::task_record* t) noexcept : task_(t) {}
  static hetero::detail::task_record* begin();
  hetero::detail::task_record& changed(const char* what) const;
  hetero::detail::task_record& known(const char* what) const;
  hetero::detail::task_record* task_ = nullptr;
};

/// Submits a kernel, for so many items, without a handle.
template <class Group, class... Params, class... Args>
void submit(const hetero::kernel<Group, Params...>& k, const items& n, Args&&... arguments) {
  const hetero::detail::grid g = n.inside(k);
  hetero::detail::new_task t;
  hetero::detail::fill_kernel(*t, k, g, n.inside_dynamic(), std::forward<Args>(arguments)...);
  t.submit();
}
/// Submits a task with variants (variants.hpp), a kernel among them.
template <hetero::detail::variants_with_code W, class... Args>
void submit(W w, const items& n, const Args&... arguments) {
  const hetero::detail::grid g = n.inside(w.code());
  hetero::detail::new_task t;
  hetero::detail::fill_variants(*t, w, g, n.inside_dynamic(), arguments...);
  t.submit();
}
/// Or with functions only.
template <hetero::detail::variants_of_functions W, class... Args> void submit(W w, const Args&... arguments) {
  hetero::detail::new_task t;
  hetero::detail::fill_variants(*t, w, {}, 0, arguments...);
  t.submit();
}
/// Submits a kernel in a device's own language.
template <hetero::detail::native_kernel K, class... Args>
void submit(const K& k, const items& n, const Args&... arguments) {
  submit(variants(k), n, arguments...);
}
/// Submits a function of the host's, without a handle.
template <class F, class... Args>
requires(hetero::detail::is_function<F>) void submit(F&& f, Args&&... arguments) {
  hetero::detail::new_task t;
  hetero::detail::fill_function(*t, std::forward<F>(f), std::forward<Args>(arguments)...);
  t.submit();
}

/// Returns when all tasks that were submitted in this scheduler are done, also those that they
/// submit. Not while holding an access that tasks wait for: it would wait for ever. \throws the
/// first failure that came out of no `wait` or `done`; log_info says how many there were. \throws
/// error(invalid_state) in a task's function, where it would wait for that task.
void wait_all();

/// Whether tasks are ordered by what they use, from now on, unless they say so themselves; true at
/// first.
void implicit_dependencies(bool on);

namespace hetero {
/// How many tasks may be left when a fiber submits more. Beyond that it waits until fewer are left,
/// for a millisecond at most. 0: as many as have their records in a quarter of a level-2 cache, and
/// more while workers are idle.
extern const option<int> hetero_window;
} // namespace hetero

} // namespace tern
