// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What messages of events say, and what an event runs. entry/event_set.hpp keeps them until they
/// fire. Internal.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tern/mobile/message/invocation.hpp>
#include <tern/mobile/object_id.hpp>
#include <tern/net/handler.hpp>
#include <tern/task/fiber/causal_context.hpp>

namespace tern::mobile::detail {

struct event_round;
struct event_kind;
class line_delivery;
using near_function = void (*)(line_delivery& from); // mail/own_line.hpp

/// What events run, by the handler that makes them. Static objects only: constructing one enters
/// the kind.
class entered_event_kind {
public:
  explicit entered_event_kind(const event_kind& kind) noexcept;
  entered_event_kind(const entered_event_kind&) = delete;
  entered_event_kind& operator=(const entered_event_kind&) = delete;
  void used() const noexcept {}
  /// Null if there is none.
  static const event_kind* find(std::uint32_t arms);

private:
  const event_kind& kind_;
  const entered_event_kind* const next_;
};

inline constexpr std::uint32_t most_signals = 1u << 24; ///< of an event
inline constexpr std::uint32_t brings_object = 2;       ///< in a value's type: it is a mobile_ptr

struct fired_with_objects;

/// What an event runs that wants the objects which its signals bring.
struct objects_kind {
  std::uint32_t (*value)();                               ///< the type of such signals' values
  void (*fire)(net::node& here, fired_with_objects what); ///< in a fiber: claims them, runs it, lets them go
};

/// What an event runs: one for each function. As an invocable, it is the message that makes an
/// event.
struct event_kind : invocable {
  const net::handler_record* arms;       ///< the handler that takes that message
  const net::handler_record* fires;      ///< and the one of the invocation that fires
  const invocable* fired;                ///< that invocation
  bool takes_signals;                    ///< the function wants to see them
  const objects_kind* objects = nullptr; ///< null: it wants none, and `fired` is what runs
  near_function near = nullptr;          ///< takes `fired` from the rank's own line; null: it must not go that way
};

/// What a signal's message says. `size` and `type` are of its value; type 0: it has none.
struct event_note {
  object_id from; ///< the object whose invocation has sent it; null: none has
  std::uint32_t number = 0, round = 0, index = 0, size = 0;
  std::uint32_t type = 0;
  std::uint32_t unused = 0;
};

/// What a fired invocation's message begins with.
struct firing_note {
  std::uint32_t number = 0, round = 0;
};
/// What fired: in the order of the numbers, and its values one after the other.
struct fired_slot {
  std::int32_t rank = 0;
  std::uint32_t type = 0;
  std::uint64_t begin = 0, bytes = 0;
};
struct fired_signals {
  std::vector<fired_slot> slots;
  std::vector<std::byte> values;
  fired_signals() = default;
  explicit fired_signals(const event_round& of);
  /// \throws error(not_found), error(invalid_argument).
  std::span<const std::byte> bytes_of(std::size_t i, std::uint32_t type, const std::string& wanted) const;
  template <class A> void serialize(A& ar) { ar(slots, values); }
};

/// A round of an event with objects, which has fired.
struct fired_with_objects {
  const event_kind* kind = nullptr;
  object_id target;
  std::uint32_t number = 0, round = 0;
  int last = -1; ///< the rank of the last signal
  fired_signals with;
  tern::detail::held_context on{};
};

/// What the signals of a round name: the target, and other objects, each once.
struct named_objects {
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  std::vector<object_id> others;     ///< in the order of their ids
  std::vector<std::uint32_t> places; ///< by signal: 0 the target, else 1 more than among the others; none
  bool target = false;               ///< that is named, too
  named_objects(object_id target, const fired_signals& in);
};

} // namespace tern::mobile::detail

namespace tern {
template <> inline constexpr bool is_bitwise<mobile::detail::event_note> = true;
template <> inline constexpr bool is_bitwise<mobile::detail::fired_slot> = true;
template <> inline constexpr bool is_bitwise<mobile::detail::firing_note> = true;
} // namespace tern
