// SPDX-License-Identifier: Apache-2.0
/// \file
/// A rank's messages that belong to an epoch: marked when they leave, settled when they have been
/// handled.
#include <tern/net/epoch/epoch_table.hpp>

#include <array>
#include <cstring>
#include <string>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/net/node.hpp>
#include <tern/task/polling/polling_fiber.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::net::detail {
namespace {

constexpr std::size_t small_head = 1024; // bytes that are marked on the stack
constexpr std::size_t most_handled = 64;

} // namespace

// The mark stands at the end of the head, before which all is as without it.
void epoch_table::send(tern::detail::causal_context& account, int destination, std::span<const std::byte> head,
                       byte_buffer& body, std::size_t bytes, posting how) {
  epoch_account& on = static_cast<epoch_account&>(account); // there is no other kind on a rank's workers
  if (!on.here()) [[unlikely]] {                            // it was abandoned, and so is what belongs to it
    if (here_.generation().abandoned()) return;
    throw here_.lost(destination, "a message of an epoch");
  }
  const std::size_t size = head.size() + sizeof(epoch_mark);
  alignas(16) std::array<std::byte, small_head> space;
  byte_buffer large;
  if (size > space.size()) large = here_.memory().take(size);
  const std::span<std::byte> marked = size > space.size() ? large.bytes() : std::span(space).first(size);
  std::memcpy(marked.data(), head.data(), head.size());
  wire_header h;
  std::memcpy(&h, marked.data(), sizeof h);
  h.flags |= flag_epoch;
  std::memcpy(marked.data(), &h, sizeof h);
  const epoch_mark mark = depart(on);
  std::memcpy(marked.data() + head.size(), &mark, sizeof mark);
  message_counters& counters = here_.counters();
  counters.add(here_.worker_here(), message_counters::marked); // before it can be done
  try {
    here_.send_out(destination, marked, body, bytes + sizeof mark, how);
  } catch (...) {
    // This fiber may have waited, and gone on elsewhere.
    counters.add(here_.worker_here(), message_counters::marked, ~std::uint64_t{0});
    stay(on, mark);
    throw;
  }
}

tern::detail::held_context epoch_table::arrive(int source, wire_header& h, byte_buffer& head) {
  epoch_mark mark;
  if (head.size() < sizeof h + sizeof mark || (h.flags & flag_uncounted) != 0)
    throw error(errc::invalid_data, "rank " + std::to_string(source) + " sent a message of an epoch without its mark");
  std::memcpy(&mark, head.data() + head.size() - sizeof mark, sizeof mark);
  head.resize(head.size() - sizeof mark);
  h.flags &= ~flag_epoch;
  tern::detail::held_context on = arrive(source, mark);
  here_.counters().add_polling(message_counters::marked_received);
  return on;
}

void epoch_table::delivered(tern::detail::held_context on) noexcept {
  // The handler may have waited: then other fibers poll meanwhile.
  const tern::detail::worker* const w = tern::detail::this_worker();
  if (!here_.simulated() && (!w || !w->running || tern::detail::polling_fiber::may_continue())) {
    handled_.push_back(std::move(on));
    lingering_ = true;
    if (handled_.size() >= most_handled) settle();
    return;
  }
  on.reset();
  here_.counters().add(here_.worker_here(), message_counters::settled);
  here_.shutdown().notify_if_idle();
}

// Where messages arrive, and because of some: so what it sends never waits, see
// job_shutdown::may_wait. But for what a foreign thread has let go: that has time until the job
// accepts messages again.
void epoch_table::settle() noexcept {
  job_shutdown& shutdown = here_.shutdown();
  const bool was_internal = shutdown.set_internal(true);
  if (late_.load(std::memory_order_acquire) && shutdown.is_open()) settle_late();
  const std::size_t n = handled_.size();
  handled_.clear();
  lingering_ = false;
  shutdown.set_internal(was_internal);
  here_.counters().add_polling(message_counters::settled, n);
  shutdown.notify_if_idle();
}

} // namespace tern::net::detail
