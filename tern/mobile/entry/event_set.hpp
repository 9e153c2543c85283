// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The events of one object, and the signals that have come for them. Knows no ranks. Internal;
/// programs use event.hpp.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tern/base/archive.hpp>
#include <tern/base/bytes.hpp>
#include <tern/base/error.hpp>
#include <tern/mobile/message/event_notes.hpp>
#include <tern/mobile/message/invocation.hpp>
#include <tern/mobile/object_id.hpp>
#include <tern/net/handler.hpp>
#include <tern/task/fiber/causal_context.hpp>

namespace tern::mobile::detail {

/// Where a signal has come from.
struct signal_place {
  object_id from;
  std::int32_t rank = -1; ///< -1: it has not come
  std::uint32_t unused = 0;
};

/// Of a signal that has brought a value, or counts for an epoch.
struct signal_content {
  std::uint32_t index;
  std::uint32_t type;
  byte_buffer bytes;
  tern::detail::held_context on{};
};

/// The signals of one round.
struct event_round {
  std::uint32_t given = 0;
  int last = -1;                    ///< the rank of the last one that has come
  std::vector<signal_place> places; ///< by number; empty as long as none has come
  std::vector<signal_content> contents;
};

/// As it travels.
struct packed_signal {
  std::uint32_t round = 0, index = 0, type = 0;
  std::int32_t rank = 0;
  object_id from;
  std::vector<std::byte> bytes;
  template <class A> void serialize(A& ar) { ar(round, index, type, rank, from, bytes); }
};
struct packed_event {
  std::uint32_t number = 0, size = 0, round = 0, armed = 0;
  std::uint8_t spent = 0; ///< 2 more if the function of a round is not over
  std::vector<signal_place> last;
  std::vector<packed_signal> signals;
  template <class A> void serialize(A& ar) { ar(number, size, round, armed, spent, last, signals); }
};

/// One event.
struct event_state {
  const event_kind* kind = nullptr;
  std::uint32_t number = 0, size = 0;
  std::uint32_t round = 0;        ///< the one that fires next, or has fired if `spent`
  std::uint32_t armed = 0;        ///< the last one that may fire
  bool spent = false;             ///< `round` has fired, and the next one may not
  bool busy = false;              ///< of one with objects: the function of the round before is not over
  bool counted = false;           ///< a message that counts stands for its signals
  event_round now;                ///< of `round`
  std::vector<signal_place> last; ///< of the round that has fired last
  std::map<std::uint32_t, event_round> early;

  event_state();
  ~event_state();
  event_state(const event_state&) = delete;
  event_state& operator=(const event_state&) = delete;
  bool has_signals() const noexcept { return now.given > 0 || !early.empty(); }
};

/// One that may go by the rank's own line.
struct fired_near {
  const event_kind* kind;
  object_id target;
  firing_note note;
  int last;
};

/// The signals with which an event fires.
struct event_firing {
  const event_kind* kind;
  std::uint32_t number, round;
  event_round with; ///< without places if the function does not want to see them
};

/// Threads: none but the one that has the shard's lock.
///
/// Guarantees: a round fires once, when each of its numbers has come once and the round before has
/// fired. A signal of a later round is kept. One of a number that has come in its round is refused.
class event_set {
public:
  explicit event_set(std::uint32_t next = 1) noexcept : next_(next) {}

  /// The number of the next new one.
  std::uint32_t next() const noexcept { return next_; }
  bool empty() const noexcept { return all_.empty(); }
  /// In the order of their numbers.
  std::span<const std::unique_ptr<event_state>> all() const noexcept { return all_; }
  event_state* find(std::uint32_t number) const noexcept {
    if (all_.size() == 1) [[likely]]
      return all_.front()->number == number ? all_.front().get() : nullptr;
    return find_among(number);
  }
  /// \return its number.
  std::uint32_t add(const event_kind& kind, std::uint32_t size);
  /// One that has travelled. \throws error(invalid_data).
  event_state& add(const event_kind& kind, const packed_event& p);

  /// Takes a signal in. \param called what the object is called, asked for in errors. \return what
  /// was wrong with it; then nothing has been done. `content` is left as it was if it need not be
  /// kept.
  template <class Called>
  std::optional<error> signal(const event_note& s, int rank, signal_content& content, const Called& called) {
    event_state* const e = find(s.number);
    if (e && fits(*e, s) && s.index < e->size && (s.round > e->round || (s.round == e->round && !e->spent)))
        [[likely]] {
      event_round& r = s.round == e->round ? e->now : e->early[s.round];
      if (r.places.empty()) r.places.resize(e->size);
      if (r.places[s.index].rank < 0) [[likely]] {
        take(r, s, rank, content);
        return {};
      }
    }
    return refuse(s, rank, called());
  }
  /// The same for a number of a round, known to be missing. \pre the round has its places.
  static void take(event_round& r, const event_note& s, int rank, signal_content& content) {
    take_bare(r, s, rank);
    if (s.type != 0 || content.on.get()) r.contents.push_back(std::move(content));
  }
  /// The same for one that brings nothing and counts for no epoch.
  static void take_bare(event_round& r, const event_note& s, int rank) noexcept {
    r.places[s.index] = {s.from, rank, 0};
    ++r.given;
    r.last = rank;
  }
  /// The round after `round` may fire. \return false: the event is over, or was never made.
  bool rearm(std::uint32_t number, std::uint32_t round);
  error refuse_rearm(std::uint32_t number, const std::string& called) const;
  /// What fires now, if anything. To be asked until nothing does.
  std::optional<event_firing> fire(event_state& e);
  /// The function that `round` has run has returned.
  void ended(std::uint32_t number, std::uint32_t round) noexcept;
  /// The same for one with objects; nothing if it was told before. \return the event, which may
  /// fire now; null: it does not.
  event_state* ended_with_objects(std::uint32_t number, std::uint32_t round) noexcept;
  void erase(std::uint32_t number) noexcept;
  /// Takes all out, for a journey.
  std::vector<std::unique_ptr<event_state>> take() noexcept { return std::exchange(all_, {}); }

private:
  // Does it bring no object, or one of the class that the function takes?
  static bool fits(const event_state& e, const event_note& s) noexcept {
    return (s.type & brings_object) == 0 || !e.kind->objects || s.type == e.kind->objects->value();
  }
  event_state* find_among(std::uint32_t number) const noexcept;
  error refuse(const event_note& s, int rank, const std::string& called) const;

  std::uint32_t next_;
  std::vector<std::unique_ptr<event_state>> all_;
};

/// "rank 2", or "rank 2 from block(1, 0) of 'grid'".
std::string describe_place(const signal_place& p);
/// "event 3 of block(1, 1) of 'grid'". \param called the object.
std::string describe_event(std::uint32_t number, const std::string& called);
/// "waits for signals 4, 7 and 12"; empty if it waits for nothing.
std::string describe_missing(const event_state& e);
} // namespace tern::mobile::detail

namespace tern {
template <> inline constexpr bool is_bitwise<mobile::detail::signal_place> = true;
} // namespace tern
