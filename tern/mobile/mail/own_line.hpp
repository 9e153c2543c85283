// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The way of a rank's messages to its own objects, if one thread does all that the rank does.
/// Internal; docs/design/mailboxes.md describes it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include <tern/base/bytes.hpp>
#include <tern/mobile/object_id.hpp>
#include <tern/net/node.hpp>

namespace tern::detail {
class activation_fiber;
struct worker;
} // namespace tern::detail

namespace tern::mobile::detail {

class line_delivery;

/// Takes invocations of one function off the line, as long as `next` gives such.
using near_function = void (*)(line_delivery& from);

/// An invocation whose arguments are plain bytes, which follow. No caller waits for it, it has the
/// normal priority, and no account counts it.
struct near_record {
  near_function run; ///< null: the argument is a `mail*`, a message of any kind
  object_id object;
  std::uint32_t bytes;   ///< with the arguments, and what fills up to the next record
  std::uint32_t message; ///< bytes that it would have as a message
  std::byte* arguments() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
};
static_assert(sizeof(near_record) == 24);

/// What the rank has sent to its own objects and has not been delivered, in one line for all of
/// them. So it is as one mailbox that never goes, with one ticket.
///
/// Guarantees: what is put first is delivered first, once, by one fiber at a time. If a handler
/// waits, another fiber goes on with what is behind it. Each message counts as sent when it is put,
/// as received at the latest before it is done, and as done when its handler has returned. One
/// thread.
class own_line {
public:
  static constexpr std::size_t most_near = 256; ///< bytes of arguments; more travel as `mail`

  explicit own_line(net::node& here);
  ~own_line();
  own_line(const own_line&) = delete;
  own_line& operator=(const own_line&) = delete;

  /// Do this rank's messages to its own objects go this way? All or none. Constant.
  bool in_use() const noexcept { return in_use_; }
  /// A place for the arguments of one more, which has been counted as sent (node::try_hand_over).
  /// \pre `in_use`, arguments of at most `most_near` bytes. \return null if there is no memory.
  std::byte* place(object_id object, near_function run, std::size_t arguments, std::size_t message) noexcept {
    const std::size_t bytes = sizeof(near_record) + ((arguments + 7) & ~std::size_t{7});
    if (static_cast<std::size_t>(end_ - write_) < bytes && !grow()) [[unlikely]]
      return nullptr;
    auto* const r =
        ::new (write_) near_record{run, object, static_cast<std::uint32_t>(bytes), static_cast<std::uint32_t>(message)};
    write_ += bytes;
    ++waiting_;
    ++fresh_;
    fresh_bytes_ += message;
    if (!queued_) [[unlikely]]
      start();
    return r->arguments();
  }
  /// A message of any kind, header first, to an object that is here; counts it. In a fiber, waits
  /// while the ranks decide whether the job ends. \throws as `post` of a node.
  void put(object_id object, std::span<const std::byte> message, byte_buffer&& body);
  /// In a fiber, waits a little while too much is in the line.
  void throttle() {
    if (waiting_ > most_waiting) [[unlikely]]
      wait_a_little();
  }
  /// Drops what is there. When nothing runs any more.
  void clear() noexcept;

private:
  friend class line_delivery;
  struct chunk {
    static constexpr std::size_t room = 16384 - 32;
    std::byte* end; ///< of what was written, when the next one was begun
    alignas(8) std::byte data[room];
  };
  struct line_ticket;
  static constexpr std::uint32_t most_waiting = 16384;

  near_record* front() noexcept;
  void pop(const near_record& first) noexcept;
  bool grow() noexcept;
  void pass_chunk() noexcept;
  void start() noexcept;
  void deliver() noexcept;
  void end_delivery() noexcept;
  void settle() noexcept;
  void wait_a_little();

  net::node& node_;
  const bool in_use_;
  const std::int64_t slice_; ///< ticks
  std::byte *read_ = nullptr, *write_ = nullptr, *end_ = nullptr;
  bool queued_ = false; ///< the ticket is, or its fiber delivers
  std::uint32_t waiting_ = 0;
  std::uint32_t fresh_ = 0; ///< that are to be counted as received
  std::uint32_t done_ = 0;  ///< of those delivered, what is to be counted as handled
  std::size_t fresh_bytes_ = 0;
  std::vector<std::unique_ptr<chunk>> chunks_; ///< from that which is read to that which is written
  std::vector<std::unique_ptr<chunk>> spare_;
  const std::unique_ptr<line_ticket> ticket_;
};

/// On the stack of the fiber that delivers.
class line_delivery {
public:
  line_delivery(own_line& from, tern::detail::worker& w, tern::detail::activation_fiber& pieces) noexcept;
  line_delivery(const line_delivery&) = delete;
  line_delivery& operator=(const line_delivery&) = delete;

  net::node& here() const noexcept { return line_.node_; }
  /// The last one has come to its end, the next begins: for every observer, in a fiber of its own.
  /// \return one of that function, which has been taken off the line: to be read before anything
  /// else is done. Null: none may run here and now.
  near_record* next(near_function same, const tern::detail::fiber_name& name) noexcept;

private:
  friend class own_line;
  bool end_piece() noexcept;
  bool goes_on() noexcept;
  bool deliver_mail() noexcept;

  own_line& line_;
  tern::detail::worker& worker_;
  tern::detail::activation_fiber& pieces_;
  near_function began_ = nullptr; // what the last piece was
  std::int64_t begun_, looked_;   // ticks
  int until_look_ = 1, between_looks_ = 1;
  bool running_ = false;
  bool over_ = false; // no more here and now
  bool mine_ = true;  // this fiber still delivers
};

} // namespace tern::mobile::detail
