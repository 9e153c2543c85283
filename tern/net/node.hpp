// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// One rank of a job: its transport, its scheduler, its counters, and what the layers above keep for it. Programs use
/// the functions in runtime.hpp, message.hpp and collectives.hpp; this is what those are made of, and what the layers
/// above `net` build on.

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <tern/base/bytes.hpp>
#include <tern/base/options.hpp>
#include <tern/net/call/pending_calls.hpp>
#include <tern/net/collective/collective.hpp>
#include <tern/net/failure/failed_ranks.hpp>
#include <tern/net/handler.hpp>
#include <tern/net/job/exit_guard.hpp>
#include <tern/net/memory/memory_pool.hpp>
#include <tern/net/message/fifo.hpp>
#include <tern/net/message/message_log.hpp>
#include <tern/net/message/send_queue.hpp>
#include <tern/net/report/report_entry.hpp>
#include <tern/net/report/stats_table.hpp>
#include <tern/net/termination/epoch_table.hpp>
#include <tern/net/termination/message_counters.hpp>
#include <tern/net/transport.hpp>
#include <tern/task/future.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/sim.hpp>
#include <tern/task/sync.hpp>
#include <tern/task/tasklet/tasklet.hpp>

namespace tern {
enum class quiescence : std::uint8_t;
}
namespace tern::detail {
class errands;
struct worker;
} // namespace tern::detail

namespace tern::net {

struct poll_budget;

/// What a layer above has to say in a rank's reports and in the job's statistics.
class reported_part {
public:
  /// Lines that begin with two blanks, each with its end; empty if there is nothing to say. Called by the reporter's
  /// thread, and when a rank has crashed: it must not wait long for a lock.
  virtual std::string describe() = 0;
  /// For the option `stats`; sums over all ranks are shown. Called in the main fiber when the job has closed.
  virtual stats_table statistics() { return {}; }

protected:
  ~reported_part() = default;
};

/// What a layer above does at the beginning and at the end of each rank. Static objects only, entered before `main`.
class rank_stage {
public:
  using function = void (*)(node& here);
  /// \param begins in the main fiber, before the program's main function. \param ends in the main fiber too, when
  /// nothing is under way any more and nothing but collective operations can send. Null: nothing.
  rank_stage(function begins, function ends);
  rank_stage(const rank_stage&) = delete;
  rank_stage& operator=(const rank_stage&) = delete;

private:
  friend class node;
  const function begins_, ends_;
  rank_stage* const next_;
};

/// Thread-safe unless said otherwise.
class node final : public event_source {
public:
  /// \param opts shared by the ranks of a process: thousands of them may be simulated.
  /// \param world the simulation that the rank lives in, if any, how many workers it has there, and whether the first
  /// only looks after messages.
  node(std::shared_ptr<const options> opts, std::unique_ptr<transport> wire, sim::simulation* world = nullptr,
       int workers = 0, bool apart = false);
  ~node() override;

  /// The rank that the calling thread works for. \throws error(invalid_state) on a thread that is no worker of a rank.
  static node& here() {
    if (void* const n = tern::detail::this_worker_head()->context) [[likely]]
      return *static_cast<node*>(n);
    return here_apart();
  }
  /// Or null.
  static node* current() noexcept;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  const options& opts() const noexcept { return *opts_; }
  transport& wire() noexcept { return *wire_; }
  scheduler& fibers() noexcept { return *scheduler_; }

  // Messages ----------------------------------------------------------------------------------------------------------

  /// How a message is sent.
  struct posting {
    bool counted = true; ///< by `quiesce`
    bool urgent = false; ///< one of the runtime's own: never waits behind those of the application for space
    bool part = false;   ///< counted where `quiesce` is about fibers too
  };
  /// Sends a message that begins with a `wire_header`; `post` copies what is small. Never waits.
  /// \throws error(invalid_argument) for a destination that is no rank; error(invalid_state) after shutdown began.
  /// \param body for a message with flag_range.
  void post(int destination, std::span<std::byte> message, byte_buffer& body, posting how) {
    if (message.size() <= head_limit_ && !on_account(how)) [[likely]]
      send_out(destination, message, body, message.size(), how);
    else
      post(destination, byte_buffer::copy_of(message), body, how);
  }
  void post(int destination, byte_buffer message, byte_buffer& body, posting how);
  void post(int destination, byte_buffer message, posting how = {true, false, false}) {
    byte_buffer none;
    post(destination, std::move(message), none, how);
  }
  /// As `post` for one that is counted and not urgent, if it can be written at once where it waits for others.
  /// \return where its `bytes` are to be written; null: post it.
  std::byte* place(int destination, const wire_header& h, std::size_t bytes) noexcept {
    if (recorded_ || bytes > most_gathered || door_.load(std::memory_order_relaxed) != door::open || account_here())
      return nullptr;
    std::byte* const at = queue_.place(destination, bytes);
    if (!at) return nullptr;
    counters_.add_sent(0, message_counters::sent, bytes); // there is one worker; and it cannot be done before it has left
    sent_log_.note({last_clock_, h.reply, bytes, h.handler, destination});
    return at;
  }
  /// For messages too large for the stack.
  memory_pool& memory() noexcept { return memory_; }
  /// For application messages, after `post`: in a fiber, waits while too much is on its way to `destination`, so that a
  /// fast sender leaves a slow receiver time.
  void throttle(int destination) {
    if (queue_.over_limit()) [[unlikely]]
      queue_.wait_for_space(destination);
  }
  /// Throws as `post` does, before anything has been packed.
  void check_rank(int destination) const {
    if (static_cast<unsigned>(destination) >= static_cast<unsigned>(size_)) [[unlikely]]
      no_such_rank(destination);
  }
  /// Enters a caller that waits for an answer of rank `from`. \return the number to send along as `wire_header::reply`.
  std::uint64_t expect(reply_ref who, int from) { return calls_.expect(std::move(who), from); }
  /// Forgets a caller whose message could not be sent.
  void forget(std::uint64_t reply) noexcept { calls_.forget(reply); }
  detail::pending_calls& calls() noexcept { return calls_; }
  static std::uint32_t reply_handler(); ///< the number of the handler that takes an answer's value
  /// Sends `e` back to a caller; `context` names handler and object. Without a caller (`reply == 0`) there is nobody
  /// who could handle it, so the job ends with the error's text.
  void reply_error(int to, std::uint64_t reply, std::exception_ptr e, const std::string& context);

  /// Runs `body` as a handler: in a fiber, which may be the one that received the message, before this returns.
  /// Handlers are taken up in the order of these calls. The message that caused it counts as done when `body` has
  /// returned. \param name must live as long as the job.
  void run_handler(unique_function<void()> body, int source, const wire_header& header, const std::string& name);
  /// The same for `body(*this, source, header, message)`.
  void run_handler(handler_entry body, int source, const wire_header& header, payload& message,
                   const std::string& name);
  /// The same for what must not wait until a worker has time: where one looks after messages and nothing else, that one
  /// does it. (That can only be in a simulation as yet; a real thread for messages runs no fibers.)
  void run_service(unique_function<void()> body, int source, const wire_header& header, const std::string& name);
  /// Will `run_handler` run the handler of this message at once? Else the message should not keep the transport's
  /// memory.
  bool starts_at_once(const wire_header& header) const noexcept;
  /// The handlers of the message at hand get fibers of their own.
  void start_none_at_once() noexcept;
  /// For one that `handler_record::direct` runs and that has to wait: it will be done once more.
  void parked(const wire_header& header) noexcept;
  /// A message for which no handler will run is done.
  void refused(int source, const wire_header& header, const std::string& name) noexcept;
  /// A message for an object that is elsewhere goes on. Called before it is sent again, as a new message;
  /// `message_done` of the one that has come follows. \param source where that came from. \param type the name of the
  /// object's class. \param object its number (trace::detail::table_object).
  void forwards(int source, const wire_header& header, std::string_view type, std::uint64_t object) noexcept;
  /// For handlers that ran without a fiber: their message is done.
  void message_done(const wire_header& header) noexcept;

  /// Ends the job with one clear line. Does not return.
  [[noreturn]] void fatal(const std::string& what, int code = 1) noexcept;
  /// The same on the reporter's thread, for something that asked for it from outside: "SIGTERM (Terminated)". Returns,
  /// after a report if there shall be one, if it was the launcher: that ends all ranks, and says why.
  void end_from_outside(const std::string& what, int code, bool by_parent) noexcept;

  // Collectives and termination (see communicator.hpp for what they promise) --------------------------------------

  detail::collective_table& collectives() noexcept { return collectives_; }
  /// The context of all ranks.
  const std::shared_ptr<detail::collective_context>& everyone() const noexcept { return everyone_; }
  static std::uint32_t collective_handler(), enquiry_handler();
  /// Waits until what was lent has come back. That this will happen counts for `quiesce` of fibers.
  void wait_for(detail::loan& lent) noexcept;
  /// \param closes the end of the job: afterwards nothing is sent any more, on any rank.
  void quiesce(quiescence of, const std::source_location& where, bool closes = false);
  detail::failed_ranks& failures() noexcept { return failures_; }

  // Epochs (see epoch.hpp) --------------------------------------------------------------------------------------------

  detail::epoch_table& epochs() noexcept { return epochs_; }
  /// For what is to be done later on the account of the calling context, which may be where messages arrive.
  tern::detail::held_cause hold_account() const noexcept { return tern::detail::held_cause(account_here()); }
  bool simulated() const noexcept { return world_ != nullptr; }
  /// Of the simulation; else the same always.
  std::uint64_t seed() const noexcept { return world_ ? world_->seed() : 0; }
  /// Workers that run the program's handlers: not one that only looks after messages.
  int computing_workers() const noexcept { return computing_; }
  /// The worker that looks after messages and nothing else; -1: there is none.
  int server() const noexcept { return has_server_ ? 0 : -1; }
  /// Workers that have nothing else to do ask it from now on. It lives as long as this rank.
  void plug_in(work_source& more) noexcept { socket_.in.store(&more, std::memory_order_release); }
  /// Does one thread do all that a rank does, but for reports?
  bool one_thread() const noexcept { return one_thread_; }
  /// As long as it lives, the job does not end, as if a message were under way.
  class open_door {
  public:
    /// Waits while it is being decided whether the job has ended. \throws error(invalid_state) if it has.
    explicit open_door(node& of);
    ~open_door() { of_.message_done({}); }
    open_door(const open_door&) = delete;
    open_door& operator=(const open_door&) = delete;

  private:
    node& of_;
  };
  /// Has the job come to its end, so that nothing can be sent any more but by collective operations?
  bool has_closed() const noexcept { return door_.load(std::memory_order_relaxed) == door::closed; }
  /// Are its `local`s being destroyed? They must not be asked for by destructors that could do without.
  bool is_over() const noexcept { return over_.load(std::memory_order_relaxed); }

  // Layers above ------------------------------------------------------------------------------------------------------

  /// This rank's instance of slot `index`, made by `make` when first asked for. Destroyed with the node, last made
  /// first.
  void* local(std::size_t index, void* (*make)(), void (*destroy)(void*)) {
    if (index < slots_.size()) [[likely]]
      if (void* const there = slots_[index].object.load(std::memory_order_acquire)) [[likely]]
        return there;
    return first_local(index, make, destroy);
  }
  void* local_if_made(std::size_t index) const noexcept {
    return index < slots_.size() ? slots_[index].object.load(std::memory_order_acquire) : nullptr;
  }
  /// Reports and statistics tell of `part` until `forget_part`.
  void report_on(reported_part& part);
  void forget_part(reported_part& part) noexcept;

  /// Runs `main` on this rank; collective over all ranks. \param last is done when all else is, before ranks part.
  /// \return the largest of the ranks' codes.
  int run(const std::function<int()>& main, const std::function<void()>& last = {});
  /// The parts of `run`, for a simulation that runs many ranks together: what the main fiber does, and what comes after
  /// all fibers have ended.
  void live(const std::function<int()>& main);
  int end(const std::function<void()>& last = {});

  // event_source, called by worker 0
  polled poll() override;
  void in_fiber() override;
  void attend(bool (*over)(const void* what) noexcept, const void* what) noexcept override;
  void wait(std::chrono::microseconds at_most) override;
  void wake() noexcept override;

  struct internal_handlers; // the runtime's own entries in the table
  struct reporting;         // what reports say of a rank

private:
  /// May messages be sent that count for the end of the job? It is closed by all ranks together, when nothing is under
  /// way and no handler runs. But a fiber that has slept may send at any time: so each rank stops such fibers for the
  /// moment in which all look whether they have sent since, and lets them go on if any rank's have.
  enum class door : std::uint8_t {
    open,
    deciding, ///< those that come wait
    closed    ///< for ever
  };

  static node& here_apart();
  void* first_local(std::size_t index, void* (*make)(), void (*destroy)(void*));
  [[noreturn]] void no_such_rank(int destination) const;
  int worker_here() const noexcept; ///< for the counters: -1 on any other thread
  void send_out(int destination, std::span<std::byte> head, byte_buffer& body, std::size_t bytes, posting how);
  /// On whose account the calling context works; null: nobody's.
  detail::epoch_account* account_here() const noexcept {
    tern::detail::cause* c = tern::detail::this_worker_head()->caused;
    if (poll_apart_ && !c) [[unlikely]]
      c = account_apart();
    return static_cast<detail::epoch_account*>(c); // there is no other kind on a rank's workers
  }
  tern::detail::cause* account_apart() const noexcept;
  bool on_account(posting how) const noexcept { return how.counted && !how.urgent && account_here(); }
  void send_head(int destination, std::span<std::byte> head, byte_buffer& body, std::size_t bytes, posting how);
  void send_marked(int destination, std::span<const std::byte> head, byte_buffer& body, std::size_t bytes, posting how);
  void deliver_on_account(int source, wire_header h);
  void hand_out(const handler_record& handler, int source, const wire_header& h);
  void settle_accounts() noexcept;
  void poll_without_context(bool (*over)(const void* what) noexcept, const void* what) noexcept;
  bool receive();
  void deliver();
  void look_at_next() noexcept;
  friend class message_run;
  bool may_continue(poll_budget& s) noexcept;
  bool awaits_another(poll_budget& s);
  bool has_else(const tern::detail::worker& w) const noexcept;
  bool is_next_and_quick(const wire_header& h) const noexcept;
  bool can_run_directly(const wire_header& h, const handler_record& handler) const noexcept;
  bool run_directly(tern::detail::errands& pieces, const wire_header& h, int source, payload& message,
                    batch_reader* from);
  bool run_batch(poll_budget& s, tern::detail::errands& pieces);
  void settle_counts() noexcept;
  void count_done(bool counted) noexcept;
  void start_handler(priority level);
  void tell_if_idle() noexcept {
    // Either this sees the waiter, or the waiter, who passes a barrier for all threads, sees what was just counted.
    order_with_barrier();
    if (idle_waiters_.load(std::memory_order_relaxed) > 0) [[unlikely]]
      tell_idle();
  }
  void tell_idle() noexcept;
  bool door_is_shut() const noexcept {
    order_with_barrier();
    return door_.load(std::memory_order_relaxed) != door::open;
  }
  bool may_wait_at_door() const noexcept;
  void wait_at_door();
  bool close_door(std::uint64_t sent, const std::source_location& where);
  void set_door(door d) noexcept;
  /// Of what was written before and is read after, against whoever passes the scheduler's barrier between writing what
  /// is read and reading what was written: one of the two sees the other's.
  void order_with_barrier() const noexcept {
    if (light_barrier_)
      std::atomic_signal_fence(std::memory_order_seq_cst);
    else
      std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  std::string compare_programs();
  int guarded_main(const std::function<int()>& main);
  void destroy_locals();
  // For the option `stats` (stats.cpp).
  void begin_stats();
  void show_stats();
  // What is recorded, if anything is (tracing.cpp).
  void trace_send(int to, std::span<std::byte> head, std::size_t bytes) noexcept;
  void trace_run(const handler_record& handler, int source, const wire_header& h, payload& message);

  // The scheduler is made with it, and what works through it comes later.
  struct socket final : work_source {
    bool produce(int worker) override {
      work_source* const s = in.load(std::memory_order_acquire);
      return s && s->produce(worker);
    }
    bool has_work() const noexcept override {
      const work_source* const s = in.load(std::memory_order_acquire);
      return s && s->has_work();
    }
    std::atomic<work_source*> in{nullptr};
  };

  socket socket_;
  int computing_ = 1;
  bool has_server_ = false; // worker 0 looks after messages only
  std::shared_ptr<const options> opts_;
  sim::simulation* const world_;
  const bool recorded_; // in a trace
  std::unique_ptr<transport> wire_;
  int rank_, size_;
  const std::size_t head_limit_;
  const std::span<const handler_record* const> handlers_;
  detail::epoch_table epochs_{*this}; // fibers that are given up let go of its accounts
  std::unique_ptr<scheduler> scheduler_;
  static std::uint32_t batch_handler();
  memory_pool memory_;
  send_queue queue_;
  int code_ = 0;

  detail::pending_calls calls_;

  // A sum of messages sent and done over all ranks that is equal twice in a row means that nothing is under way
  // (Mattern 1987, four-counter method).
  message_counters counters_;
  bool stats_ = false;                     // rank 0 wants the table
  double stats_cpu_ = 0, stats_since_ = 0; // seconds, when main began
  // Not a tern::mutex: the polling context, which must not wait for a fiber, tells of the end of work too.
  tern::detail::spin_lock idle_guard_;
  tern::detail::waiter_list idle_list_;
  std::atomic<int> idle_waiters_{0};
  std::atomic<door> door_{door::open};
  tern::detail::waiter_list door_list_; // under the idle guard
  bool in_internal_ = false;            // the polling thread is in one of the runtime's own handlers, which never waits

  // What has arrived and is to be dealt with next; the owner's.
  arrival next_;
  wire_header next_header_;
  const handler_record* next_handler_ = nullptr; // null: what has arrived is no message
  bool has_next_ = false;
  batch_reader* batch_ = nullptr; // that is being taken apart
  bool poll_apart_ = false, single_worker_ = false, one_thread_ = false;
  bool light_barrier_ = false; // of the scheduler's, for all threads: it costs those nothing that do not wait
  tern::detail::scheduler_core* core_ = nullptr;
  bool may_run_here_ = false; // the handler of the message that is being delivered
  // That those which run where messages arrive have counted and the tally has not.
  std::uint64_t recent_received_ = 0, recent_bytes_ = 0, recent_handlers_ = 0, recent_done_ = 0;

  // Handlers that have a fiber of their own and have not been taken up. A scheduler may enter fibers in any order; so
  // whichever fiber comes first takes the oldest handler.
  struct starting {
    handler_entry entry; // with source and message; null: body
    int source;
    wire_header header;
    const std::string* name;
    payload message;
    unique_function<void()> body;
    tern::detail::held_cause on{};
  };
  void start_later(starting next);
  template <class F> void measured(const wire_header& header, F&& body);
  template <class F> void run_now(const wire_header& header, int source, const std::string& name, F&& body);
  static void trace_start(const wire_header& header, int source, const std::string& name) noexcept;
  tern::detail::spin_lock start_lock_;
  std::array<fifo<starting>, 3> to_start_; // by priority
  std::atomic<std::size_t> queued_{0};     // and are there still; changes under the lock
  std::atomic<std::size_t> queued_bytes_{0};
  bool over_limit(std::size_t part) const noexcept;
  std::atomic<bool> held_{false}; // nothing is received until there are fewer

  // How long each handler takes, in ticks: what is quick runs where messages arrive, if this rank has several workers.
  // Anybody may write a new guess.
  std::vector<std::atomic<std::uint32_t>> handler_costs_;
  std::int64_t quick_ = 0;    // ticks
  std::int64_t slice_ = 0;    // for handlers one after the other, ticks
  std::int64_t last_clock_ = 0;   // at the clock, last
  std::int64_t patience_ = 0; // with answers, ticks
  unsigned since_measured_ = 0;

  // Of messages that have been dealt with since the rank last polled, so that many of one epoch are settled together;
  // the owner's.
  std::vector<tern::detail::held_cause> lingering_;
  tern::detail::cause* delivering_ = nullptr; // on whose account, by the thread that polls apart

  detail::collective_table collectives_;
  std::shared_ptr<detail::collective_context> everyone_;
  detail::failed_ranks failures_;

  struct slot {
    std::atomic<void*> object{nullptr}; // release when made, acquire when used: what the constructor wrote is visible
    mutex making;                       // a constructor may wait, and may use other slots
    void (*destroy)(void*) = nullptr;
  };
  std::vector<slot> slots_; // never resized: its length is the number of rank_local objects that exist before main
  std::mutex slot_order_lock_;
  std::vector<std::size_t> slot_order_;
  std::atomic<bool> over_{false};

  tern::detail::spin_lock parts_lock_;
  std::vector<reported_part*> parts_;

  message_log sent_log_, received_log_;
  std::atomic<std::uint64_t> traced_{0}; // messages that the trace knows
  detail::exit_guard exit_guard_{*this};
  std::optional<report_entry> reported_; // last: reports may look at all of the above
};

} // namespace tern::net
