// SPDX-License-Identifier: Apache-2.0
#include <tern/net/message/node_receive.hpp>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/net/message/measured.hpp>
#include <tern/net/message/message_run.hpp>
#include <tern/net/message/parse.hpp>
#include <tern/task/polling/polling_fiber.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>
#include <tern/trace/record/events.hpp>
#include <tern/trace/trace.hpp>

namespace tern::net {
namespace {

constexpr int receives_between_looks = 8;
constexpr int messages_per_poll = 64, messages_in_fiber = 256;
constexpr int most_between_looks = 8; // at the clock, messages
constexpr double slice_seconds = 50e-6;
constexpr double patience_seconds = 1.5e-6; // with those that may answer: a round trip to a far core

} // namespace

node_receive::node_receive(node& here, rank_settings s, const send_settings& out, const receive_settings& in)
    : handler_runner(here, std::move(s), out, *this), plain_handlers_(handlers_.size()),
      slice_(tern::detail::ticks_in(slice_seconds)),
      patience_(in.awaits_answers ? tern::detail::ticks_in(patience_seconds) : 0) {}

node_receive::~node_receive() {
  if (batch_) batch_->abandon();
}

void node_receive::wait(std::chrono::microseconds at_most) {
  if (!has_next_) wire_->wait(at_most);
}
void node_receive::wake() noexcept { wire_->wake(); }

bool node_receive::receive(bool opens) {
  if (has_next_) return true;
  // Handlers for which no worker has time pile up no further: the network keeps what comes, and
  // then its senders do. Those that have begun and wait leave their workers to others, so this ends
  // when workers have time again.
  if (over_limit(1) && !simulated_) [[unlikely]] {
    held_.store(true, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst); // pairs with the one in `start_handler`
    if (over_limit(2)) return false;
  }
  for (;;) {
    if (batch_ && !batch_->next(next_)) batch_ = nullptr;
    const bool in_batch = more_behind_ = batch_ != nullptr;
    if (!in_batch && !wire_->receive(next_)) return false;
    if (!look_at_next()) [[unlikely]]
      continue;
    if (in_batch || next_handler_ != &batch_record) return has_next_ = true;
    batch_ = batch_reader::open(std::move(next_));
    if (opens) return true;
  }
}

// What is it that has been received? \return false: nothing that is to be dealt with now.
inline bool node_receive::look_at_next() {
  next_handler_ = nullptr;
  if (next_.head.size() < sizeof next_header_) [[unlikely]]
    return true;
  std::memcpy(&next_header_, next_.head.data(), sizeof next_header_);
  if (next_header_.handler >= plain_handlers_) [[unlikely]]
    return belongs_here();
  next_handler_ = handlers_[next_header_.handler];
  return true;
}

// The same where ranks have been lost, or for what is no message.
bool node_receive::belongs_here() {
  const std::uint32_t number = next_header_.handler, handler = number & generation_state::handler_mask;
  if (handler >= handlers_.size()) return true;
  const handler_record& known = *handlers_[handler];
  if (known.ageless() || &known == &batch_record) {
    if (number == handler) next_handler_ = &known;
    return true;
  }
  const generation_state::age age = generation_.compare(number);
  if (age == generation_state::age::newer) {
    arrival copy{next_.source, next_.head.copy(), {}};
    if (!next_.body.empty()) copy.body = next_.body.copy();
    later_.push_back(std::move(copy));
  }
  if (age != generation_state::age::same || generation_.abandoned()) {
    next_.head = {};
    next_.body = {};
    return false;
  }
  next_header_.handler = handler;
  next_handler_ = &known;
  // Handlers may look at the header where it lies.
  if (!next_.head.writable()) next_.head = next_.head.copy();
  std::memcpy(next_.head.data(), &next_header_, sizeof next_header_);
  return true;
}

void node_receive::abandon_generation() noexcept {
  generation_.abandon();
  plain_handlers_ = 0;
}

void node_receive::begin_generation(int number) {
  settle_counts(); // while they count for nothing
  counters_.begin_again();
  generation_.begin(number);
  for (arrival& one : std::exchange(later_, {})) {
    next_ = std::move(one);
    if (look_at_next()) deliver(); // or it is still to come, or came too late
  }
  shutdown_.set_internal(true); // as before: a handler of the runtime's has called this
}

// What has been received. Its handler may wait and others be received meanwhile: so nothing of it
// stays in the members.
void node_receive::deliver() {
  has_next_ = false;
  const int source = next_.source;
  const wire_header h = next_header_;
  try {
    if (!next_handler_) [[unlikely]]
      detail::no_message(next_);
    if ((h.flags & flag_epoch) != 0) [[unlikely]]
      deliver_in_epoch(source, h);
    else
      hand_out(*next_handler_, source, h);
  } catch (const std::exception& e) {
    fatal(std::string("a message could not be handled: ") + e.what());
  }
}

// A handler may wait here: then other fibers poll meanwhile.
void node_receive::deliver_in_epoch(int source, wire_header h) {
  tern::detail::held_context on = epochs_->arrive(source, h, next_.head);
  if (polls_apart_) delivering_ = on.get();
  {
    const tern::detail::causal_scope in(on.get());
    hand_out(*next_handler_, source, h);
  }
  if (polls_apart_) delivering_ = nullptr;
  epochs_->delivered(std::move(on));
}

void node_receive::hand_out(const handler_record& handler, int source, const wire_header& h) {
  payload message;
  detail::take_parts(next_, h, message);
  const std::size_t size = message.bytes.size() + message.body.size();
  counters_.add_polling(message_counters::received_bytes, size);
  received_log_.note({tern::detail::rough_ticks(), h.reply, size, h.handler, source});
  if ((h.flags & flag_uncounted) == 0) counters_.add_polling(message_counters::received);
  if (trace::built && (h.flags & flag_traced) != 0) [[unlikely]] {
    trace_run(handler, source, h, message);
  } else if (handler.internal()) {
    shutdown_.set_internal(true);
    handler.entry()(here_, source, h, message);
    shutdown_.set_internal(false);
  } else {
    handler.entry()(here_, source, h, message);
  }
}

// A simulation decides by chance which fiber runs; there each handler has one of its own.
event_source::polled node_receive::poll() {
  try {
    settle_counts();
    const tern::detail::worker* const w = tern::detail::this_worker();
    last_clock_ = w ? w->last_tick : tern::detail::ticks();
    bool any = queue_.flush(!simulated_ && w && w->has_fibers());              // they may send
    if (any) shutdown_.notify_if_idle();                                       // a fiber may wait for what was kept
    for (int n = 0; (simulated_ || n < messages_per_poll) && receive(); ++n) { // a simulation asks once
      if (!simulated_ && !polls_apart_ && next_handler_ && !next_handler_->internal()) return polled::needs_fiber;
      any = true;
      deliver();
    }
    return any ? polled::something : polled::nothing;
  } catch (const std::exception& e) {
    fatal(e.what());
  }
}

// Will the handler of this message run at once, and is nothing else to be done for it?
inline bool node_receive::can_run_directly(const wire_header& h, const handler_record& handler) const noexcept {
  return handler.direct() && (h.flags & (flag_traced | flag_epoch)) == 0 && may_start_here(h);
}

// `deliver` and `run_now` in one for the messages of which there may be many. What is done is
// counted later: by `settle_counts`, at the latest when this rank next polls.
// \param from where the message lies, if in a batch.
// \return false if it has waited: another fiber polls.
[[gnu::always_inline]] inline bool node_receive::run_directly(tern::detail::polling_fiber& pieces, const wire_header& h,
                                                              int source, payload& message, batch_reader* from) {
  const handler_entry handler = handlers_[h.handler]->direct();
  const std::size_t size = message.size();
  const bool counted = (h.flags & flag_uncounted) == 0;
  recent_bytes_ += size;
  if (counted) ++recent_received_;
  received_log_.note({last_clock_, h.reply, size, h.handler, source});
  measured(h, [&] { handler(here_, source, h, message); });
  if (pieces.end_piece()) [[likely]] {
    ++recent_handlers_;
    if (counted) ++recent_done_;
    if (from && message.bytes.borrowed()) {
      from->done_here();
      message.bytes.forget();
    }
    return true;
  }
  count_done(counted);
  return false;
}

void node_receive::settle_counts() noexcept {
  if (epochs_->has_unsettled()) [[unlikely]]
    epochs_->settle();
  if (recent_bytes_ == 0 && recent_handlers_ == 0) return;
  counters_.add_polling(message_counters::received_bytes, std::exchange(recent_bytes_, 0));
  counters_.add_polling(message_counters::received, std::exchange(recent_received_, 0));
  counters_.add_polling(message_counters::handlers, std::exchange(recent_handlers_, 0));
  counters_.add_polling(message_counters::done, std::exchange(recent_done_, 0));
  shutdown_.notify_if_idle();
}

// How long `run_in_fiber` goes on.
struct poll_budget {
  tern::detail::worker& w = *tern::detail::this_worker();
  const std::int64_t begun = w.last_tick;
  std::int64_t looked = begun; // at the clock, by `may_continue`
  int messages = 0, until_look = 1, between_looks = 1;
  bool over = false;
};

// \return whether to receive another message; once false, always.
inline bool node_receive::may_continue(poll_budget& s) noexcept {
  // Others want to run too, timers to ring, and what has been kept to go.
  s.over = s.over || ++s.messages >= messages_in_fiber || (s.w.has_ready() && !hands_out()) || s.w.after_poll ||
           queue_.kept() > 0;
  if (s.over || --s.until_look > 0) return !s.over;
  // The clock costs as much as a small handler: looked at after as many as take little time.
  last_clock_ = tern::detail::ticks();
  queue_.own_are_quick(last_clock_ - s.looked < s.between_looks * (slice_ / 16));
  s.between_looks = last_clock_ - s.looked < slice_ / 16 ? std::min(2 * s.between_looks, most_between_looks) : 1;
  s.until_look = s.between_looks;
  s.looked = last_clock_;
  s.over = last_clock_ - s.begun > slice_ && !hands_out(); // those take no time here
  return !s.over;
}

const std::byte* message_run::next() {
  node_receive& n = receiver_;
  if (running_) {
    if (!pieces_.end_piece()) [[unlikely]] {
      n.count_done(counted_);
      waited_ = true;
      return nullptr;
    }
    running_ = false;
    ++n.recent_handlers_;
    if (counted_) ++n.recent_done_;
    if (!n.may_continue(budget_) || --left_ == 0) return nullptr;
  }
  std::span<std::byte> bytes;
  if (!from_.peek(bytes) || bytes.size() != bytes_) return nullptr;
  wire_header h;
  std::memcpy(&h, bytes.data(), sizeof h);
  if (h.handler != handler_ || !takes(h) || !n.may_start_here(h)) return nullptr;
  from_.take(bytes);
  from_.done_here(); // as soon as it has been read
  n.recent_bytes_ += bytes_;
  counted_ = (h.flags & flag_uncounted) == 0;
  if (counted_) ++n.recent_received_;
  if (std::exchange(began_, true)) pieces_.repeat(budget_.w);
  running_ = true;
  return bytes.data() + sizeof h;
}

int message_run::source() const noexcept { return from_.source(); }

// Those messages of the batch at hand whose handlers run at once, as long as it `may_continue`.
// \return false if one has waited.
bool node_receive::run_batch(poll_budget& s, tern::detail::polling_fiber& pieces) {
  batch_reader* const from = batch_;
  const int source = from->source();
  more_behind_ = true;
  for (;;) {
    std::span<std::byte> bytes;
    if (!from->peek(bytes)) return true;
    wire_header h;
    if (bytes.size() < sizeof h) return true;
    std::memcpy(&h, bytes.data(), sizeof h);
    if (h.handler >= plain_handlers_) return true;
    const handler_record& handler = *handlers_[h.handler];
    if (!can_run_directly(h, handler)) return true;
    if (const handler_run& many = handler.many(); many.run && message_run::takes(h) && bytes.size() == many.bytes) {
      // Now and then one of them runs by itself, if it is to be measured.
      const int most = single_worker_ ? messages_in_fiber : static_cast<int>(15 - since_measured_ % 16);
      if (most > 0) {
        message_run run(here_, *this, *from, s, pieces, h.handler, many.bytes, most);
        received_log_.note({last_clock_, h.reply, bytes.size(), h.handler, source}); // and of its like, the first
        pieces.begin(s.w, handler.label());
        many.run(run);
        since_measured_ += static_cast<unsigned>(most - run.left_);
        if (run.waited_) return false;
        if (s.over) return true;
        continue;
      }
    }
    from->take(bytes);
    payload message{byte_buffer::borrow(bytes.data(), bytes.size(), *from), {}, true};
    pieces.begin(s.w, handler.label());
    if (!run_directly(pieces, h, source, message, from)) return false;
    if (!may_continue(s)) return true;
  }
}

// Has this worker anything to do but messages?
inline bool node_receive::has_else(const tern::detail::worker& w) const noexcept {
  return w.has_fibers() || w.after_poll || w.deque.size() > 0 || !core_->outside.empty();
}

// After the last of what had arrived. A rank that was answered may answer at once. If this worker
// has nothing else to do, it waits for that for a moment. So it need not leave this fiber and enter
// the next one.
// \return whether something has arrived.
bool node_receive::awaits_another(poll_budget& s) {
  settle_counts();
  if (queue_.flush_own() && receive(true)) return true;
  if (patience_ == 0) return false;
  const std::int64_t until = tern::detail::ticks() + patience_;
  do {
    for (int i = 0; i < receives_between_looks; ++i) {
      if (has_else(s.w) || !queue_.empty()) return false;
      if (receive(true)) return true;
    }
    last_clock_ = tern::detail::ticks();
  } while (last_clock_ < until);
  return false;
}

// As `awaits_another`, but for the answer that the calling fiber is about to wait for. All that is
// done here could be done by `poll`. A handler that is met is left to that.
void node_receive::poll_briefly(bool (*over)(const void*) noexcept, const void* what) noexcept {
  if (!tern::detail::this_causal_context()) [[likely]]
    return poll_without_context(over, what);
  const tern::detail::causal_scope nobodys(nullptr); // what arrives has nothing to do with this fiber
  poll_without_context(over, what);
}

void node_receive::poll_without_context(bool (*over)(const void*) noexcept, const void* what) noexcept {
  const tern::detail::worker& w = *tern::detail::this_worker();
  if (patience_ == 0 || size_ == 1 || has_else(w)) return;
  try {
    settle_counts();
    if (queue_.flush(false)) shutdown_.notify_if_idle();
    last_clock_ = tern::detail::ticks();
    // Timers and those that give way are looked after between fibers: a fiber that always has an
    // answer at once comes by there too.
    const std::int64_t until = std::min(last_clock_ + patience_, w.last_tick + slice_);
    for (; last_clock_ < until; last_clock_ = tern::detail::ticks()) {
      for (int i = 0; i < receives_between_looks; ++i) {
        if (over(what) || has_else(w) || !queue_.empty()) return;
        if (!receive()) continue;
        if (!next_handler_ || !next_handler_->internal()) return;
        deliver();
      }
    }
  } catch (const std::exception& e) {
    fatal(e.what());
  }
}

void node_receive::run_in_fiber() {
  tern::detail::polling_fiber pieces;
  poll_budget s;
  last_clock_ = s.begun;
  do {
    try {
      if (batch_ && !has_next_ && !run_batch(s, pieces)) return;
      if (s.over) break;
      if (!receive(true) && !awaits_another(s)) break;
      if (!has_next_) continue; // a batch
      if (!next_handler_ || next_handler_->internal()) {
        deliver();
      } else {
        pieces.begin(s.w, next_handler_->label());
        if (can_run_directly(next_header_, *next_handler_)) {
          has_next_ = false;
          const wire_header h = next_header_;
          const int source = next_.source;
          payload message;
          if (next_.body.empty()) [[likely]]
            message.bytes.swap(next_.head);
          else
            detail::take_parts(next_, h, message);
          if (!run_directly(pieces, h, source, message, nullptr)) return;
          continue;
        }
        may_run_here_ = true;
        deliver();
      }
    } catch (const std::exception& e) {
      fatal(e.what());
    }
    if (!pieces.end_piece()) return;
    may_run_here_ = false;
  } while (may_continue(s));
  settle_counts();
}

void node_receive::trace_run(const handler_record& handler, int source, const wire_header& h, payload& message) {
  const bool internal = trace::on() && handler.internal();
  if (trace::on()) trace::detail::arrives(source, h.flags >> traced_shift);
  if (internal)
    trace::detail::handler_begins(source, h.flags >> traced_shift, trace::detail::name_number(handler.name()));
  handler.entry()(here_, source, h, message);
  if (internal) trace::detail::handler_ends();
}

} // namespace tern::net
