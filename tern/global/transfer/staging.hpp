// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Data of a device on their way out of a rank, by pieces. Internal.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <tern/base/archive.hpp>
#include <tern/base/bytes.hpp>
#include <tern/global/transfer/settings.hpp>
#include <tern/hetero/passage/outgoing.hpp>
#include <tern/net/handler.hpp>
#include <tern/net/node.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::global::detail {

class staging;

/// Before a piece's bytes, which are the message's body.
struct piece_head {
  std::uint64_t stage = 0; ///< its number at the origin, for the answer
  std::uint64_t each = 0;  ///< what the origin cut by (hetero::detail::slices)
  std::uint64_t index = 0;
  std::uint64_t sum = 0; ///< 0: it is not to be verified
};

/// The slots of a rank: memory for pieces. Of the transfers that have been asked for, the oldest
/// always gets one, the others what is left. Any thread.
class slot_supply {
public:
  bool take(const staging& s) noexcept;
  /// Gives one back, and lets those go on that wait, in the order of their ages.
  void give_back() noexcept;
  void enter(const std::shared_ptr<staging>& s);
  void leave(const staging& s) noexcept;
  std::size_t used() noexcept;

private:
  tern::detail::spin_lock guard_;
  std::size_t used_ = 0;
  std::vector<std::shared_ptr<staging>> all_; ///< in the order of their ages
};

/// Copies pieces out of the device into slots, ahead of what has been asked for, and sends them in
/// their order. A slot is used again when the receiver says that its piece has landed. So copying
/// out, the wire and copying in overlap.
///
/// Threads: `begin`, `send_to` and `landed` in any context of the rank. Never waits.
class staging : public std::enable_shared_from_this<staging> {
public:
  /// \param data in pieces, and outlive this. \param over called once: the last piece has left, or
  /// the reason why they cannot. `number` at this rank.
  staging(net::node& here, slot_supply& slots, hetero::detail::outgoing& data, bool verify,
          std::function<void(std::exception_ptr)> over);
  void begin(std::uint64_t number);
  void send_to(int rank, std::uint64_t landing) noexcept;
  /// Nothing will ask for them.
  void give_up() noexcept;
  /// The receiver has the next piece.
  void landed() noexcept;
  /// Copies what it has slots for.
  void go_on() noexcept;
  std::size_t pieces() const noexcept { return count_; }

private:
  friend class slot_supply;
  struct slot final : hetero::detail::piece_request {
    void over(std::exception_ptr failed) noexcept override { of->copied(*this, std::move(failed)); }
    staging* of = nullptr;
    std::shared_ptr<staging> alive; ///< while it is copied into
    byte_buffer memory;
    bool copied = false;
  };
  void copied(slot& s, std::exception_ptr failed) noexcept;
  void send_on() noexcept;
  void end(std::exception_ptr why) noexcept;

  net::node& here_;
  slot_supply& supply_;
  hetero::detail::outgoing& data_;
  const bool verify_;
  const std::size_t each_;
  const hetero::detail::slices cut_;
  const std::size_t count_;
  std::function<void(std::exception_ptr)> over_;
  std::uint64_t number_ = 0;
  tern::detail::spin_lock guard_;                                         // all below
  std::size_t begun_ = 0, copied_ = 0, sent_ = 0, landed_ = 0, held_ = 0; // pieces; slots
  bool sending_ = false, ended_ = false, given_up_ = false;
  std::atomic<bool> asked_for_{false};
  struct destination {
    int rank;
    std::uint64_t landing;
  };
  std::optional<destination> to_;
  std::exception_ptr failed_;
  std::array<slot, slots_of_transfer> slots_;
};

/// The message of a piece.
const net::handler_record& piece_message() noexcept;

} // namespace tern::global::detail

namespace tern {
template <> inline constexpr bool is_bitwise<global::detail::piece_head> = true;
} // namespace tern
