// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The way of a rank's messages to its own objects, if it has several workers. Internal;
/// docs/design/mailboxes.md describes it.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <tern/base/bytes.hpp>
#include <tern/mobile/object_id.hpp>
#include <tern/net/handler.hpp>

namespace tern::detail {
class activation_fiber;
struct activation;
struct worker;
} // namespace tern::detail

namespace tern::mobile {
struct entry;
}

namespace tern::mobile::detail {

class mailboxes;
class rank_objects;
struct mail;
struct mailbox;

/// A message that is being written. It goes into a mailbox, or its bytes go to another rank.
class outgoing_mail {
public:
  /// \throws error(out_of_memory).
  outgoing_mail(mailboxes& of, std::size_t bytes);
  ~outgoing_mail();
  outgoing_mail(const outgoing_mail&) = delete;
  outgoing_mail& operator=(const outgoing_mail&) = delete;
  std::span<std::byte> message() noexcept { return message_; } ///< its bytes, not initialised
  byte_buffer& body() noexcept;                                ///< of its own accord it has none
  std::size_t bytes() const noexcept;

private:
  friend class mailboxes;
  mailboxes& of_;
  mail* one_; // null: it has been put into a mailbox
  std::span<std::byte> message_;
};

/// The mailboxes of one rank. Each is a list of messages and, while there are any, an activation of
/// the worker that delivered from it last. So an object's invocations run where it is in the
/// caches, several at a time, and idle workers take objects, not messages.
///
/// Guarantees: what one fiber puts into one mailbox is delivered in that order, by one fiber at a
/// time. If a handler waits, another fiber goes on with what is behind it. Each message counts as
/// sent and received when it is put, and as done when its handler has returned. Threads: any.
class mailboxes {
public:
  explicit mailboxes(rank_objects& objects);
  ~mailboxes();
  mailboxes(const mailboxes&) = delete;
  mailboxes& operator=(const mailboxes&) = delete;

  /// An activation that is to be made ready, near a worker; null: none is.
  struct started {
    tern::detail::activation* what = nullptr;
    int near = 0;
  };

  /// Do this rank's messages to its own objects go this way? All or none. Constant.
  bool in_use() const noexcept { return in_use_; }
  /// Under the shard's lock, for an object of this rank: puts the message, which has been counted
  /// (handler_runner::hand_over). \return what `start` must be called with when the lock has been
  /// given back. \throws std::bad_alloc, having done nothing.
  started put(entry& e, outgoing_mail& m);
  /// Hands the message, which has been counted, to the worker whose the object is, if that is
  /// another one and simple messages to it are frequent.
  /// \param header of the message. \param invokes a function of the program; else it comes behind
  /// what any fiber of the rank has sent before.
  /// \return false: it has not been, and what was handed over before it has arrived.
  bool hand_over(object_id id, outgoing_mail& m, const net::wire_header& header, bool invokes) noexcept;
  /// \param awaited by the calling fiber.
  void start(const started& what, bool awaited) noexcept;
  /// Under the shard's lock: the entry goes, and what is in its mailbox is delivered as to an
  /// object that is unknown here.
  static void abandon(entry& e) noexcept;
  /// Drops all of them. One thread, when nothing runs any more.
  void clear() noexcept;
  /// In a fiber, waits a little while too much is in all mailboxes.
  void throttle();

private:
  friend class outgoing_mail;
  friend struct mailbox;
  friend struct mail;
  struct slot;
  slot& here() noexcept;
  mail* take(std::size_t bytes);
  void recycle(mail* m) noexcept;
  bool has_too_much() const noexcept;
  mailbox& box_of(entry& e);
  started put_into(mailbox& box, mail* m) noexcept;
  void arrive(mail& m) noexcept;
  void deliver(tern::detail::activation& from) noexcept;
  bool deliver_next(mailbox& from, tern::detail::activation_fiber& pieces, tern::detail::worker& w) noexcept;
  void end_delivery(mailbox& of) noexcept;
  static started next_ticket(mailbox& of) noexcept;
  static void drop_if_unused(mailbox& one) noexcept;

  rank_objects& objects_;
  net::node& node_;
  const bool in_use_, hands_over_;
  const std::int64_t slice_; // for one object's messages, ticks
  std::vector<slot> slots_;  // by worker, and one for all other threads
};

} // namespace tern::mobile::detail
