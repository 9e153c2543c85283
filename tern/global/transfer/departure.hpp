// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Elements of an object on their way out of a rank. Internal.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include <tern/base/bytes.hpp>
#include <tern/global/codec.hpp>
#include <tern/global/transfer/staging.hpp>
#include <tern/hetero/passage/outgoing.hpp>
#include <tern/net/handler.hpp>
#include <tern/net/node.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::global::detail {

/// A reader, and to whom its data go. They leave when the reader may read and the request has come,
/// whichever is later.
///
/// Its last reference ends the reader, if that has been answered and nothing was taken.
///
/// Threads: `begin` by one; then `requested` once, by any, while the reader's answer comes from
/// another.
class departure final : hetero::detail::outgoing::listener, public std::enable_shared_from_this<departure> {
public:
  /// Whose statistics tell of it; outlives it.
  class owner {
  public:
    virtual void sent(std::uint64_t number, bool failed, std::size_t bytes) noexcept = 0;
    /// \return a number under which the receiver's answers find it.
    virtual std::uint64_t enter(std::shared_ptr<staging> s) = 0;
    virtual void forget(std::uint64_t stage) noexcept = 0;
    virtual slot_supply& slots() noexcept = 0;
    virtual bool verifies() const noexcept = 0;
    virtual void count_given() noexcept = 0;

  protected:
    ~owner() = default;
  };

  departure(owner& of, net::node& here, hetero::detail::object_state* handle, const hetero::detail::box& part,
            bool gives) noexcept
      : owner_(of), here_(here), data_(handle, part, gives) {}
  /// They leave encoded, in pieces that are frames; but as they are where a lossless codec makes
  /// nothing smaller, or one that decides is not worth it. Before `begin`.
  void encode_by(std::shared_ptr<const codec> c, const array_shape& s) noexcept {
    codec_ = std::move(c);
    shape_ = s;
  }

  /// They leave with checksums, whatever the job says. Before `begin`.
  void always_sum() noexcept { sums_ = true; }

  /// Takes its place in the order of the object's tasks. \throws as outgoing::begin.
  static void begin(const std::shared_ptr<departure>& self);
  /// The same in any context, where nothing may wait.
  static void begin_anywhere(const std::shared_ptr<departure>& self);
  /// Are the data in the host's memory, and can be taken at once?
  bool is_here() noexcept;
  /// \pre is_here.
  void copy_to(std::byte* to) noexcept;
  /// \pre is_here.
  byte_buffer take();

  /// Under which it is announced.
  void set_number(std::uint64_t n) noexcept { number_ = n; }
  /// Nothing will ask for them.
  void dropped() noexcept;
  /// Rank `to` wants them, under its number `landing`. The message `h` that says so is done when
  /// they have been sent. \param room is there for them; else it is told when they are ready, and
  /// says when there is (`may_leave`). \return false: they have been asked for before.
  bool requested(int to, std::uint64_t landing, bool room, const net::wire_header& h) noexcept;
  void may_leave() noexcept;
  bool was_requested() noexcept;
  /// For the rank itself: the object, with one handle more, if it was given away and may leave as
  /// it is. Nothing will ask for the data then (`dropped`). Null: they must be requested.
  hetero::detail::object_state* keep() noexcept;
  /// There is no room for what is not ready: it gives it back, if it is not.
  void recalled() noexcept;

private:
  using begin_function = bool (hetero::detail::outgoing::*)(listener&);
  static void begin_by(begin_function how, const std::shared_ptr<departure>& self);
  void answered(hetero::detail::outgoing&) noexcept override;
  /// Do they leave in pieces, on any rank's request? \pre answered.
  bool is_staged() const noexcept;
  /// Begins to copy them out.
  void stage(std::shared_ptr<departure> self, piece_coding coding) noexcept;
  void leave_or_tell() noexcept;
  void leave() noexcept;
  void left(std::uint64_t stage, const std::exception_ptr& why) noexcept;
  void depart() noexcept;
  void tell_failure(const std::exception_ptr& why);

  owner& owner_;
  net::node& here_;
  hetero::detail::outgoing data_;
  std::shared_ptr<const codec> codec_; ///< null: none
  array_shape shape_;                  ///< for it
  bool sums_ = false;
  struct destination {
    int rank;
    std::uint64_t landing;
    net::wire_header request;
  };
  tern::detail::spin_lock guard_;
  std::uint64_t number_ = 0;
  bool ready_ = false, room_ = false, left_ = false, told_ = false;
  std::atomic<bool> dropped_{false};
  std::optional<destination> to_;
  std::shared_ptr<staging> pieces_;
  std::shared_ptr<departure> self_; ///< while its reader has not been answered
};

/// The messages that answer a request.
const net::handler_record& data_message() noexcept;
const net::handler_record& failure_message() noexcept;
/// And those about room for them, origin to receiver: they are ready; the room is given back.
const net::handler_record& ready_message() noexcept;
const net::handler_record& returned_message() noexcept;

} // namespace tern::global::detail
