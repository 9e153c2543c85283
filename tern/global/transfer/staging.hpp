// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Data on their way out of a rank by pieces: those of a device, and what is encoded. Internal.

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
#include <tern/global/codec.hpp>
#include <tern/global/coding/codec_advice.hpp>
#include <tern/global/transfer/settings.hpp>
#include <tern/hetero/passage/outgoing.hpp>
#include <tern/net/handler.hpp>
#include <tern/net/node.hpp>
#include <tern/task/fiber.hpp>
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

/// How pieces are encoded.
struct piece_coding {
  std::shared_ptr<const codec> by; ///< null: not at all
  array_shape shape;               ///< of all of the elements
  codec_advice::answer known{};    ///< of a codec that decides, if `asked`
  bool asked = false;
};

/// Copies pieces out of the device, or the host's memory, into slots, ahead of what has been asked
/// for, encodes them there, and sends them in their order. A slot is used again when the receiver
/// says that its piece has landed. So copying out, encoding, the wire, decoding and copying in
/// overlap. Each piece is a frame (codec/frame.hpp) of its own; where the codec is lossless, or
/// decides, one that would not become smaller is as it is.
///
/// Threads: `begin`, `send_to` and `landed` in any context of the rank. Never waits.
class staging : public std::enable_shared_from_this<staging> {
public:
  /// \param data in pieces, and outlive this. \param over called once: the last piece has left, or
  /// the reason why they cannot. `number` at this rank.
  staging(net::node& here, slot_supply& slots, hetero::detail::outgoing& data, bool verify, piece_coding coding,
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
    std::size_t piece = 0;
    enum : std::uint8_t { filling, filled, at_work, ready } state = filling;
  };
  enum class plan : std::uint8_t { undecided, samples, asks, raw, encodes };
  void copied(slot& s, std::exception_ptr failed) noexcept;
  /// Slots that are filled become ready, perhaps later.
  void prepare() noexcept;
  void sample(slot& first) noexcept;
  void encode(slot& s) noexcept;
  using step = void (staging::*)(slot&) noexcept;
  void in_a_fiber(step what, slot& s, const char* name) noexcept;
  void copy_from_host(slot& s) noexcept;
  void decide(codec_advice::answer a) noexcept; // under the guard
  array_shape shape_of_piece(std::size_t i) const noexcept;
  void measure() noexcept;
  void send_on() noexcept;
  void end(std::exception_ptr why) noexcept;

  net::node& here_;
  slot_supply& supply_;
  hetero::detail::outgoing& data_;
  const bool verify_;
  const piece_coding coding_;
  const std::size_t each_;
  const hetero::detail::slices cut_;
  const std::size_t count_;
  std::function<void(std::exception_ptr)> over_;
  std::uint64_t number_ = 0;
  tern::detail::spin_lock guard_;                                         // all below
  std::size_t begun_ = 0, copied_ = 0, sent_ = 0, landed_ = 0, held_ = 0; // pieces; slots
  std::size_t working_ = 0;                                               // fibers that encode
  bool sending_ = false, ended_ = false, given_up_ = false;
  plan plan_;
  fiber_clock::time_point since_{}; // the first piece has been sent
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
