// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What an event runs, and what its signals bring. Internal; programs use event.hpp.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <tern/base/language/hash.hpp>
#include <tern/base/language/type_name.hpp>
#include <tern/mobile/access/event_signals.hpp>
#include <tern/mobile/message/event_notes.hpp>
#include <tern/mobile/object.hpp>
#include <tern/mobile/together/typed_call.hpp>
#include <tern/net/buffer.hpp>

namespace tern {

class event;
class signals;

namespace mobile::detail {

// Values --------------------------------------------------------------------------------------------------------------

template <class V> std::string name_of_value() { return tern::detail::type_name(typeid(V)); }
template <class V> inline constexpr bool is_buffer = false;
template <class T> inline constexpr bool is_buffer<buffer<T>> = true;
template <class V> inline constexpr bool is_mobile_ptr = false;
template <class T> inline constexpr bool is_mobile_ptr<mobile_ptr<T>> = true;

/// Tells types apart; never 0. The same on all ranks of a program.
template <class V>
inline const std::uint32_t value_type = (static_cast<std::uint32_t>(tern::detail::hash_of(name_of_value<V>()) >> 32) &
                                         ~(brings_object | 1)) |
                                        1 | (is_mobile_ptr<V> ? brings_object : 0);

/// A value on its way into a signal.
struct signal_value {
  std::uint32_t type = 0; ///< 0: none
  byte_buffer bytes;
};
template <class V> signal_value value_out(V&& value) {
  using kept = typename constructor_argument<std::decay_t<V>>::type;
  if constexpr (is_buffer<kept>)
    return {value_type<kept>, net::detail::buffer_access::release(value)};
  else
    return {value_type<kept>, tern::pack(static_cast<const kept&>(value))};
}
template <class V> consteval bool check_signal_value() {
  using kept = std::decay_t<V>;
  constexpr bool moved = !is_buffer<kept> || !std::is_lvalue_reference_v<V>;
  static_assert(moved, "a tern::buffer is moved into a signal: std::move(buffer)");
  static_assert(!std::is_pointer_v<kept> || std::is_convertible_v<kept, const char*>,
                "a pointer means nothing on another rank: give a value");
  return moved && (!std::is_pointer_v<kept> || std::is_convertible_v<kept, const char*>);
}

// Functions -----------------------------------------------------------------------------------------------------------

template <auto F>
inline constexpr bool wants_signals =
    std::is_same_v<typename member_signature<decltype(F)>::arguments, std::tuple<signals>>;

/// Does it take the objects that signals bring, before anything else?
template <auto F> inline constexpr bool wants_objects = together_of<F>::fits;
template <auto F> consteval bool wants_signals_too() {
  if constexpr (wants_objects<F>)
    return std::is_same_v<typename together_of<F>::arguments, std::tuple<signals>>;
  else
    return wants_signals<F>;
}

template <auto F, class T> consteval bool check_event() {
  using sig = member_signature<decltype(F)>;
  constexpr bool same = std::is_same_v<typename sig::object, T>;
  constexpr bool fits = sig::arity == (wants_objects<F> ? 1 : 0) + (wants_signals_too<F>() ? 1 : 0);
  static_assert(same, "the function belongs to another class than the pointer");
  static_assert(fits,
                "an event's function takes nothing, the signals, the objects that they bring, or both: void go(), "
                "void go(std::span<U* const>, const tern::signals&)");
  return same && fits;
}

template <auto F> struct event_tag {};
template <auto F> struct fired_tag {};
template <auto F> void take_event(net::node& here, int source, const net::wire_header& header, net::payload& message);
template <auto F> void take_fired(net::node& here, int source, const net::wire_header& header, net::payload& message);
template <auto F>
void take_fired_here(net::node& here, int source, const net::wire_header& header, net::payload& message);

template <auto F>
inline const net::handler_record event_handler{
    typeid(event_tag<F>), "event of " + std::string(net::detail::pretty_name(net::detail::signature_of<F>())),
    TERN_THIS_FILE, &take_event<F>};
template <auto F>
inline const net::handler_record fired_handler{
    typeid(fired_tag<F>), net::detail::signature_of<F>(), TERN_THIS_FILE, &take_fired<F>, false, &take_fired_here<F>};

/// What event.hpp's functions do.
struct event_access {
  static event make(object_id target, const event_kind& kind, std::int64_t n);
  static void give(const event& e, std::int64_t i);
  static void give(const event& e, std::int64_t i, signal_value value);
  static future<void> call(const event& e, std::int64_t i, signal_value value);
  static event rearm(const event& e);
  /// Tells an event's function which one has fired.
  static void tell(signals& in, object_id target, const firing_note& f);
  /// The same for one with objects, whose signals are handed over. \tparam Signals `signals`, which
  /// is not complete here.
  template <class Signals> static Signals signals_of(fired_with_objects& what);

private:
  static event_note note_of(const event& e, std::int64_t i, std::uint32_t type);
  [[noreturn]] static void bad_signal(const event& e, std::int64_t i);
};

template <auto F>
void run_fired(net::node& here, void* target, const address& to, const net::wire_header& header,
               net::payload& message) {
  using sig = member_signature<decltype(F)>;
  using object = typename sig::object;
  using arguments = std::conditional_t<wants_signals<F>, std::tuple<firing_note, signals>, std::tuple<firing_note>>;
  firing_note note;
  answer<void>(
      here, to.origin(), header,
      [&] { return describe_invocation(fired_handler<F>.name(), to.object, type_of<object>().name); },
      [&] {
        auto args = net::detail::unpack_call<arguments>(message, sizeof(address));
        if (!message.in_place) message = {};
        note = std::get<0>(args);
        if constexpr (wants_signals<F>) {
          event_access::tell(std::get<1>(args), to.object, note);
          static_cast<void>(std::invoke(F, *static_cast<object*>(target), std::as_const(std::get<1>(args))));
        } else {
          static_cast<void>(std::invoke(F, *static_cast<object*>(target)));
        }
      });
  directory::of(here).events().ended(to.object, note);
}

template <auto F>
inline constexpr invocable fired{member_signature<decltype(F)>::exclusive ? action::exclude : action::share,
                                 &record_of<typename member_signature<decltype(F)>::object>,
                                 []() -> const std::string& { return fired_handler<F>.name(); }, &run_fired<F>};
/// From the rank's own line.
template <auto F> void take_fired_near(line_delivery& from) {
  using object = typename member_signature<decltype(F)>::object;
  directory& all = directory::of(from.here());
  const int rank = from.here().rank();
  const net::wire_header header{fired_handler<F>.id(), 0, 0};
  invocation_series run(all.access(), fired<F>, rank);
  while (near_record* const r = from.next(&take_fired_near<F>, fired_handler<F>.label())) {
    // First of all: what gives the last object back may send, and that is written where this lies.
    firing_note note;
    std::memcpy(&note, r->arguments(), sizeof note);
    const object_id id = r->object;
    void* const target = run.admit_near(id, header);
    if (!target) [[unlikely]] {
      net::payload message{pack_after(0, header, address(id, rank)), {}, false};
      message.bytes.append(std::as_bytes(std::span(&note, 1)));
      all.arrive(from.here(), fired<F>, rank, header, message, true);
      continue;
    }
    try {
      static_cast<void>(std::invoke(F, *static_cast<object*>(target)));
    } catch (...) {
      from.here().reply_error(rank, 0, std::current_exception(),
                              describe_invocation(fired_handler<F>.name(), id, run.type().name));
    }
    all.events().ended(id, note);
  }
}

// With objects -------------------------------------------------------------------------------------------------------

/// What runs when the target and the objects are claimed and here.
struct gathered {
  /// \param objects the target, then the others in the order of their ids.
  void (*run)(net::node& here, fired_with_objects& what, const named_objects& named, std::span<void* const> objects);
  const type_record* (*target)();
  const type_record* (*other)();
  bool shares_target, shares_others;
};

template <auto F>
void take_gathered(net::node& here, int source, const net::wire_header& header, net::payload& message);
template <auto F>
inline const net::handler_record gathered_handler{typeid(std::pair<fired_tag<F>, claim_name>),
                                                  net::detail::signature_of<F>(), TERN_THIS_FILE, &take_gathered<F>};

/// The target as a `wanted`. \throws error(not_found) if it is none.
void* target_as(net::node& here, object_id target, const type_record& wanted);
/// Claims, runs `what` where all are, and lets go. What fails ends the job, as with `send`.
void fire_with_objects(net::node& here, fired_with_objects what, const gathered& how);
/// The same on the rank where all have come.
void run_gathered(net::node& here, int source, const net::wire_header& header, net::payload& message,
                  const event_kind& kind, const gathered& how);

template <auto F>
void call_gathered(net::node& here, fired_with_objects& what, const named_objects& named,
                   std::span<void* const> objects) {
  using sig = together_of<F>;
  using main = typename sig::main;
  using other = typename sig::other;
  auto* const target = static_cast<main*>(objects[0]);
  other* target_too = nullptr;
  if (named.target) {
    if constexpr (std::is_convertible_v<main*, other*>)
      target_too = target;
    else
      target_too = static_cast<other*>(target_as(here, what.target, type_of<other>()));
  }
  std::vector<typename sig::other_pointer> all(named.places.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    if (const std::uint32_t place = named.places[i]; place != named_objects::none)
      all[i] = place == 0 ? target_too : static_cast<other*>(objects[place]);
  const std::span<const typename sig::other_pointer> brought(all);
  if constexpr (wants_signals_too<F>()) {
    using given = std::conditional_t<std::is_void_v<main>, void, signals>;
    const given in = event_access::signals_of<given>(what);
    static_cast<void>(std::invoke(F, *target, brought, in));
  } else {
    static_cast<void>(std::invoke(F, *target, brought));
  }
}
template <auto F>
inline constexpr gathered the_gathered{&call_gathered<F>, &record_of<typename together_of<F>::main>,
                                       &record_of<typename together_of<F>::other>, together_of<F>::shares_main,
                                       together_of<F>::shares_others};
template <auto F>
inline constexpr objects_kind the_objects_kind{
    []() -> std::uint32_t { return value_type<mobile_ptr<typename together_of<F>::other>>; },
    [](net::node& here, fired_with_objects what) { fire_with_objects(here, std::move(what), the_gathered<F>); }};

// --------------------------------------------------------------------------------------------------------------------

template <auto F> constexpr event_kind kind_of_event() {
  event_kind kind{{action::arm, &record_of<typename member_signature<decltype(F)>::object>,
                   []() -> const std::string& { return event_handler<F>.name(); }, nullptr},
                  &event_handler<F>,
                  nullptr,
                  nullptr,
                  true};
  if constexpr (wants_objects<F>) {
    kind.fires = &gathered_handler<F>;
    kind.objects = &the_objects_kind<F>;
  } else {
    kind.fires = &fired_handler<F>;
    kind.fired = &fired<F>;
    kind.takes_signals = wants_signals<F>;
    if constexpr (!wants_signals<F>) kind.near = &take_fired_near<F>;
  }
  return kind;
}
template <auto F> inline constexpr event_kind the_event_kind = kind_of_event<F>();

template <auto F> inline const entered_event_kind entered_event{the_event_kind<F>};

template <auto F> void take_event(net::node& here, int source, const net::wire_header& header, net::payload& message) {
  directory::of(here).arrive(here, the_event_kind<F>, source, header, message, false);
}
template <auto F> void take_fired(net::node& here, int source, const net::wire_header& header, net::payload& message) {
  directory::of(here).arrive(here, fired<F>, source, header, message, false);
}
template <auto F>
void take_fired_here(net::node& here, int source, const net::wire_header& header, net::payload& message) {
  directory::of(here).arrive(here, fired<F>, source, header, message, true);
}

template <auto F>
void take_gathered(net::node& here, int source, const net::wire_header& header, net::payload& message) {
  here.run_handler([](net::node& at, int from, const net::wire_header& h,
                      net::payload& m) { run_gathered(at, from, h, m, the_event_kind<F>, the_gathered<F>); },
                   source, header, message, gathered_handler<F>.name());
}

} // namespace mobile::detail
} // namespace tern
