// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How messages leave a rank. Internal.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <tern/base/bytes.hpp>
#include <tern/base/error.hpp>
#include <tern/net/handler.hpp>
#include <tern/net/memory/lent_buffer.hpp>
#include <tern/net/memory/memory_pool.hpp>
#include <tern/net/message/epoch_messages.hpp>
#include <tern/net/message/message_log.hpp>
#include <tern/net/message/rank_base.hpp>
#include <tern/net/message/send_queue.hpp>
#include <tern/trace/trace.hpp>

namespace tern::net {

struct send_settings {
  aggregation mode = aggregation::off;
  std::int64_t patience = 0; ///< with what is gathered, in ticks
  bool only_owner_sends = false;
};

/// The second of the classes that make a node: counts messages and hands them to the send queue.
/// Requires: `attach` before the first message. Guarantees: messages for one destination leave in
/// the order of the calls. Threads: any.
class node_send : public rank_base {
public:
  using posting = net::posting;

  /// Sends a message that begins with a `wire_header`; `post` copies what is small. Never waits.
  /// \throws error(invalid_argument) for a destination that is no rank; error(invalid_state) after
  /// shutdown began.
  /// \param body for a message with flag_range.
  void post(int destination, std::span<std::byte> message, byte_buffer& body, posting how) {
    if (message.size() <= head_limit_ && !in_epoch(how)) [[likely]]
      send_out(destination, message, body, message.size(), how);
    else
      post(destination, byte_buffer::copy_of(message), body, how);
  }
  void post(int destination, byte_buffer message, byte_buffer& body, posting how);
  void post(int destination, byte_buffer message, posting how = {true, false, false}) {
    byte_buffer none;
    post(destination, std::move(message), none, how);
  }
  /// As `post` for one that is counted and not urgent, if it can be written at once where it waits
  /// for others.
  /// \return where its `bytes` are to be written; null: post it.
  std::byte* place(int destination, const wire_header& h, std::size_t bytes) noexcept {
    if (!places_.load(std::memory_order_relaxed) || bytes > most_gathered || !shutdown_.is_open() || cause_here())
      return nullptr;
    if (h.reply != 0 && destination == rank_) return nullptr; // see send_queue::send
    std::byte* const at = queue_.place(destination, bytes);
    if (!at) return nullptr;
    // There is one worker; and it cannot be done before it has left.
    counters_.add_sent(0, message_counters::sent, bytes);
    sent_log_.note({last_clock_, h.reply, bytes, h.handler, destination});
    return at;
  }
  /// The last step of `post`, for a head with its mark. \param bytes of the message without the
  /// body.
  void send_out(int destination, std::span<std::byte> head, byte_buffer& body, std::size_t bytes, posting how);
  /// For application messages, after `post`: in a fiber, waits while too much is queued for
  /// `destination`, so that a fast sender leaves a slow receiver time.
  void throttle(int destination) {
    if (queue_.over_limit()) [[unlikely]]
      queue_.wait_for_space(destination);
  }
  /// Throws as `post` does, before anything has been packed.
  void check_rank(int destination) const {
    if (static_cast<unsigned>(destination) >= generation_.plain()) [[unlikely]]
      check_any_rank(destination);
  }
  /// error(rank_lost) that names all that are known to be dead. \param destination -1: none
  error lost(int destination, const std::string& what) const;
  /// For messages too large for the stack.
  memory_pool& memory() noexcept { return memory_; }
  /// Waits until what was lent has come back. That this will happen counts for `quiesce` of fibers.
  void wait_for(detail::loan& lent) noexcept;
  /// For what is to be done later for the epoch of the calling context, which may be where messages
  /// arrive.
  tern::detail::held_context hold_account() const noexcept { return tern::detail::held_context(cause_here()); }
  /// Are no messages queued here?
  bool has_sent_all() const noexcept { return queue_.empty(); }
  std::size_t queued_messages() const noexcept { return queue_.kept(); }
  const message_log& sent_log() const noexcept { return sent_log_; }
  void attach(epoch_messages& epochs) noexcept { epochs_ = &epochs; }
  /// Nothing that is kept or gathered goes any more, but what belongs to no generation. Where
  /// messages arrive.
  void abandon_sends();
  /// Nothing goes to that rank any more. Any thread.
  void drop_sends_to(int lost);
  /// The job closes.
  void end_epochs() noexcept { epochs_->end(); }

protected:
  node_send(rank_settings s, const send_settings& how, event_source& events);
  ~node_send() = default;

  /// The epoch for which the calling context works; null: none.
  tern::detail::causal_context* cause_here() const noexcept {
    tern::detail::causal_context* c = tern::detail::this_worker_head()->causal;
    if (polls_apart_ && !c) [[unlikely]]
      c = current_apart() == this ? delivering_ : nullptr;
    return c; // an epoch's account: there is no other kind on a rank's workers
  }
  bool in_epoch(posting how) const noexcept { return how.counted && !how.urgent && cause_here(); }

  const bool recorded_;      // in a trace
  std::atomic<bool> places_; // may `place` be used?
  const std::size_t head_limit_;
  memory_pool memory_;
  send_queue queue_;
  epoch_messages* epochs_ = nullptr;
  tern::detail::causal_context* delivering_ =
      nullptr;                  // the epoch of the message at hand, by the thread that polls apart
  std::int64_t last_clock_ = 0; // the polling context's, in ticks
  message_log sent_log_;

private:
  [[noreturn]] void no_such_rank(int destination) const;
  void check_any_rank(int destination) const;
  bool enter_generation(int destination, std::span<std::byte> head) const;
  void send_head(int destination, std::span<std::byte> head, byte_buffer& body, std::size_t bytes, posting how);
  void trace_send(int to, std::span<std::byte> head, std::size_t bytes) noexcept;

  std::atomic<std::uint64_t> traced_{0}; // messages that the trace knows
};

} // namespace tern::net
