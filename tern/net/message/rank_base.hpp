// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What all parts of a rank use: its transport, its scheduler, its counters. Internal.

#include <atomic>
#include <memory>
#include <string>

#include <tern/net/termination/generation_state.hpp>
#include <tern/net/termination/message_counters.hpp>
#include <tern/net/termination/shutdown.hpp>
#include <tern/net/transport.hpp>
#include <tern/task/fiber/causal_context.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/tasklet/tasklet.hpp>

namespace tern::net {

class node;

/// What a rank is made of.
struct rank_settings {
  std::unique_ptr<transport> wire;
  scheduler::settings fibers;       ///< but for context, events and source, which are the rank's own
  sim::simulation* world = nullptr; ///< that the rank lives in, if any
  bool polls_apart = false;         ///< a thread of its own polls for messages, and runs no fibers
  bool has_server = false;          ///< worker 0 runs no handlers of the program; only in a simulation
};

/// The first of the classes that make a node, each of which is one step of a message's way and
/// knows those before it: rank_base, node_send, handler_runner, node_receive, node. One object has
/// all of them, so a message passes no pointer from one to the next.
///
/// Threads: any, unless a member says otherwise.
class rank_base {
public:
  rank_base(const rank_base&) = delete;
  rank_base& operator=(const rank_base&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  transport& wire() noexcept { return *wire_; }
  scheduler& fibers() noexcept { return *scheduler_; }
  bool simulated() const noexcept { return simulated_; }
  message_counters& counters() noexcept { return counters_; }
  job_shutdown& shutdown() noexcept { return shutdown_; }
  generation_state& generation() noexcept { return generation_; }
  const generation_state& generation() const noexcept { return generation_; }
  /// The calling worker's number, for the counters; -1 on any other thread.
  int worker_here() const noexcept;
  /// Does one thread do all that a rank does, but for reports?
  bool one_thread() const noexcept { return one_thread_; }
  /// Workers that run the program's handlers: not one that only polls for messages.
  int computing_workers() const noexcept { return computing_; }
  /// The worker that polls for messages and does nothing else; -1: there is none.
  int server() const noexcept { return has_server_ ? 0 : -1; }
  /// Workers that have nothing else to do ask it from now on. It lives as long as this rank.
  void plug_in(work_source& more) noexcept { socket_.in.store(&more, std::memory_order_release); }
  /// Ends the job with one clear line. Does not return.
  [[noreturn]] void fatal(const std::string& what, int code = 1) noexcept;

  /// The rank that the calling thread works for; null: none.
  static rank_base* current() noexcept {
    void* const n = tern::detail::this_worker_head()->context;
    return n ? static_cast<rank_base*>(n) : current_apart();
  }
  /// The calling thread polls for `who` from now on, and is none of its workers. \return the rank
  /// for which it has polled until now.
  static rank_base* poll_apart_for(rank_base* who) noexcept;

protected:
  /// \param events what the scheduler polls.
  rank_base(rank_settings s, event_source& events);
  ~rank_base();

  static rank_base* current_apart() noexcept;
  virtual void end_job(const std::string& what, int code) noexcept = 0; ///< does not return

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
  const std::unique_ptr<transport> wire_;
  const int rank_, size_;
  generation_state generation_{size_};
  sim::simulation* const world_; // null: the ranks are real
  const bool simulated_, polls_apart_, has_server_, single_worker_, one_thread_;
  const int computing_;
  std::unique_ptr<scheduler> scheduler_;
  tern::detail::scheduler_core* const core_;
  // A sum of messages sent and done over all ranks that is equal twice in a row means that no
  // message is in flight (Mattern 1987, four-counter method).
  message_counters counters_;
  job_shutdown shutdown_{counters_};
};

} // namespace tern::net
