// SPDX-License-Identifier: Apache-2.0
/// \file
/// A rank's messages that belong to an epoch. Each counts twice for `quiesce`: it is handled, and its account is
/// settled, which may send a message in turn.
#include <tern/net/node.hpp>

#include <array>
#include <cstring>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/task/scheduler/polling_fiber.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::net {
namespace {

constexpr std::size_t small_head = 1024; // bytes that are marked on the stack
constexpr std::size_t most_lingering = 64;

} // namespace

// At the end of the head, before which all is as without it.
void node::send_marked(int destination, std::span<const std::byte> head, byte_buffer& body, std::size_t bytes,
                       posting how) {
  check_rank(destination);
  detail::epoch_account& on = *account_here();
  const std::size_t size = head.size() + sizeof(detail::epoch_mark);
  alignas(16) std::array<std::byte, small_head> space;
  byte_buffer large;
  if (size > space.size()) large = memory_.take(size);
  const std::span<std::byte> marked = size > space.size() ? large.bytes() : std::span(space).first(size);
  std::memcpy(marked.data(), head.data(), head.size());
  wire_header h;
  std::memcpy(&h, marked.data(), sizeof h);
  h.flags |= flag_epoch;
  std::memcpy(marked.data(), &h, sizeof h);
  const detail::epoch_mark mark = epochs_.depart(on);
  std::memcpy(marked.data() + head.size(), &mark, sizeof mark);
  const int worker = worker_here();
  counters_.add(worker, message_counters::marked); // before it can be done
  try {
    send_out(destination, marked, body, bytes + sizeof mark, how);
  } catch (...) {
    counters_.add(worker_here(), message_counters::marked, ~std::uint64_t{0}); // it may have waited, and gone on elsewhere
    epochs_.stay(on, mark);
    throw;
  }
}

void node::deliver_on_account(int source, wire_header h) {
  byte_buffer& head = next_.head;
  detail::epoch_mark mark;
  if (head.size() < sizeof h + sizeof mark || (h.flags & flag_uncounted) != 0)
    throw error(errc::invalid_data, "rank " + std::to_string(source) + " sent a message of an epoch without its mark");
  std::memcpy(&mark, head.data() + head.size() - sizeof mark, sizeof mark);
  head.resize(head.size() - sizeof mark);
  h.flags &= ~flag_epoch;
  tern::detail::held_cause on = epochs_.arrive(source, mark);
  counters_.add_polling(message_counters::marked_received);
  if (poll_apart_) delivering_ = on.get();
  {
    const tern::detail::cause_scope in(on.get());
    hand_out(*next_handler_, source, h);
  }
  if (poll_apart_) delivering_ = nullptr;
  // A handler may have waited: then others poll meanwhile.
  const tern::detail::worker* const w = tern::detail::this_worker();
  if (!world_ && (!w || !w->running || tern::detail::errands::stays())) {
    lingering_.push_back(std::move(on));
    if (lingering_.size() >= most_lingering) settle_accounts();
    return;
  }
  on.let_go();
  counters_.add(worker_here(), message_counters::settled);
  tell_if_idle();
}

// Where messages arrive, and because of some: so what it sends never waits, see `may_wait_at_door`. But for what a
// foreign thread has let go: that has time until the door is open.
void node::settle_accounts() noexcept {
  const bool was_internal = std::exchange(in_internal_, true);
  if (epochs_.has_late() && door_.load(std::memory_order_relaxed) == door::open) epochs_.settle_late();
  const std::size_t n = lingering_.size();
  lingering_.clear();
  in_internal_ = was_internal;
  counters_.add_polling(message_counters::settled, n);
  tell_if_idle();
}

} // namespace tern::net
