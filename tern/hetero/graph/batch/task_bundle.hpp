// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Tasks that are ready together, as one tasklet. Internal.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <tern/hetero/record/task_record.hpp>

namespace tern::hetero::detail {

/// One push, one pop and one wake-up for many tasks. The worker that has popped it runs them one
/// after the other; before each, if another worker has nothing to do, the later half becomes a
/// bundle of its own, which that worker can steal. Its memory is a block of the pool of records.
///
/// \pre none of its tasks waits (a kernel of one group does not): the others could not run
/// meanwhile. What a task makes ready is pushed, not run here, for the same reason.
class task_bundle final : public tern::detail::tasklet {
public:
  /// \param tasks of the calling worker's runtime that are ready to run on the host: from 1 to
  /// `capacity`.
  static void push(std::span<task_record* const> tasks) noexcept;

  static constexpr std::size_t capacity = 60;

private:
  explicit task_bundle(std::span<task_record* const> tasks) noexcept;
  void push_later_half() noexcept;
  static tern::detail::worker_base* run_all(tern::detail::tasklet* x) noexcept;

  std::uint32_t first_ = 0, end_;
  std::array<task_record*, capacity> tasks_;
};
static_assert(sizeof(task_bundle) <= sizeof(task_record));

} // namespace tern::hetero::detail
