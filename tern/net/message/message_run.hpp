// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Messages for one handler that lie one after the other in a batch: the handler's own code goes
/// from one to the next, so that a tiny message costs little more than what it does. Internal.

#include <cstddef>
#include <cstdint>
#include <span>

#include <tern/net/handler.hpp>

namespace tern::detail {
class polling_fiber;
} // namespace tern::detail

namespace tern::net {

class batch_reader;
class node;
class node_receive;
struct poll_budget;

/// On the stack of the fiber that delivers. For handlers whose arguments are plain bytes and for
/// which no caller waits.
class message_run {
public:
  message_run(const message_run&) = delete;
  message_run& operator=(const message_run&) = delete;

  /// May one with this header be in such a run? The rest, as messages with bodies, goes the long
  /// way.
  static bool takes(const wire_header& h) noexcept { return h.reply == 0 && (h.flags & ~flag_uncounted) == 0; }

  /// The last one has come to its end, the next begins: for every observer, in a fiber of its own.
  /// \return its arguments, to be read before anything else is done; null if none may run here and
  /// now.
  const std::byte* next();
  node& here() const noexcept { return here_; }
  /// The rank that they all come from.
  int source() const noexcept;
  /// The one that `next` has given last, with its header, until something else is done.
  std::span<const std::byte> whole(const std::byte* arguments) const noexcept {
    return {arguments - sizeof(wire_header), bytes_};
  }

private:
  friend class node_receive;
  message_run(node& here, node_receive& receiver, batch_reader& from, poll_budget& until,
              tern::detail::polling_fiber& pieces, std::uint32_t handler, std::size_t bytes, int most) noexcept
      : here_(here), receiver_(receiver), from_(from), budget_(until), pieces_(pieces), bytes_(bytes),
        handler_(handler), left_(most) {}

  node& here_;
  node_receive& receiver_;
  batch_reader& from_;
  poll_budget& budget_;
  tern::detail::polling_fiber& pieces_;
  const std::size_t bytes_; // of each, with its header
  const std::uint32_t handler_;
  int left_;
  bool began_ = false, running_ = false, counted_ = false;
  bool waited_ = false; // another fiber polls
};

} // namespace tern::net
