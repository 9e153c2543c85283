// SPDX-License-Identifier: Apache-2.0
#include <tern/task/fiber/fiber_state.hpp>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>

#include <tern/task/fiber/worker_head.hpp>

namespace tern::detail {

std::string fiber::called() const {
  return std::to_string(id.load(std::memory_order_relaxed)) + (name[0] ? " '" + std::string(name) + "'" : "");
}

void announce_wait(fiber& f, const wait_reason& why, std::int64_t since) noexcept {
  f.waits_for.store(why.object, std::memory_order_relaxed);
  f.waits_on.store(why.owner, std::memory_order_relaxed);
  f.waits_since.store(since, std::memory_order_relaxed);
  // release: a reader of the kind (dump_fibers) reads what belongs to it.
  f.waits.store(why.kind, std::memory_order_release);
}

leave_watch::leave_watch() noexcept : of_(running_fiber()) {
  if (of_) of_->leave_flags |= leave_flags::watched;
}
leave_watch::~leave_watch() {
  if (of_) of_->leave_flags &= static_cast<std::uint8_t>(~leave_flags::watched);
}

void add_leave_hook(leave_hook& h) noexcept {
  fiber& f = *running_fiber();
  h.outer = std::exchange(f.hooks, &h);
  f.leave_flags |= leave_flags::hooked;
}

void remove_leave_hook(leave_hook& h) noexcept {
  fiber& f = *running_fiber(); // the same; the worker may be another
  f.hooks = h.outer;
  if (!f.hooks) f.leave_flags &= static_cast<std::uint8_t>(~leave_flags::hooked);
}

const char* name_of(wait_kind k) noexcept {
  static constexpr const char* names[] = {"nothing",    "mutex",     "shared_mutex", "condition_variable",
                                          "semaphore",  "latch",     "barrier",      "once",
                                          "channel",    "future",    "join",         "group",
                                          "sleep",      "predicate", "capacity",     "collective operation",
                                          "quiescence", "something"};
  return names[std::min<std::size_t>(static_cast<std::size_t>(k), std::size(names) - 1)];
}

} // namespace tern::detail
