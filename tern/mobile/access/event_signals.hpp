// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Events of the objects that are here: arms them, takes signals in, and has them fire. Internal;
/// programs use event.hpp.

#include <cstdint>
#include <memory>
#include <string>

#include <tern/mobile/access/admission.hpp>
#include <tern/mobile/message/invocation.hpp>

namespace tern::mobile::detail {

class line_delivery;
class rank_objects;
struct deferred_actions;
struct event_actions;
struct event_firing;
struct event_kind;
struct event_note;
struct event_state;
struct fired_near;
struct firing_note;
struct shard;
struct signal_content;
using near_function = void (*)(line_delivery& from); // mail/own_line.hpp

/// The messages that signal and rearm events; each event_kind is the one that arms. Defined with
/// their handlers.
extern const invocable signal_message, rearm_message, round_ended_message;
extern const net::handler_record signal_handler, rearm_handler, round_ended_handler;

/// The message that makes an event. One that has travelled is a packed_event.
struct arm_note {
  std::uint32_t size = 0, unused = 0;
};

/// The events of one rank's objects. Thread-safe.
///
/// Guarantees: an event with signals counts as one message that has not been done, until it fires;
/// that count then is the invocation's. The causal context of each signal is held until then. When
/// the object leaves, all of it follows as messages, before anything else runs there.
class event_signals {
public:
  /// Puts an invocation into the rank's own line. \return where its arguments go; null: it must go
  /// another way.
  using line_place = std::byte* (*)(net::node& here, object_id id, near_function run, std::size_t arguments);
  /// On a rank that is one thread and has no others beside it. Before anything else.
  void fire_by_line(line_place place) noexcept { line_place_ = place; }

  event_signals(rank_objects& objects, admission& access) noexcept;

  // Under the shard's lock; what follows from it is added to `then`.
  /// A message that arms, signals or rearms, in its turn.
  void accept(entry& e, std::unique_ptr<invocation> one, deferred_actions& then);
  /// All events and signals, as messages that follow the object.
  void take_out(entry& e, invocation_list& into);
  /// The object ends.
  void drop(entry& e, deferred_actions& then);

  /// The rank's work is given up: signals that wait count no longer. Where messages arrive. \pre
  /// `rank_objects::abandoned`
  void abandon();

  // Not under a lock: without a message, if the object is here.
  /// \return the event's number; 0: it is not here.
  std::uint32_t arm_here(object_id id, const event_kind& kind, std::uint32_t size);
  enum class result : std::uint8_t { done, not_here };
  /// `content` is left as it was if the object is not here. \throws what `signal` promises.
  result signal_here(object_id id, const event_note& s, signal_content& content);
  /// The frequent case of a signal that brings nothing. \return false: nothing has been done.
  bool add_bare(object_id id, const event_note& s);
  result rearm_here(object_id id, std::uint32_t number, std::uint32_t round);

  /// The function that an event ran has returned; its access is not given back yet.
  void ended(object_id id, const firing_note& f) noexcept;
  /// The same for one with objects: the event may fire again.
  result ended_here(object_id id, const firing_note& f);
  /// Are all of its events here?
  bool has_all(object_id id) const;
  /// Not under a lock.
  void perform(event_actions& then);
  /// "block(1, 1) of 'grid'", or "object 1:3 (block)".
  static std::string called(const entry& e);

private:
  entry* find_here(shard& s, object_id id) const;
  event_state* frequent(shard& s, object_id id, const event_note& note) const noexcept;
  bool add_at_once(object_id id, const event_note& note, signal_content& content);
  void settle(entry& e, event_state& of, unsigned messages, deferred_actions& then);
  void fire(entry& e, event_firing& f, deferred_actions& then);
  void fire_near(const fired_near& f);
  std::unique_ptr<invocation> invocation_of(const entry& e, const event_firing& f) const;
  void end_round(entry& e, const firing_note& f, unsigned messages, deferred_actions& then);

  rank_objects& objects_;
  net::node& node_;
  admission& admission_;
  line_place line_place_ = nullptr;
};

} // namespace tern::mobile::detail

namespace tern {
template <> inline constexpr bool is_bitwise<mobile::detail::arm_note> = true;
} // namespace tern
