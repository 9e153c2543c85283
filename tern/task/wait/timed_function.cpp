// SPDX-License-Identifier: Apache-2.0
#include <tern/task/wait/timed_function.hpp>

#include <tern/task/fiber/worker_head.hpp>
#include <tern/task/wait/suspension.hpp>

namespace tern::detail {

void timed_function::set(std::int64_t moment) noexcept {
  deadline = moment;
  where_ = this_worker_head(); // before: it may be called, and set anew, at once
  set_timer(*where_, *this);
}

bool timed_function::cancel() noexcept { return where_ && remove_timer(*where_, *this); }

} // namespace tern::detail
