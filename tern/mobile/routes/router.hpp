// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Where messages to objects go, and in which order they are taken in. Internal;
/// docs/design/migration.md describes the protocol.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <tern/base/error.hpp>
#include <tern/mobile/mail/mailboxes.hpp>
#include <tern/mobile/mail/own_line.hpp>
#include <tern/mobile/message/control.hpp>

namespace tern::mobile::detail {

class admission;
class event_signals;
class object_loads;
class rank_objects;
struct deferred_actions;
struct shard;

/// Where a message to an object goes next, and what it carries. Exactly one of `router::sent` and
/// `failed` ends it.
class destination {
public:
  int where = 0;
  address to;
  /// It lies in a mailbox: nothing is to be sent.
  bool is_mailed() const noexcept { return as == kind::mailed; }
  /// It goes into the rank's `own_line`.
  bool is_lined() const noexcept { return as == kind::lined; }

private:
  friend class router;
  enum class kind : std::uint8_t { self, mailed, lined, home, numbered, nowhere } as = kind::nowhere;
};

/// The streams of messages between one rank and objects, and what the rank knows of where objects
/// are. Thread-safe.
class router {
public:
  /// \param most_remote entries of objects that are elsewhere and have another home, at most,
  /// about.
  router(rank_objects& objects, object_loads& loads, admission& access, event_signals& events, std::size_t most_remote);

  // Sending
  /// \throws error(invalid_argument) for a null pointer or one that cannot exist in this job.
  destination find_destination(object_id id);
  /// Sends a message that begins with a header and space for an address. If the object is here, it
  /// goes into its mailbox. \param invokes a function of the program. \pre `mail().in_use()`.
  /// \throws as `find_destination`, and `post` of a node.
  destination send(object_id id, outgoing_mail& message, bool invokes);
  mailboxes& mail() noexcept { return mail_; }
  own_line& line() noexcept { return line_; }
  /// One more invocation of an object that is here, for `own_line::place`, if nothing speaks
  /// against it. \pre `line().in_use()`.
  /// \return null: it goes as any message.
  std::byte* place(object_id id, near_function run, std::size_t arguments, std::size_t message) noexcept;
  void sent(const destination& d) {
    if (d.as == destination::kind::home) posted_to_home(d);
  }
  /// It was not sent after all.
  void failed(const destination& d) noexcept;
  /// Credit of counted references goes back to the object. Ends the job if that cannot be sent
  /// while the job goes on.
  void return_credit(object_id id, std::uint64_t credit) noexcept;
  /// The rank where it is, as far as is known here.
  int last_known(object_id id) const;

  // Arriving
  /// A message that cannot run at once: keeps it, or sends it on, or answers that there is no such
  /// object.
  void arrive_late(std::unique_ptr<invocation> one, bool runs_here);
  /// What another rank's directory tells this one.
  void take(int source, const directory_note& n);
  /// Answers its caller, if that waits, that the object is gone.
  void refuse(invocation& one);
  /// An invocation that came behind the object's end.
  void refuse_late(std::unique_ptr<invocation> one);

  // Under the shard's lock; what follows from it is added to `then`.
  void take_in(entry& e, std::unique_ptr<invocation> one, deferred_actions& then);
  /// What has waited for a number of that rank's stream.
  void after_number(entry& e, int rank, deferred_actions& then);
  /// The rank has sent to the object by way of its home, and numbers its messages from now on.
  void open_own_stream(shard& s, entry& e, deferred_actions& then);
  /// One more object is known to be elsewhere. If those are too many, one that was not sent to
  /// lately is forgotten.
  void count_remote(shard& s, const entry& one, deferred_actions& then);
  /// It is known where those belong that have been held.
  void release_held(entry& e, deferred_actions& then);

  /// The object, at `leaving` or `left`, does not go after all. \param coming of those that had
  /// followed it. Not under a lock.
  void cancel_move(entry& e, std::uint32_t coming);
  /// The last messages that waited for the end of this rank's stream have been sent on. Not under a
  /// lock.
  void forget_closed(object_id id);

private:
  static bool is_own(const entry* e) noexcept;
  destination deliver_or_find(object_id id, outgoing_mail& message, bool invokes);
  void choose(shard& s, entry* e, destination& d);
  entry* choose_far(shard& s, destination& d);
  void posted_to_home(const destination& d);
  void not_sent(const destination& d);
  void accept(entry& e, std::unique_ptr<invocation> one, deferred_actions& then);
  void accept_numbered(entry& e, std::unique_ptr<invocation> one, deferred_actions& then);
  void open_stream(entry& e, int rank, deferred_actions& then);
  void close_own_if_drained(entry& e);
  void own_stream_closed(entry& e, deferred_actions& then);
  void send_on(entry& e, std::unique_ptr<invocation> one, deferred_actions& then);
  void forget(shard& s, entry& e, deferred_actions& then) const;
  void notify_origin(entry& e, const address& to, deferred_actions& then);
  void notify_closed(entry& e, deferred_actions& then);
  void undeliverable(std::unique_ptr<invocation> one);
  std::string missing(object_id id, const std::string& type) const;
  void answer(const invocation& one, error problem);

  rank_objects& objects_;
  net::node& node_;
  const int rank_;
  const std::size_t most_remote_; // in a shard
  object_loads& loads_;
  admission& admission_;
  event_signals& events_;
  mailboxes mail_;
  own_line line_;
};

} // namespace tern::mobile::detail
