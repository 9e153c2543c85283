// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What an event runs, and what its signals bring. Internal; programs use event.hpp.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include <tern/base/language/hash.hpp>
#include <tern/base/language/type_name.hpp>
#include <tern/mobile/entry/event_set.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/buffer.hpp>

namespace tern {

class event;
class signals;

namespace mobile::detail {

// Values --------------------------------------------------------------------------------------------------------------

template <class V> std::string name_of_value() { return tern::detail::type_name(typeid(V)); }
/// Tells types apart; never 0. The same on all ranks of a program.
template <class V>
inline const std::uint32_t value_type = static_cast<std::uint32_t>(tern::detail::hash_of(name_of_value<V>()) >> 32) | 1;

template <class V> inline constexpr bool is_buffer = false;
template <class T> inline constexpr bool is_buffer<buffer<T>> = true;
template <class V> inline constexpr bool is_mobile_ptr = false;
template <class T> inline constexpr bool is_mobile_ptr<mobile_ptr<T>> = true;

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

template <auto F, class T> consteval bool check_event() {
  using sig = member_signature<decltype(F)>;
  constexpr bool same = std::is_same_v<typename sig::object, T>;
  constexpr bool fits = sig::arity == 0 || wants_signals<F>;
  static_assert(same, "the function belongs to another class than the pointer");
  static_assert(fits, "an event's function takes nothing, or the signals: void go(), or void go(const tern::signals&)");
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
  static void give(const event& e, std::int64_t i, signal_value value);
  static future<void> call(const event& e, std::int64_t i, signal_value value);
  static event rearm(const event& e);
  /// Tells an event's function which one has fired.
  static void tell(signals& in, object_id target, const firing_note& f);

private:
  static event_note note_of(const event& e, std::int64_t i, const signal_value& value);
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
template <auto F>
inline const event_kind the_event_kind{{action::arm, &record_of<typename member_signature<decltype(F)>::object>,
                                        []() -> const std::string& { return event_handler<F>.name(); }, nullptr},
                                       &event_handler<F>,
                                       &fired_handler<F>,
                                       &fired<F>,
                                       wants_signals<F>};

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

} // namespace mobile::detail
} // namespace tern
