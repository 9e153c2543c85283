// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// One rank of a job: its transport, its scheduler, its counters, and what the layers above keep for it. Programs use
/// the functions in runtime.hpp, message.hpp and collectives.hpp; this is what those are made of, and what the layers
/// above `net` build on.

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <tern/base/bytes.hpp>
#include <tern/base/options.hpp>
#include <tern/net/detail/message_log.hpp>
#include <tern/net/detail/report_entry.hpp>
#include <tern/net/handler.hpp>
#include <tern/net/transport.hpp>
#include <tern/task/future.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/sim.hpp>
#include <tern/task/sync.hpp>

namespace tern::net {

/// Somebody on this rank waits for the answer to a call.
class pending_reply {
public:
  virtual ~pending_reply() = default;
  /// \throws error(invalid_data) if the bytes are no such value.
  virtual void value(std::span<const std::byte> bytes) = 0;
  virtual void failed(std::exception_ptr e) = 0;
};

/// Where in the collective protocol a message belongs.
struct collective_key {
  std::uint64_t sequence = 0;
  int source = 0;
  bool operator==(const collective_key&) const = default;
};

/// Thread-safe unless said otherwise.
class node final : public event_source {
public:
  /// \param opts shared by the ranks of a process: thousands of them may be simulated.
  /// \param world the simulation that the rank lives in, if any, and how many workers it has there.
  node(std::shared_ptr<const options> opts, std::unique_ptr<transport> wire, sim::simulation* world = nullptr,
       int workers = 0);
  ~node() override;

  /// The rank that the calling thread works for. \throws error(invalid_state) on a thread that is no worker of a rank.
  static node& here();
  static node* current() noexcept;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  const options& opts() const noexcept { return *opts_; }
  transport& wire() noexcept { return *wire_; }
  scheduler& fibers() noexcept { return *scheduler_; }

  // Messages ----------------------------------------------------------------------------------------------------------

  /// Sends a message that begins with a `wire_header`.
  /// \throws error(invalid_argument) for a destination that is no rank; error(invalid_state) after shutdown began.
  void post(int destination, byte_buffer message, bool counted = true);
  /// Throws as `post` does, before anything has been packed.
  void check_rank(int destination) const;
  /// Enters a caller that waits for an answer of rank `from`. \return the number to send along as `wire_header::reply`.
  std::uint64_t expect(std::unique_ptr<pending_reply> who, int from);
  /// Forgets a caller whose message could not be sent.
  void forget(std::uint64_t reply) noexcept;
  void reply_value(int to, std::uint64_t reply, byte_buffer message_with_header);
  /// Sends `e` back to a caller; `context` names handler and object. Without a caller (`reply == 0`) there is nobody
  /// who could handle it, so the job ends with the error's text.
  void reply_error(int to, std::uint64_t reply, std::exception_ptr e, const std::string& context);

  /// Runs `body` as a handler in a fiber of its own. Handlers are taken up in the order of these calls. The message
  /// that caused it counts as done when `body` has returned. \param name must live as long as the job.
  void run_handler(unique_function<void()> body, int source, const wire_header& header, const std::string& name);
  /// The same for `body(*this, source, header, message)`.
  void run_handler(handler_entry body, int source, const wire_header& header, byte_buffer message,
                   const std::string& name);
  /// A message for which no handler will run is done.
  void refused(int source, const wire_header& header, const std::string& name) noexcept;
  /// For handlers that ran without a fiber: their message is done.
  void message_done(const wire_header& header) noexcept;

  /// Ends the job with one clear line. Does not return.
  [[noreturn]] void fatal(const std::string& what) noexcept;

  // Collectives and termination (see collectives.hpp for what they promise)
  // ----------------------------------------------

  /// Begins an operation. \throws error(invalid_state) if a message for an earlier one was never asked for: the ranks
  /// disagree on what they do together.
  std::uint64_t next_collective(const std::string& what);
  void collective_send(int to, std::uint64_t sequence, std::uint64_t signature, const std::string& what,
                       byte_buffer payload);
  byte_buffer collective_receive(int from, std::uint64_t sequence, std::uint64_t signature, const std::string& what);
  void quiesce();

  // Layers above ------------------------------------------------------------------------------------------------------

  /// This rank's instance of slot `index`, made by `make` when first asked for. Destroyed with the node, last made
  /// first.
  void* local(std::size_t index, void* (*make)(), void (*destroy)(void*));

  /// Runs `main` on this rank; collective over all ranks. \param last is done when all else is, before ranks part.
  /// \return the largest of the ranks' codes.
  int run(const std::function<int()>& main, const std::function<void()>& last = {});
  /// The parts of `run`, for a simulation that runs many ranks together: what the main fiber does, and what comes after
  /// all fibers have ended.
  void live(const std::function<int()>& main);
  int end(const std::function<void()>& last = {});

  // event_source, called by worker 0
  bool poll() override;
  void wait(std::chrono::microseconds at_most) override;
  void wake() noexcept override;

  struct internal_handlers; // the runtime's own entries in the table
  struct reporting;         // what reports say of a rank

private:
  void deliver(int source, byte_buffer message);
  void start_handler();
  std::unique_ptr<pending_reply> take_pending(std::uint64_t reply, int source);
  std::string compare_programs();
  int guarded_main(const std::function<int()>& main);
  void destroy_locals();
  // For the option `stats` (stats.cpp).
  void begin_stats();
  void show_stats();
  // What is recorded, if anything is (tracing.cpp).
  void trace_send(int to, wire_header h, byte_buffer& message) noexcept;
  void trace_run(const handler_record& handler, int source, const wire_header& h, byte_buffer message);
  error disagreement(std::uint64_t sequence, const std::string& mine, int other, const std::string& theirs) const;

  std::shared_ptr<const options> opts_;
  sim::simulation* const world_;
  const bool recorded_; // in a trace
  std::unique_ptr<transport> wire_;
  int rank_, size_;
  std::unique_ptr<scheduler> scheduler_;
  transport::sink sink_;
  int code_ = 0;

  std::mutex pending_lock_;
  std::uint64_t next_reply_ = 1;
  struct pending_call {
    std::unique_ptr<pending_reply> who;
    int to;
    std::int64_t since;
  };
  std::unordered_map<std::uint64_t, pending_call> pending_;

  // Counted messages sent by, and handled on, this rank. `done_` follows the handler's own sends, so that a sum of both
  // over all ranks that is equal twice in a row means that nothing is under way (Mattern 1987, four-counter method).
  std::atomic<std::uint64_t> sent_{0}, done_{0};
  // For people: the other messages, and bytes of all.
  std::atomic<std::uint64_t> uncounted_{0}, sent_bytes_{0}, received_bytes_{0};
  bool stats_ = false;                     // rank 0 wants the table
  double stats_cpu_ = 0, stats_since_ = 0; // seconds, when main began
  std::atomic<std::int64_t> active_{0};    // arrived, not yet done
  // Not a tern::mutex: the polling context, which must not wait for a fiber, tells of the end of work too.
  tern::detail::spin_lock idle_guard_;
  tern::detail::waiter_list idle_list_;
  std::atomic<int> idle_waiters_{0};
  std::atomic<bool> closed_{false};

  // Handlers that have a fiber and have not been taken up. A scheduler may enter fibers in any order; so whichever
  // fiber comes first takes the oldest handler.
  struct starting {
    handler_entry entry; // with source and message; null: body
    int source;
    wire_header header;
    const std::string* name;
    byte_buffer message;
    unique_function<void()> body;
  };
  void start(starting next);
  static void trace_start(const starting& one) noexcept;
  tern::detail::spin_lock start_lock_;
  std::vector<starting> to_start_; // from `started_` on
  std::size_t started_ = 0;
  std::uint64_t handlers_ = 0; // that were put there

  struct collective_message {
    byte_buffer payload;
    std::uint64_t signature;
    std::string what;
  };
  struct key_hash {
    std::size_t operator()(const collective_key& k) const noexcept {
      return static_cast<std::size_t>(k.sequence * 0x9e3779b97f4a7c15ull + static_cast<std::uint64_t>(k.source));
    }
  };
  std::mutex collective_lock_;
  std::uint64_t collective_sequence_ = 0;    ///< operations begun
  std::deque<std::string> collective_names_; ///< of the latest few, the last one begun at the back
  std::unordered_map<collective_key, collective_message, key_hash> collective_arrived_;
  std::unordered_map<collective_key, promise<collective_message>, key_hash> collective_awaited_;

  struct slot {
    std::atomic<void*> object{nullptr}; // release when made, acquire when used: what the constructor wrote is visible
    mutex making;                       // a constructor may wait, and may use other slots
    void (*destroy)(void*) = nullptr;
  };
  std::vector<slot> slots_; // never resized: its length is the number of rank_local objects that exist before main
  std::mutex slot_order_lock_;
  std::vector<std::size_t> slot_order_;

  message_log sent_log_, received_log_;
  std::atomic<std::uint64_t> traced_{0}; // messages that the trace knows
  std::optional<report_entry> reported_; // last: reports may look at all of the above
};

} // namespace tern::net
