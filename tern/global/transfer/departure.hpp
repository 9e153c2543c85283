// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Elements of an object on their way out of a rank. Internal.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include <tern/base/bytes.hpp>
#include <tern/global/codec.hpp>
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
    virtual void sent(bool failed) noexcept = 0;
    virtual void count_given() noexcept = 0;

  protected:
    ~owner() = default;
  };

  departure(owner& of, net::node& here, hetero::detail::object_state* handle, const hetero::detail::box& part,
            bool gives) noexcept
      : owner_(of), here_(here), data_(handle, part, gives) {}
  /// They leave encoded, as a frame; but as they are if the codec is lossless and makes nothing
  /// smaller. Before `begin`.
  void encode_by(std::shared_ptr<const codec> c, const array_shape& s) noexcept {
    codec_ = std::move(c);
    shape_ = s;
  }

  /// Takes its place in the order of the object's tasks. \throws as outgoing::begin.
  static void begin(const std::shared_ptr<departure>& self);
  /// Are the data in the host's memory, and can be taken at once?
  bool is_here() noexcept;
  /// \pre is_here.
  void copy_to(std::byte* to) noexcept;
  /// \pre is_here.
  byte_buffer take();

  /// Rank `to` wants them, under its number `landing`. The message `h` that says so is done when
  /// they have been sent.
  void requested(int to, std::uint64_t landing, const net::wire_header& h) noexcept;

private:
  void answered(hetero::detail::outgoing&) noexcept override;
  void leave() noexcept;
  void depart() noexcept;
  byte_buffer encoded(byte_buffer elements) const;
  void tell_failure();

  owner& owner_;
  net::node& here_;
  hetero::detail::outgoing data_;
  std::shared_ptr<const codec> codec_; ///< null: none
  array_shape shape_;                  ///< for it
  struct destination {
    int rank;
    std::uint64_t landing;
    net::wire_header request;
  };
  tern::detail::spin_lock guard_;
  bool ready_ = false;
  std::optional<destination> to_;
  std::shared_ptr<departure> self_; ///< while its reader has not been answered
};

/// The messages that answer a request.
const net::handler_record& data_message() noexcept;
const net::handler_record& failure_message() noexcept;

} // namespace tern::global::detail
