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

#include <array>
#include <cstddef>
#include <tuple>
#include <utility>

#include <tern/hetero/hetero_task.hpp>

namespace tern {

namespace hetero::detail {
/// The tasks of one batch, on their way. Each gets its place in the order as soon as its record is
/// filled; those that are ready are kept back until there are enough for one push. Threads: one
/// fiber.
class batch_submission {
public:
  /// \param kernel for errors.
  batch_submission(const kernel_code& kernel, const grid& shape, std::size_t count);
  ~batch_submission(); ///< what is ready runs
  batch_submission(const batch_submission&) = delete;
  batch_submission& operator=(const batch_submission&) = delete;

  task_record& next(); ///< to be filled
  /// It has been. \throws as `submit`.
  void add();
  /// Task `i` could not be made or submitted: those before it are. \pre in a handler. \throws the
  /// exception's text, with the task's number, and the exception nested.
  [[noreturn]] void failed(std::size_t i) const;

private:
  static constexpr std::size_t together = 60;
  void flush() noexcept;

  const kernel_code& kernel_;
  const std::size_t count_;
  const bool bundles_;    // the tasks cannot wait, so a worker can run them in a row
  bool wide_ = false;     // as for submission_window::submitted
  std::size_t given_ = 0; // tasks since the window has been looked at
  std::size_t ready_count_ = 0, placed_count_ = 0;
  task_record* open_ = nullptr;
  std::array<task_record*, together> ready_, placed_;
};
} // namespace hetero::detail

/// Submits `count` tasks of the kernel, each for so many items: task i with the arguments that
/// `f(i)` returns as a std::tuple, in the order of i. None if `count` is 0. May suspend the calling
/// fiber, as `submit` does. \param f must not submit tasks, wait for any or ask for access to an
/// object.
/// \throws what `submit` throws, or an error with the text of what `f` throws: it says which i, and
/// the tasks before that one have been submitted. (std::throw_with_nested keeps the cause.)
template <class Group, class... Params, class F>
void submit_batch(const hetero::kernel<Group, Params...>& k, const items& n, std::size_t count, F&& f) {
  const hetero::detail::grid g = n.inside(k);
  hetero::detail::batch_submission batch(k, g, count);
  for (std::size_t i = 0; i < count; ++i) {
    try {
      std::apply(
          [&](const auto&... arguments) {
            hetero::detail::fill_kernel(batch.next(), k, g, n.inside_dynamic(), arguments...);
          },
          f(i));
      batch.add();
    } catch (...) {
      batch.failed(i);
    }
  }
}

} // namespace tern
