// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How messages come to a rank. Internal.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <tern/base/language/durations.hpp>
#include <tern/net/message/batch.hpp>
#include <tern/net/message/run_handler.hpp>

namespace tern::detail {
class polling_fiber;
struct worker;
} // namespace tern::detail

namespace tern::net {

struct poll_budget;

struct receive_settings {
  /// A worker looks for answers for a moment before its fiber waits. Not where ranks share a core:
  /// they had better leave it to the rank that answers.
  bool awaits_answers = false;
};

/// The fourth of the classes that make a node: takes messages from the transport and gives each to
/// its handler. The scheduler polls it, in worker 0 or in a thread of its own: that is the polling
/// context, one at a time, and the transport's owner. Guarantees: messages of one rank are given
/// out in the order in which it sent them. Threads: the polling context, unless a member says
/// otherwise.
class node_receive : public handler_runner, public event_source {
public:
  // event_source, called by worker 0
  polled poll() override;
  void run_in_fiber() override;
  void poll_briefly(bool (*over)(const void* what) noexcept, const void* what) noexcept override;
  void wait(std::chrono::microseconds at_most) override;
  void wake() noexcept override; ///< any thread

  /// This rank's generation is abandoned: messages of it are dropped from now on, and those of
  /// later ones kept.
  void abandon_generation() noexcept;
  /// The next one begins: nothing that came before it counts, and what is kept of it is given out.
  void begin_generation(int number);

  /// Any thread.
  const message_log& received_log() const noexcept { return received_log_; }
  /// Has the rank taken in and passed on all that has come? \pre its workers do nothing meanwhile,
  /// nor does the polling context.
  bool nothing_under_way() const noexcept { return !has_next_ && queue_.empty() && !wire_->may_have_input(); }

protected:
  node_receive(node& here, rank_settings s, const send_settings& out, const receive_settings& in);
  ~node_receive() override;

private:
  friend class message_run;

  /// \return whether there is a next message, or at least, if the caller `opens` batches, one that
  /// has been opened.
  bool receive(bool opens = false);
  bool look_at_next();
  bool belongs_here();
  void deliver();
  void deliver_in_epoch(int source, wire_header h);
  void hand_out(const handler_record& handler, int source, const wire_header& h);
  bool can_run_directly(const wire_header& h, const handler_record& handler) const noexcept;
  bool run_directly(tern::detail::polling_fiber& pieces, const wire_header& h, int source, payload& message,
                    batch_reader* from);
  bool run_batch(poll_budget& s, tern::detail::polling_fiber& pieces);
  bool may_continue(poll_budget& s) noexcept;
  bool awaits_another(poll_budget& s);
  bool has_else(const tern::detail::worker& w) const noexcept;
  void poll_without_context(bool (*over)(const void* what) noexcept, const void* what) noexcept;
  void settle_counts() noexcept;
  void trace_run(const handler_record& handler, int source, const wire_header& h, payload& message);

  // Handlers with numbers below it need no look at generations: all of them, or none once one was
  // abandoned.
  std::size_t plain_handlers_;
  std::vector<arrival> later_; // of generations to come, in order
  // What has arrived and is to be dealt with next.
  arrival next_;
  wire_header next_header_;
  const handler_record* next_handler_ = nullptr; // null: what has arrived is no message
  bool has_next_ = false;
  batch_reader* batch_ = nullptr; // that is being taken apart
  // What handlers that run where messages arrive have counted and `counters_` do not know.
  std::uint64_t recent_received_ = 0, recent_bytes_ = 0, recent_handlers_ = 0, recent_done_ = 0;
  const std::int64_t slice_;    // for handlers one after the other, ticks
  const std::int64_t patience_; // with answers, ticks
  message_log received_log_;
};

} // namespace tern::net
