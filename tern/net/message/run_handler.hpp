// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How the handler of a message that has arrived runs. Internal.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tern/net/handler.hpp>
#include <tern/net/memory/fifo.hpp>
#include <tern/net/message/node_send.hpp>

namespace tern::net {

/// The third of the classes that make a node: runs handlers, in the fiber that has received the
/// message or in one of their own. Guarantees: handlers start in the order of the calls of
/// `run_handler`; a message counts as done when its handler has returned. Threads: workers of the
/// rank, unless a member says otherwise.
class handler_runner : public node_send {
public:
  /// Runs `body` as a handler: in a fiber, which may be the one that received the message, before
  /// this returns.
  /// \param name must live as long as the job.
  void run_handler(unique_function<void()> body, int source, const wire_header& header, const std::string& name);
  /// The same for `body(node, source, header, message)`.
  void run_handler(handler_entry body, int source, const wire_header& header, payload& message,
                   const std::string& name);
  /// The same for what must not wait until a worker has time: a worker that only polls for messages
  /// runs it. (There is one in simulations only; a real thread for messages runs no fibers.)
  void run_service(unique_function<void()> body, int source, const wire_header& header, const std::string& name);
  /// Will `run_handler` run the handler of this message at once? Else the message should not keep
  /// the transport's memory.
  bool starts_at_once(const wire_header& header) const noexcept;
  /// The handlers of the message at hand get fibers of their own.
  void start_none_at_once() noexcept;
  /// For a handler that `handler_record::direct` runs and that has to wait: it will be run once
  /// more.
  void parked(const wire_header& header) noexcept {
    if ((header.flags & flag_uncounted) == 0) shutdown_.count_pending();
  }
  /// A message for which no handler will run is done.
  void refused(int source, const wire_header& header, const std::string& name) noexcept;
  /// A message for an object that is elsewhere is sent on. Called before it is sent again, as a new
  /// message; `message_done` of the one that has come follows. \param source where that came from.
  /// \param type the name of the object's class. \param object its number
  /// (trace::detail::table_object).
  void forwards(int source, const wire_header& header, std::string_view type, std::uint64_t object) noexcept;
  /// For handlers that ran without a fiber: their message is done.
  void message_done(const wire_header& header) noexcept {
    if ((header.flags & flag_uncounted) == 0) shutdown_.done();
  }
  /// May messages to this rank be handed over by a layer above, without the transport? They do not
  /// appear in traces. Constant.
  bool may_hand_over() const noexcept { return !single_worker_ && !simulated_ && !recorded_; }
  /// The same for the one rank of a job, if that is one thread. Constant. (With other ranks, what
  /// comes from them goes before what is a rank's own; a line beside the transport does not.)
  bool may_line_up() const noexcept { return one_thread_ && size_ == 1 && !recorded_; }
  /// Counts a message that the caller hands over, on a rank that is one thread, as sent; `lined_up`
  /// must follow before it is done. \return false, having done nothing, while the ranks decide
  /// whether the job ends.
  bool try_line_up() noexcept {
    if (!shutdown_.is_open()) [[unlikely]]
      return false;
    counters_.add(0, message_counters::sent);
    return true;
  }
  /// The same. In a fiber, waits while the ranks decide. \throws as `post`.
  void line_up();
  /// It was not handed over after all.
  void leave_line() noexcept { counters_.add(0, message_counters::sent, ~std::uint64_t{0}); }
  /// So many, of so many bytes together, count as received.
  void lined_up(std::size_t messages, std::size_t bytes) noexcept;
  /// Counts a message of so many bytes that the caller hands over as sent and received. In a fiber,
  /// waits while the ranks decide whether the job ends. \throws as `post`.
  void hand_over(std::size_t bytes);
  /// It was not handed over after all.
  void take_back(std::size_t bytes) noexcept;
  /// So many of those have been handled.
  void handled(std::size_t messages) noexcept;
  /// For reports: how many handlers of each name wait for a fiber. \return none if another thread
  /// holds the lock.
  std::optional<std::map<std::string, std::size_t>> handlers_not_started();

protected:
  handler_runner(node& here, rank_settings s, const send_settings& how, event_source& events);
  ~handler_runner() = default;

  /// Is it the turn of this message's handler, and may other messages wait for it?
  bool may_start_here(const wire_header& h) const noexcept {
    if (h.flags & flag_low) [[unlikely]]
      return false;
    if (queued_.load(std::memory_order_acquire) > 0) return false; // older ones come first
    if (single_worker_) return true;
    // A handler that has not run yet may take long, and other workers have nothing to do.
    const std::uint32_t known = handler_costs_[h.handler].load(std::memory_order_relaxed);
    return known != 0 && (known < quick_ || (known < long_ && !is_wanted_elsewhere()));
  }
  /// Have other workers nothing to do, and this one another message when this handler is theirs? To
  /// hand it over costs two or three microseconds: for a message that comes alone, more than it
  /// brings.
  bool is_wanted_elsewhere() const noexcept;
  /// Do handlers wait for a worker, and too few to keep all workers busy? Then this one receives
  /// more before it runs one: what it has not received, no other can take from it.
  bool hands_out() const noexcept;
  /// Runs a handler, and measures how long it takes: now and then where it runs at once, always
  /// elsewhere.
  template <class F> void measured(const wire_header& header, F&& body);
  /// Of a handler that has come to its end, on any worker.
  void count_done(bool counted) noexcept {
    const int worker = worker_here();
    counters_.add(worker, message_counters::handlers);
    if (counted) {
      counters_.add(worker, message_counters::done);
      shutdown_.notify_if_idle();
    }
  }
  /// Do so many handlers wait for a fiber that nothing more should be received? \param part of the
  /// limit.
  bool over_limit(std::size_t part) const noexcept {
    return queued_.load(std::memory_order_relaxed) >= most_queued / part ||
           queued_bytes_.load(std::memory_order_relaxed) >= most_queued_bytes / part;
  }

  bool more_behind_ = false;                       // the message at hand lies in a batch, which may have others
  static constexpr std::size_t most_queued = 4096; ///< handlers that have not begun
  static constexpr std::size_t most_queued_bytes = std::size_t{64} << 20;

  node& here_; // this object as a whole
  const std::span<const handler_record* const> handlers_;
  bool may_run_here_ = false;     // the handler of the message that is being delivered
  std::atomic<bool> held_{false}; // nothing is received until fewer handlers wait
  unsigned since_measured_ = 0;

private:
  // Handlers that have a fiber of their own and have not been taken up. A scheduler may enter
  // fibers in any order; so whichever fiber comes first takes the oldest handler.
  struct starting {
    handler_entry entry; // with source and message; null: body
    int source;
    wire_header header;
    const std::string* name;
    payload message;
    unique_function<void()> body;
    tern::detail::held_context on{};
    int generation = 0;
  };
  void start_later(starting next);
  void start_handler(priority level);
  template <class F> void run_now(const wire_header& header, int source, const std::string& name, F&& body);
  static void trace_start(const wire_header& header, int source, const std::string& name) noexcept;

  tern::detail::spin_lock start_lock_;
  std::array<fifo<starting>, 3> to_start_; // by priority
  std::atomic<std::size_t> queued_{0};     // handlers in there; changes under the lock
  std::atomic<std::size_t> queued_bytes_{0};
  // How long each handler takes, in ticks: what is quick runs where messages arrive, if this rank
  // has several workers. Any thread may write a new guess.
  std::vector<std::atomic<std::uint32_t>> handler_costs_;
  const std::int64_t quick_, long_; // ticks
};

} // namespace tern::net
