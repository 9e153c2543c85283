// SPDX-License-Identifier: Apache-2.0
#include <tern/net/message/run_handler.hpp>

#include <mutex>
#include <utility>

#include <tern/net/memory/bounded_lock.hpp>
#include <tern/net/message/measured.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>
#include <tern/trace/record/events.hpp>

namespace tern::net {
namespace {

// What a handler may take to run where messages arrive: about what a fiber costs. If no other
// worker wants it, up to what other messages may wait.
constexpr double quick_seconds = 2e-6, long_seconds = 50e-6;
constexpr std::size_t handed_to_each = 8; // worker: handlers that wait

// The runtime's own handlers begin where messages arrive (node_receive), also for what goes on in a
// fiber.
bool began_where_it_arrived(const wire_header& header) noexcept { return handler_table::at(header.handler).internal(); }

} // namespace

handler_runner::handler_runner(node& here, rank_settings s, const send_settings& how, event_source& events)
    : node_send(std::move(s), how, events), here_(here), handlers_(handler_table::all()),
      handler_costs_(handler_table::size()), quick_(tern::detail::ticks_in(quick_seconds)),
      long_(tern::detail::ticks_in(long_seconds)) {}

bool handler_runner::is_wanted_elsewhere() const noexcept {
  return core_->parking.hungry() && (more_behind_ || wire_->may_have_input());
}

bool handler_runner::hands_out() const noexcept {
  const std::size_t waiting = queued_.load(std::memory_order_relaxed);
  return waiting > 0 && !single_worker_ && waiting < handed_to_each * core_->workers.size();
}

// Only in the fiber that delivers, and for the message that it delivers: what that handler starts
// in turn is not.
bool handler_runner::starts_at_once(const wire_header& header) const noexcept {
  return tern::detail::polling_fiber::may_continue() && may_run_here_ && may_start_here(header);
}

void handler_runner::start_none_at_once() noexcept {
  if (tern::detail::polling_fiber::may_continue()) may_run_here_ = false;
}

template <class F>
inline void handler_runner::run_now(const wire_header& header, int source, const std::string& name, F&& body) {
  if (trace::built && (header.flags & flag_traced) != 0) [[unlikely]]
    trace_start(header, source, name);
  measured(header, body);
  count_done((header.flags & flag_uncounted) == 0);
}

void handler_runner::run_handler(unique_function<void()> body, int source, const wire_header& header,
                                 const std::string& name) {
  if (!starts_at_once(header)) return start_later({nullptr, source, header, &name, {}, std::move(body), {}});
  may_run_here_ = false;
  run_now(header, source, name, [&] {
    body();
    body.reset();
  });
}

void handler_runner::run_handler(handler_entry body, int source, const wire_header& header, payload& message,
                                 const std::string& name) {
  if (!starts_at_once(header)) return start_later({body, source, header, &name, std::move(message), {}, {}});
  may_run_here_ = false;
  run_now(header, source, name, [&] { body(here_, source, header, message); });
}

void handler_runner::hand_over(std::size_t bytes) {
  for (;;) {
    const int worker = worker_here();
    counters_.add_sent(worker, message_counters::sent, bytes); // before it can be done
    counters_.add(worker, message_counters::received);
    counters_.add(worker, message_counters::received_bytes, bytes);
    counters_.add(worker, message_counters::handed_over);
    if (!shutdown_.refuses_sender()) [[likely]]
      return;
    take_back(bytes);
    shutdown_.wait_until_open();
  }
}

void handler_runner::line_up() {
  for (;;) {
    counters_.add(0, message_counters::sent);
    if (!shutdown_.refuses_sender()) [[likely]]
      return;
    leave_line();
    shutdown_.wait_until_open();
  }
}

void handler_runner::lined_up(std::size_t messages, std::size_t bytes) noexcept {
  counters_.add(0, message_counters::sent_bytes, bytes);
  counters_.add(0, message_counters::received, messages);
  counters_.add(0, message_counters::received_bytes, bytes);
  counters_.add(0, message_counters::handed_over, messages);
}

void handler_runner::take_back(std::size_t bytes) noexcept {
  const int worker = worker_here();
  counters_.add(worker, message_counters::handed_over, ~std::uint64_t{0});
  counters_.add(worker, message_counters::received_bytes, ~std::uint64_t{bytes} + 1);
  counters_.add(worker, message_counters::received, ~std::uint64_t{0});
  counters_.add_sent(worker, message_counters::sent, ~std::uint64_t{bytes} + 1, ~std::uint64_t{0});
}

void handler_runner::handled(std::size_t messages) noexcept {
  const int worker = worker_here();
  counters_.add(worker, message_counters::handlers, messages);
  counters_.add(worker, message_counters::done, messages);
  shutdown_.notify_if_idle();
}

void handler_runner::run_service(unique_function<void()> body, int source, const wire_header& header,
                                 const std::string& name) {
  if (!has_server_) return run_handler(std::move(body), source, header, name);
  scheduler_->spawn(
      [this, source, header, &name, on = hold_account(), body = std::move(body)]() mutable {
        this_fiber::set_name(name);
        run_now(header, source, name, [&] {
          {
            const tern::detail::causal_scope in(on.get());
            body();
            body.reset();
          }
          on.reset();
        });
      },
      {.name = "handler", .priority = priority::high, .worker = 0});
}

void handler_runner::start_later(starting next) {
  const priority level = priority_of(next.header.flags);
  next.on = hold_account();
  next.generation = generation_.number();
  // A simulated network has memory for all that is on its way.
  if (!simulated_ || next.message.body.is_waited_for()) next.message.settle();
  {
    std::lock_guard hold(start_lock_);
    queued_bytes_.store(queued_bytes_.load(std::memory_order_relaxed) + next.message.size(), std::memory_order_relaxed);
    to_start_[static_cast<std::size_t>(level)].push(std::move(next));
    queued_.store(queued_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  const tern::detail::causal_scope nobodys(nullptr); // this fiber may come to take another handler
  scheduler_->spawn([this, level] { start_handler(level); }, {.name = "handler", .priority = level});
}

void handler_runner::start_handler(priority level) {
  std::unique_lock hold(start_lock_);
  starting next = to_start_[static_cast<std::size_t>(level)].pop();
  queued_.store(queued_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
  queued_bytes_.store(queued_bytes_.load(std::memory_order_relaxed) - next.message.size(), std::memory_order_relaxed);
  hold.unlock();
  std::atomic_thread_fence(std::memory_order_seq_cst); // `receive` has set it, or sees what was taken
  if (held_.load(std::memory_order_relaxed) && !over_limit(2) && held_.exchange(false)) wire_->wake();
  if (generation_.abandoned() || next.generation != generation_.number()) [[unlikely]] { // it was given up
    next.message = {};
    next.body.reset();
    next.on.reset();
    return count_done((next.header.flags & flag_uncounted) == 0);
  }
  this_fiber::set_name(*next.name);
  run_now(next.header, next.source, *next.name, [&] {
    {
      const tern::detail::causal_scope in(next.on.get());
      if (next.entry) {
        next.entry(here_, next.source, next.header, next.message);
      } else {
        next.body();
        next.body.reset();
      }
    }
    next.on.reset(); // before it counts as done: nothing is sent after the last has been
  });
}

std::optional<std::map<std::string, std::size_t>> handler_runner::handlers_not_started() {
  const auto hold = try_for_a_while(start_lock_);
  if (!hold) return std::nullopt;
  std::map<std::string, std::size_t> names;
  for (const auto& level : to_start_)
    for (const starting& one : level) ++names[*one.name];
  return names;
}

// For traces
// -----------------------------------------------------------------------------------------------------------

void handler_runner::refused(int source, const wire_header& header, const std::string& name) noexcept {
  if (trace::on() && (header.flags & flag_traced) != 0 && !began_where_it_arrived(header)) {
    trace::detail::handler_begins(source, header.flags >> traced_shift, trace::detail::name_number(name));
    if (!scheduler::in_fiber()) trace::detail::handler_ends();
  }
  message_done(header);
}

void handler_runner::forwards(int source, const wire_header& header, std::string_view type,
                              std::uint64_t object) noexcept {
  if ((header.flags & flag_uncounted) == 0) counters_.add(worker_here(), message_counters::forwarded);
  if (trace::built && trace::on() && (header.flags & flag_traced) != 0)
    trace::detail::forwards(source, header.flags >> traced_shift, began_where_it_arrived(header),
                            trace::detail::name_number(type), object);
}

void handler_runner::trace_start(const wire_header& header, int source, const std::string& name) noexcept {
  if (trace::on() && !began_where_it_arrived(header))
    trace::detail::handler_begins(source, header.flags >> traced_shift, trace::detail::name_number(name));
}

} // namespace tern::net
