// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What reports know of an access on the host. Internal.

#include <atomic>
#include <cstdint>
#include <source_location>

#include <tern/hetero/access.hpp>
#include <tern/hetero/record/task_record.hpp>

namespace tern::hetero::detail {

struct worker_part;

/// An access that has been asked for and not been released: the closure of its task. In the list of
/// the worker that asked for it (`worker_part::accesses`) until it ends.
struct access_note {
  static constexpr std::int64_t waits = -1; ///< `granted`: it is not
  access_request* request = nullptr;        ///< null: it has been answered
  task_record* task = nullptr;
  access_note *next = nullptr, *previous = nullptr; ///< under the lock of `part`
  worker_part* part = nullptr;
  std::source_location where;               ///< it was asked for
  std::uint64_t fiber = 0;                  ///< that asked; 0: a thread that is in none
  std::int64_t asked = 0;                   ///< ticks
  std::atomic<std::int64_t> granted{waits}; ///< ticks. Relaxed: for people
  access_mode how = access_mode::read;
};

extern const work_type host_access_work;

} // namespace tern::hetero::detail
