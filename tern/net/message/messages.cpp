// SPDX-License-Identifier: Apache-2.0
/// \file
/// A rank's messages: how they leave it, and how those that arrive become handlers that run.
#include <tern/net/node.hpp>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include <tern/net/message.hpp>
#include <tern/net/message/parse.hpp>
#include <tern/task/scheduler/polling_fiber.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>
#include <tern/task/wait/wait_list.hpp>
#include <tern/trace/trace.hpp>

namespace tern::net {
namespace {

constexpr int receives_between_looks = 8;
constexpr int messages_per_poll = 64, messages_in_fiber = 256;
constexpr int most_between_looks = 8;     // at the clock, messages
constexpr std::size_t most_queued = 4096; // handlers that have not begun
constexpr std::size_t most_queued_bytes = std::size_t{64} << 20;

struct batch_tag {};
const handler_record batch_record{
    typeid(batch_tag), "tern batch", __FILE__,
    [](node&, int, const wire_header&, payload&) { throw error(errc::invalid_data, "a batch lies in another"); }, true};

} // namespace

// Out -----------------------------------------------------------------------------------------------------------------

void node::no_such_rank(int destination) const {
  throw error(errc::invalid_argument, "there is no rank " + std::to_string(destination),
              size_ == 1 ? "this job has the one rank 0; start more with `tern run -n N`"
                         : "ranks are 0 to " + std::to_string(size_ - 1));
}

int node::worker_here() const noexcept {
  const tern::detail::worker* const w = tern::detail::this_worker();
  return w && w->home == core_ ? w->index : -1;
}

void node::post(int destination, byte_buffer message, byte_buffer& body, posting how) {
  const std::size_t size = message.size();
  const std::size_t mark = on_account(how) ? sizeof(detail::epoch_mark) : 0;
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

void node::send_out(int destination, std::span<std::byte> head, byte_buffer& body, std::size_t bytes, posting how) {
  check_rank(destination);
  bytes += body.size();
  const auto counter = how.counted ? message_counters::sent : how.part ? message_counters::parts : message_counters::uncounted;
  const tern::detail::worker* const here = tern::detail::this_worker();
  const int worker = here && here->home == core_ ? here->index : -1;
  counters_.add_sent(worker, counter, bytes); // before it can be done
  if (how.counted && door_is_shut() && (door_.load() == door::closed || may_wait_at_door())) [[unlikely]] {
    counters_.add_sent(worker, counter, ~bytes + 1, ~std::uint64_t{0}); // not yet
    wait_at_door();
    return send_out(destination, head, body, bytes - body.size(), how);
  }
  if (trace::built && recorded_) [[unlikely]]
    trace_send(destination, head, bytes);
  wire_header h;
  std::memcpy(&h, head.data(), sizeof h);
  try {
    queue_.send(destination, head, body, how.urgent);
  } catch (...) {
    counters_.add(worker, counter, ~std::uint64_t{0}); // one less: else `quiesce` would wait for it for ever
    throw;
  }
  const std::int64_t when = here ? here->looked_around : tern::detail::ticks();
  sent_log_.note({when, h.reply, bytes, h.handler, destination}); // while it travels
}

inline void node::send_head(int destination, std::span<std::byte> head, byte_buffer& body, std::size_t bytes,
                            posting how) {
  if (on_account(how)) [[unlikely]]
    send_marked(destination, head, body, bytes, how);
  else
    send_out(destination, head, body, bytes, how);
}

// In ------------------------------------------------------------------------------------------------------------------

inline bool node::over_limit(std::size_t part) const noexcept {
  return queued_.load(std::memory_order_relaxed) >= most_queued / part ||
         queued_bytes_.load(std::memory_order_relaxed) >= most_queued_bytes / part;
}

bool node::receive() {
  if (has_next_) return true;
  // Handlers that nobody has time for pile up no further: the network keeps what comes, and then its senders do. Those
  // that have begun and wait leave their workers to others, so this ends when workers have time again.
  if (over_limit(1) && !world_) [[unlikely]] {
    held_.store(true, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst); // pairs with the one in `start_handler`
    if (over_limit(2)) return false;
  }
  for (;;) {
    if (batch_ && !batch_->next(next_)) batch_ = nullptr;
    const bool in_batch = batch_ != nullptr;
    if (!in_batch && !wire_->receive(next_)) return false;
    look_at_next();
    if (in_batch || next_handler_ != &batch_record) return has_next_ = true;
    batch_ = batch_reader::open(std::move(next_));
  }
}

// What is it that has been received?
inline void node::look_at_next() noexcept {
  next_handler_ = nullptr;
  if (next_.head.size() < sizeof next_header_) [[unlikely]]
    return;
  std::memcpy(&next_header_, next_.head.data(), sizeof next_header_);
  if (next_header_.handler < handlers_.size()) [[likely]]
    next_handler_ = handlers_[next_header_.handler];
}

std::uint32_t node::batch_handler() { return batch_record.id(); }

// What has been received. Its handler may wait and others be received meanwhile: so nothing of it stays in the members.
void node::deliver() {
  has_next_ = false;
  const int source = next_.source;
  const wire_header h = next_header_;
  try {
    if (!next_handler_) [[unlikely]]
      detail::no_message(next_);
    if ((h.flags & flag_epoch) != 0) [[unlikely]]
      deliver_on_account(source, h);
    else
      hand_out(*next_handler_, source, h);
  } catch (const std::exception& e) {
    fatal(std::string("a message could not be handled: ") + e.what());
  }
}

void node::hand_out(const handler_record& handler, int source, const wire_header& h) {
  payload message;
  detail::take_parts(next_, h, message);
  const std::size_t size = message.bytes.size() + message.body.size();
  counters_.add_polling(message_counters::received_bytes, size);
  received_log_.note({tern::detail::rough_ticks(), h.reply, size, h.handler, source});
  if ((h.flags & flag_uncounted) == 0) counters_.add_polling(message_counters::received);
  if (trace::built && (h.flags & flag_traced) != 0) [[unlikely]] {
    trace_run(handler, source, h, message);
  } else if (handler.internal()) {
    in_internal_ = true;
    handler.entry()(*this, source, h, message);
    in_internal_ = false;
  } else {
    handler.entry()(*this, source, h, message);
  }
}

// A simulation decides by chance which fiber runs; there each handler has one of its own.
event_source::polled node::poll() {
  try {
    settle_counts();
    const tern::detail::worker* const w = tern::detail::this_worker();
    last_clock_ = w ? w->looked_around : tern::detail::ticks();
    bool any = queue_.flush(!world_ && w && w->has_fibers());             // they may send
    if (any) tell_if_idle();                                               // who waits for what was kept
    for (int n = 0; (world_ || n < messages_per_poll) && receive(); ++n) { // a simulation asks once
      if (!world_ && !poll_apart_ && next_handler_ && !next_handler_->internal()) return polled::in_fiber;
      any = true;
      deliver();
    }
    return any ? polled::something : polled::nothing;
  } catch (const std::exception& e) {
    fatal(e.what());
  }
}

// Is it the turn of this message's handler, and may other messages wait for it?
inline bool node::is_next_and_quick(const wire_header& h) const noexcept {
  if (h.flags & flag_low) [[unlikely]]
    return false;
  if (queued_.load(std::memory_order_acquire) > 0) return false; // older ones come first
  if (single_worker_) return true;
  const std::uint32_t known = handler_costs_[h.handler].load(std::memory_order_relaxed);
  return known != 0 && known < quick_; // whoever has not run yet may take long, and other workers have nothing to do
}

// Will the handler of this message run at once, and is nothing else to be done for it?
inline bool node::can_run_directly(const wire_header& h, const handler_record& handler) const noexcept {
  return handler.direct() && (h.flags & (flag_traced | flag_epoch)) == 0 && is_next_and_quick(h);
}

// `deliver` and `run_now` in one for the messages of which there may be many. What is done is counted later: by
// `settle_counts`, at the latest when this rank next polls.
// \param from where the message lies, if in a batch.
// \return false if it has waited: another fiber polls.
inline bool node::run_directly(tern::detail::errands& pieces, const wire_header& h, int source, payload& message,
                               batch_reader* from) {
  const handler_entry handler = handlers_[h.handler]->direct();
  const std::size_t size = message.size();
  const bool counted = (h.flags & flag_uncounted) == 0;
  recent_bytes_ += size;
  if (counted) ++recent_received_;
  received_log_.note({last_clock_, h.reply, size, h.handler, source});
  measured(h, [&] { handler(*this, source, h, message); });
  if (pieces.go_on()) [[likely]] {
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

// Of a handler that has come to its end, on any worker.
inline void node::count_done(bool counted) noexcept {
  const int worker = worker_here();
  counters_.add(worker, message_counters::handlers);
  if (counted) {
    counters_.add(worker, message_counters::done);
    tell_if_idle();
  }
}

void node::settle_counts() noexcept {
  if (!lingering_.empty() || epochs_.has_late()) [[unlikely]]
    settle_accounts();
  if (recent_bytes_ == 0 && recent_handlers_ == 0) return;
  counters_.add_polling(message_counters::received_bytes, std::exchange(recent_bytes_, 0));
  counters_.add_polling(message_counters::received, std::exchange(recent_received_, 0));
  counters_.add_polling(message_counters::handlers, std::exchange(recent_handlers_, 0));
  counters_.add_polling(message_counters::done, std::exchange(recent_done_, 0));
  tell_if_idle();
}

// How long `in_fiber` goes on.
struct poll_budget {
  tern::detail::worker& w = *tern::detail::this_worker();
  const std::int64_t begun = w.looked_around;
  std::int64_t looked = begun; // at the clock, by `may_continue`
  int messages = 0, until_look = 1, between_looks = 1;
  bool over = false;
};

// \return whether to receive another message; once false, always.
inline bool node::may_continue(poll_budget& s) noexcept {
  // Others want to run too, timers to ring, and what has been kept to go.
  s.over = s.over || ++s.messages >= messages_in_fiber || s.w.has_ready() || s.w.comes_back || queue_.kept() > 0;
  if (s.over || --s.until_look > 0) return !s.over;
  // The clock costs as much as a small handler: looked at after as many as take little time.
  last_clock_ = tern::detail::ticks();
  s.between_looks = last_clock_ - s.looked < slice_ / 16 ? std::min(2 * s.between_looks, most_between_looks) : 1;
  s.until_look = s.between_looks;
  s.looked = last_clock_;
  s.over = last_clock_ - s.begun > slice_;
  return !s.over;
}

const std::byte* message_run::next() {
  node& n = here_;
  if (running_) {
    if (!pieces_.go_on()) [[unlikely]] {
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
  if (h.handler != handler_ || !takes(h) || !n.is_next_and_quick(h)) return nullptr;
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

void message_run::failed(const std::string& handler) {
  here_.reply_error(from_.source(), 0, std::current_exception(), "handler '" + handler + "'");
}

// Those messages of the batch at hand whose handlers run at once, as long as it `may_continue`. \return false if one has
// waited.
bool node::run_batch(poll_budget& s, tern::detail::errands& pieces) {
  batch_reader* const from = batch_;
  const int source = from->source();
  for (;;) {
    std::span<std::byte> bytes;
    if (!from->peek(bytes)) return true;
    wire_header h;
    if (bytes.size() < sizeof h) return true;
    std::memcpy(&h, bytes.data(), sizeof h);
    if (h.handler >= handlers_.size()) return true;
    const handler_record& handler = *handlers_[h.handler];
    if (!can_run_directly(h, handler)) return true;
    if (const handler_run& many = handler.many(); many.run && message_run::takes(h) && bytes.size() == many.bytes) {
      // Now and then one of them runs by itself, if it is to be measured.
      const int most = single_worker_ ? messages_in_fiber : static_cast<int>(15 - since_measured_ % 16);
      if (most > 0) {
        message_run run(*this, *from, s, pieces, h.handler, many.bytes, most);
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
inline bool node::has_else(const tern::detail::worker& w) const noexcept {
  return w.has_fibers() || w.comes_back || w.deque.size() > 0 || !core_->outside.empty();
}

// After the last of what had arrived. Who was answered may answer at once: with nothing else to do that is waited for
// here, a moment only, which saves the way out of this fiber and into the next. \return whether something has arrived.
bool node::awaits_another(poll_budget& s) {
  settle_counts();
  if (patience_ == 0) return false;
  const std::int64_t until = tern::detail::ticks() + patience_;
  do {
    for (int i = 0; i < receives_between_looks; ++i) {
      if (has_else(s.w) || !queue_.empty()) return false;
      if (receive()) return true;
    }
    last_clock_ = tern::detail::ticks();
  } while (last_clock_ < until);
  return false;
}

// As `awaits_another`, but for the answer that the calling fiber is about to wait for. All that is done here could be
// done by `poll`. A handler that is met is left to that.
void node::attend(bool (*over)(const void*) noexcept, const void* what) noexcept {
  if (!tern::detail::this_cause()) [[likely]]
    return poll_without_context(over, what);
  const tern::detail::cause_scope nobodys(nullptr); // what arrives has nothing to do with this fiber
  poll_without_context(over, what);
}

void node::poll_without_context(bool (*over)(const void*) noexcept, const void* what) noexcept {
  const tern::detail::worker& w = *tern::detail::this_worker();
  if (patience_ == 0 || size_ == 1 || has_else(w)) return;
  try {
    settle_counts();
    if (queue_.flush(false)) tell_if_idle();
    last_clock_ = tern::detail::ticks();
    // Timers and those that give way are looked after between fibers: whoever always has an answer at once comes by
    // there too.
    const std::int64_t until = std::min(last_clock_ + patience_, w.looked_around + slice_);
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

void node::in_fiber() {
  tern::detail::errands pieces;
  poll_budget s;
  last_clock_ = s.begun;
  do {
    try {
      if (batch_ && !has_next_ && !run_batch(s, pieces)) return;
      if (s.over) break;
      if (!receive() && !awaits_another(s)) break;
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
    if (!pieces.go_on()) return;
    may_run_here_ = false;
  } while (may_continue(s));
  settle_counts();
}

// Handlers ------------------------------------------------------------------------------------------------------------

// Only in the fiber that delivers, and for the message that it delivers: what that handler starts in turn is not.
bool node::starts_at_once(const wire_header& header) const noexcept {
  return tern::detail::errands::stays() && may_run_here_ && is_next_and_quick(header);
}

// Runs a handler, and sees how long such take: now and then where they run at once, always elsewhere.
template <class F> inline void node::measured(const wire_header& header, F&& body) {
  if (single_worker_ || (tern::detail::errands::stays() && ++since_measured_ % 16 != 0)) return body();
  const std::int64_t begun = tern::detail::ticks();
  body();
  auto& pace = handler_costs_[header.handler];
  const std::int64_t took = std::clamp<std::int64_t>(tern::detail::ticks() - begun, 1, 1 << 30);
  const std::int64_t before = pace.load(std::memory_order_relaxed);
  pace.store(static_cast<std::uint32_t>(before == 0 ? took : (3 * before + took + 3) / 4), std::memory_order_relaxed);
}

template <class F> inline void node::run_now(const wire_header& header, int source, const std::string& name, F&& body) {
  if (trace::built && (header.flags & flag_traced) != 0) [[unlikely]]
    trace_start(header, source, name);
  measured(header, body);
  count_done((header.flags & flag_uncounted) == 0);
}

void node::run_handler(unique_function<void()> body, int source, const wire_header& header, const std::string& name) {
  if (!starts_at_once(header)) return start_later({nullptr, source, header, &name, {}, std::move(body), {}});
  may_run_here_ = false;
  run_now(header, source, name, [&] {
    body();
    body.reset();
  });
}

void node::run_handler(handler_entry body, int source, const wire_header& header, payload& message,
                       const std::string& name) {
  if (!starts_at_once(header)) return start_later({body, source, header, &name, std::move(message), {}, {}});
  may_run_here_ = false;
  run_now(header, source, name, [&] { body(*this, source, header, message); });
}

void node::run_service(unique_function<void()> body, int source, const wire_header& header, const std::string& name) {
  if (!has_server_) return run_handler(std::move(body), source, header, name);
  scheduler_->spawn(
      [this, source, header, &name, on = hold_account(), body = std::move(body)]() mutable {
        this_fiber::set_name(name);
        run_now(header, source, name, [&] {
          {
            const tern::detail::cause_scope in(on.get());
            body();
            body.reset();
          }
          on.let_go();
        });
      },
      {.name = "handler", .priority = priority::high, .worker = 0});
}

void node::start_later(starting next) {
  const priority level = priority_of(next.header.flags);
  next.on = hold_account();
  if (!world_) next.message.settle(); // a simulated network has memory for all that is on its way
  {
    std::lock_guard hold(start_lock_);
    queued_bytes_.store(queued_bytes_.load(std::memory_order_relaxed) + next.message.size(), std::memory_order_relaxed);
    to_start_[static_cast<std::size_t>(level)].push(std::move(next));
    queued_.store(queued_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  const tern::detail::cause_scope nobodys(nullptr); // this fiber may come to take another handler
  scheduler_->spawn([this, level] { start_handler(level); }, {.name = "handler", .priority = level});
}

void node::start_handler(priority level) {
  std::unique_lock hold(start_lock_);
  starting next = to_start_[static_cast<std::size_t>(level)].pop();
  queued_.store(queued_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
  queued_bytes_.store(queued_bytes_.load(std::memory_order_relaxed) - next.message.size(), std::memory_order_relaxed);
  hold.unlock();
  std::atomic_thread_fence(std::memory_order_seq_cst); // `receive` has set it, or sees what was taken
  if (held_.load(std::memory_order_relaxed) && !over_limit(2) && held_.exchange(false)) wire_->wake();
  this_fiber::set_name(*next.name);
  run_now(next.header, next.source, *next.name, [&] {
    {
      const tern::detail::cause_scope in(next.on.get());
      if (next.entry) {
        next.entry(*this, next.source, next.header, next.message);
      } else {
        next.body();
        next.body.reset();
      }
    }
    next.on.let_go(); // before it counts as done: nothing is sent after the last has been
  });
}

void node::start_none_at_once() noexcept {
  if (tern::detail::errands::stays()) may_run_here_ = false;
}

void node::parked(const wire_header& header) noexcept {
  if ((header.flags & flag_uncounted) != 0) return;
  const int worker = worker_here();
  counters_.add(worker, message_counters::sent);
  counters_.add(worker, message_counters::received);
  counters_.add(worker, message_counters::again);
}

// As who sends: counted first, so that whoever closes the door sees it, or it sees the door.
node::open_door::open_door(node& of) : of_(of) {
  for (;;) {
    of.parked({});
    if (!of.door_is_shut() || (of.door_.load() != door::closed && !of.may_wait_at_door())) return;
    constexpr std::uint64_t one_less = ~std::uint64_t{0};
    of.counters_.add(of.worker_here(), message_counters::sent, one_less);
    of.counters_.add(of.worker_here(), message_counters::received, one_less);
    of.counters_.add(of.worker_here(), message_counters::again, one_less);
    of.wait_at_door();
  }
}

void node::message_done(const wire_header& header) noexcept {
  if ((header.flags & flag_uncounted) != 0) return;
  counters_.add(worker_here(), message_counters::done);
  tell_if_idle();
}

} // namespace tern::net
