// SPDX-License-Identifier: Apache-2.0
#include <tern/net/message/node_send.hpp>

#include <cstring>
#include <string>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/net/termination/worker_number.hpp>
#include <tern/trace/record/events.hpp>

namespace tern::net {
namespace {

const bool knows_how_jobs_end = [] {
  detail::share_lender::tell_waited = [](const char* text) noexcept { rank_base::current()->fatal(text); };
  return true;
}();

} // namespace

node_send::node_send(rank_settings s, const send_settings& how, event_source& events)
    : rank_base(std::move(s), events), recorded_(trace::on()), places_(!recorded_), head_limit_(wire_->head_limit()),
      queue_(*wire_, how.mode, batch_record.id(), how.patience) {
  if (!how.only_owner_sends) return;
  queue_.nobody_else_sends();
  if (how.mode == aggregation::automatic) queue_.gather_own(rank_);
}

void node_send::no_such_rank(int destination) const {
  throw error(errc::invalid_argument, "there is no rank " + std::to_string(destination),
              size_ == 1 ? "this job has the one rank 0; start more with `tern run -n N`"
                         : "ranks are 0 to " + std::to_string(size_ - 1));
}

void node_send::check_any_rank(int destination) const {
  if (static_cast<unsigned>(destination) >= static_cast<unsigned>(size_)) no_such_rank(destination);
  if (generation_.abandoned() || generation_.is_dead(destination)) throw lost(destination, "a message");
}

error node_send::lost(int destination, const std::string& what) const {
  const std::vector<generation_state::death> dead = generation_.dead();
  std::string ranks;
  for (const auto& d : dead)
    ranks += (ranks.empty() ? "rank " : ", rank ") + std::to_string(d.rank) +
             (d.text.empty() ? std::string() : " (" + d.text + ")");
  return error(errc::rank_lost,
               what + (destination >= 0 ? " for rank " + std::to_string(destination) : std::string()) +
                   " was given up, since the job has lost " + ranks,
               "tern::living() tells which ranks are left; what runs within tern::protect goes on from its last copy");
}

// Of a job that has lost a rank. \return false: it is dropped, as it would be where it arrives.
bool node_send::enter_generation(int destination, std::span<std::byte> head) const {
  if (static_cast<unsigned>(destination) >= static_cast<unsigned>(size_)) no_such_rank(destination);
  wire_header h;
  std::memcpy(&h, head.data(), sizeof h);
  h.handler &= generation_state::handler_mask;
  const bool ageless = handler_table::at(h.handler).ageless();
  if (ageless) return !generation_.is_dead(destination);
  if (generation_.abandoned()) return false;
  if (generation_.is_dead(destination)) throw lost(destination, "a message");
  h.handler |= generation_.mark();
  std::memcpy(head.data(), &h, sizeof h);
  return true;
}

void node_send::abandon_sends() {
  places_.store(false, std::memory_order_relaxed);
  const auto belongs = [](std::span<const std::byte> head) {
    wire_header h;
    std::memcpy(&h, head.data(), sizeof h);
    const std::uint32_t handler = h.handler & generation_state::handler_mask;
    return !handler_table::at(handler).ageless();
  };
  queue_.drop(-1, belongs);
}

void node_send::post(int destination, byte_buffer message, byte_buffer& body, posting how) {
  const std::size_t size = message.size();
  const std::size_t mark = in_epoch(how) ? epoch_messages::mark_bytes : 0;
  if (size + mark <= head_limit_) return send_head(destination, message.bytes(), body, size, how);
  // All of it as the body; its header alone stands in the head.
  struct {
    wire_header header;
    std::uint64_t arguments;
  } head;
  std::size_t head_size = sizeof head.header;
  std::memcpy(&head.header, message.data(), sizeof head.header);
  if (!body.empty()) { // both are large, which is rare
    head.header.flags |= flag_joined;
    head.arguments = size;
    head_size = sizeof head;
    message.append(body);
    body = {};
  }
  send_head(destination, std::as_writable_bytes(std::span(&head, 1)).first(head_size), message, 0, how);
}

void node_send::send_out(int destination, std::span<std::byte> head, byte_buffer& body, std::size_t bytes,
                         posting how) {
  if (static_cast<unsigned>(destination) >= generation_.plain()) [[unlikely]]
    if (!enter_generation(destination, head)) {
      body = {};
      return;
    }
  bytes += body.size();
  const auto counter = how.counted ? message_counters::sent
                       : how.part  ? message_counters::parts
                                   : message_counters::uncounted;
  const tern::detail::worker* const here = tern::detail::this_worker();
  const int worker = here && here->home == core_ ? here->index : -1;
  counters_.add_sent(worker, counter, bytes); // before it can be done
  if (how.counted && shutdown_.refuses_sender()) [[unlikely]] {
    counters_.add_sent(worker, counter, ~bytes + 1, ~std::uint64_t{0}); // takes it back
    shutdown_.wait_until_open();
    return send_out(destination, head, body, bytes - body.size(), how);
  }
  if (trace::built && recorded_) [[unlikely]]
    trace_send(destination, head, bytes);
  wire_header h;
  std::memcpy(&h, head.data(), sizeof h);
  try {
    queue_.send(destination, head, body, how.urgent, h.reply != 0);
  } catch (...) {
    counters_.add(worker, counter, ~std::uint64_t{0}); // takes it back: else `quiesce` would wait for it for ever
    throw;
  }
  const std::int64_t when = here ? here->last_tick : tern::detail::ticks();
  sent_log_.note({when, h.reply, bytes, h.handler & generation_state::handler_mask, destination}); // while it travels
}

inline void node_send::send_head(int destination, std::span<std::byte> head, byte_buffer& body, std::size_t bytes,
                                 posting how) {
  if (in_epoch(how)) [[unlikely]] {
    check_rank(destination);
    epochs_->send(*cause_here(), destination, head, body, bytes, how);
  } else {
    send_out(destination, head, body, bytes, how);
  }
}

void node_send::wait_for(detail::loan& lent) noexcept {
  // What was read comes back about when the answer comes, so the fiber had better not suspend.
  bool back = false;
  const struct expected {
    detail::loan& lent;
    bool& back;
  } one{lent, back};
  tern::detail::poll_briefly(
      [](const void* what) noexcept {
        const auto& o = *static_cast<const expected*>(what);
        return o.back = o.back || o.lent.try_wait();
      },
      &one);
  if (back) return;
  counters_.add(worker_here(), message_counters::parts);
  counters_.add(worker_here(), message_counters::waits);
  lent.wait();
  counters_.add(worker_here(), message_counters::parts_taken);
}

void node_send::trace_send(int to, std::span<std::byte> head, std::size_t bytes) noexcept {
  wire_header h;
  if (!trace::on() || head.size() < sizeof h) return;
  std::memcpy(&h, head.data(), sizeof h);
  const std::uint64_t number = traced_.fetch_add(1, std::memory_order_relaxed);
  h.flags |= flag_traced | static_cast<std::uint32_t>(number) << traced_shift;
  std::memcpy(head.data(), &h, sizeof h);
  trace::detail::sends(
      to, number, bytes,
      trace::detail::name_number(handler_table::at(h.handler & generation_state::handler_mask).name()));
}

void node_send::drop_sends_to(int lost) {
  queue_.drop(lost, [](std::span<const std::byte>) { return true; });
}

} // namespace tern::net
