// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Many small tasks of one kernel, submitted in one call:
///
///     std::vector<tern::hetero_object<float>> cells = …;
///     tern::submit_batch(fluid::advance, tern::items(64), cells.size(),
///                        [&](std::size_t i) { return std::tuple(64, dt, tern::read_write(cells[i])); });
///
/// Each is a task of its own, with its own order, place and failure, as if it had been submitted
/// alone. What they share is paid once for a few dozen of them: the policy's lock, the push to a
/// worker, the wake-up. A worker runs those that are ready together one after the other, and gives
/// half of the rest away when another one has nothing to do.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>

#include <tern/hetero/hetero_task.hpp>

namespace tern {

namespace hetero::detail {
struct record_magazine;
/// So many tasks later a record or an object is used that may not be in a cache yet.
constexpr std::size_t arguments_ahead = 8;
/// The tasks of one batch, on their way. Each gets its place in the order as soon as its record is
/// filled; those that are ready are kept back until there are enough for one push.
///
/// Most are *plain*: the host runs them, and each writes one object whose last writer has ended.
/// What all tasks of a kernel have in common is looked at once for a few dozen of them, and a task
/// is counted when it is pushed. When a plain task has run, its object forgets it (task_bundle): so
/// a few hundred records go round, which stay in the caches, however
/// many objects there are. Threads: one fiber.
class batch_submission {
public:
  /// \param kernel for errors.
  batch_submission(const kernel_code& kernel, const grid& shape, std::size_t count);
  ~batch_submission(); ///< what is ready runs
  batch_submission(const batch_submission&) = delete;
  batch_submission& operator=(const batch_submission&) = delete;

  /// To be filled.
  task_record& next() {
    if (spare_count_ == 0) find_spares();
    open_ = spares_[--spare_count_];
    if (spare_count_ >= early) fetch_soon(*spares_[spare_count_ - early]);
    open_->home = home_;
    return *open_;
  }
  /// It has been. \throws as `submit`.
  void add();
  /// Task `i` could not be made or submitted: those before it are. \throws the exception's text,
  /// with the task's number, and the exception nested.
  [[noreturn]] void failed(std::size_t i, const std::exception_ptr& why) const;

private:
  static constexpr std::size_t together = 60, early = arguments_ahead;
  static void fetch_soon(task_record& t) noexcept {
    __builtin_prefetch(&t, 1);
    __builtin_prefetch(&t.slots[0], 1);
    __builtin_prefetch(t.closure, 1);
  }
  void find_spares();
  bool are_plain() const; // the next few, as far as their kernel and this fiber go
  bool order_plain(task_record* t) noexcept;
  void order(task_record* t);
  void flush() noexcept;

  const kernel_code& kernel_;
  const std::size_t count_;
  const bool bundles_;    // the tasks cannot wait, so a worker can run them in a row
  bool wide_ = false;     // as for submission_window::submitted
  std::size_t given_ = 0; // tasks since the window has been looked at
  std::size_t ready_count_ = 0, placed_count_ = 0;
  std::size_t uncounted_ = 0; // of those that are ready
  bool plain_ = false;
  task_record* open_ = nullptr;
  runtime* home_ = nullptr;          // as soon as there is a record
  record_magazine* more_ = nullptr;  // full ones
  record_magazine* empty_ = nullptr; // which held the spares
  std::size_t spare_count_ = 0;
  std::array<task_record*, together> spares_;
  std::array<task_record*, together> ready_, placed_;
};
} // namespace hetero::detail

namespace hetero::detail {
template <class... A> void prefetch_objects(const std::tuple<A...>& arguments) noexcept {
  [[maybe_unused]] const auto one = []<class One>(const One& a) {
    if constexpr (is_used<One>) prefetch(*a.object);
  };
  std::apply([&](const auto&... a) { (one(a), ...); }, arguments);
}

/// May arguments be kept while `f` is called for the next tasks? What refers to something may not.
template <class T> inline constexpr bool may_wait = false;
template <class... A>
inline constexpr bool may_wait<std::tuple<A...>> = ((!std::is_reference_v<A> && std::is_trivially_copyable_v<A>)&&...);

/// The arguments of the next few tasks, whose objects are on their way into the cache.
template <class Arguments> class arguments_to_come {
public:
  /// \param get gives arguments that come after those that are here.
  template <class Get> void put(Get&& get) {
    ::new (static_cast<void*>(&slots_[(first_ + count_) % arguments_ahead])) Arguments(get());
    prefetch_objects(at((first_ + count_++) % arguments_ahead));
  }
  std::size_t count() const noexcept { return count_; }
  /// Those of the first one, which goes.
  Arguments take() noexcept {
    --count_;
    return at(std::exchange(first_, (first_ + 1) % arguments_ahead));
  }

private:
  Arguments& at(std::size_t i) noexcept { return *std::launder(reinterpret_cast<Arguments*>(&slots_[i])); }
  struct alignas(Arguments) slot {
    std::byte bytes[sizeof(Arguments)];
  };
  std::size_t first_ = 0, count_ = 0;
  std::array<slot, arguments_ahead> slots_; // nothing is to be destroyed in them
};
} // namespace hetero::detail

/// Submits `count` tasks of the kernel, each for so many items: task i with the arguments that
/// `f(i)` returns as a std::tuple, in the order of i. None if `count` is 0. May suspend the calling
/// fiber, as `submit` does. \param f is called for each i, in order, up to eight tasks ahead of the
/// one that is submitted. It must not submit tasks, wait for any or ask for access to an object.
/// \throws what `submit` throws, or an error with the text of what `f` throws: it says which i, and
/// the tasks before that one have been submitted. (std::throw_with_nested keeps the cause.)
template <class Group, class... Params, class F>
void submit_batch(const hetero::kernel<Group, Params...>& k, const items& n, std::size_t count, F&& f) {
  using namespace hetero::detail;
  using arguments = std::decay_t<decltype(f(std::size_t{}))>;
  const grid g = n.inside(k);
  batch_submission batch(k, g, count);
  std::size_t submitted = 0;
  const auto submit_one = [&](const arguments& all) {
    try {
      std::apply([&](const auto&... one) { fill_kernel(batch.next(), k, g, n.inside_dynamic(), one...); }, all);
      batch.add();
    } catch (...) {
      batch.failed(submitted, std::current_exception());
    }
    ++submitted;
  };
  if constexpr (may_wait<arguments>) {
    arguments_to_come<arguments> next;
    for (std::size_t i = 0; i < count; ++i) {
      if (next.count() == arguments_ahead) submit_one(next.take());
      try {
        next.put([&] { return f(i); });
      } catch (...) {
        const std::exception_ptr why = std::current_exception();
        while (next.count() > 0) submit_one(next.take());
        batch.failed(i, why);
      }
    }
    while (next.count() > 0) submit_one(next.take());
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      const auto all = [&]() -> decltype(f(i)) {
        try {
          return f(i);
        } catch (...) {
          batch.failed(i, std::current_exception());
        }
      };
      submit_one(all());
    }
  }
}

} // namespace tern
