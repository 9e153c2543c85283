// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the way of a message asks of epochs. The room `epoch/` implements it. Internal.

#include <atomic>
#include <cstddef>
#include <span>

#include <tern/base/bytes.hpp>
#include <tern/net/handler.hpp>
#include <tern/task/fiber/causal_context.hpp>

namespace tern::net {

/// How a message is sent.
struct posting {
  bool counted = true; ///< by `quiesce`
  bool urgent = false; ///< one of the runtime's own: never waits for space behind those of the application
  bool part = false;   ///< counted where `quiesce` is about fibers too
};

/// Marks messages that belong to an epoch, and settles accounts for those that have been handled. A
/// rank has one.
class epoch_messages {
public:
  static constexpr std::size_t mark_bytes = 24; ///< at the end of the head of a message that is marked

  /// Marks a message of the epoch `on` and gives it to node_send::send_out. Throws what that
  /// throws.
  virtual void send(tern::detail::causal_context& on, int destination, std::span<const std::byte> head,
                    byte_buffer& body, std::size_t bytes, posting how) = 0;
  /// A marked message has arrived: takes the mark off its head and its header. \return its account,
  /// held.
  /// \throws error(invalid_data).
  virtual tern::detail::held_context arrive(int source, wire_header& h, byte_buffer& head) = 0;
  /// The message has been given to its handler.
  virtual void delivered(tern::detail::held_context on) noexcept = 0;
  /// Polling context: accounts that are left to be settled.
  bool has_unsettled() const noexcept { return lingering_ || late_.load(std::memory_order_acquire); }
  virtual void settle() noexcept = 0;
  /// The job closes: what is let go from now on concerns no epoch.
  virtual void end() noexcept = 0;

protected:
  ~epoch_messages() = default;

  bool lingering_ = false;        ///< accounts of messages that have been handled since; of the polling context
  std::atomic<bool> late_{false}; ///< accounts that a thread has let go which sends no messages
};

} // namespace tern::net
