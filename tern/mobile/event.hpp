// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Events: a function of a mobile object that runs when so many signals have come, from any ranks.
///
///     auto ready = tern::make_event<&block::go>(grid(1, 1), 8);      // for eight neighbours
///     tern::signal(ready, 3);                                        // number 3 of 0 to 7, from anywhere
///     tern::signal(ready, 4, std::vector<double>{…});                // one that brings a value
///
///     void block::go(const tern::signals& in) {                      // after the last, once
///       for (std::size_t i = 0; i < in.size(); ++i)                  // in the order of the numbers
///         if (in.has_value(i)) use(in.get<std::vector<double>>(i));
///       tern::rearm(in.of());                                        // another round
///     }
///
/// Signals may also bring mobile objects. The event's function then has access to all of them:
///
///     tern::signal(refine, i, leaf);                                 // leaf: a tern::mobile_ptr<block>
///     void block::merge(std::span<block* const> leaves);             // leaves[i]: what signal i has brought

#include <compare>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tern/base/archive.hpp>
#include <tern/mobile/event/event_kind.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/buffer.hpp>
#include <tern/task/future.hpp>

namespace tern {

/// Names one round of an event of a mobile object, or nothing. A value: copy, compare, send, keep
/// in objects. The event belongs to its target, moves with it, and ends with it.
class event {
public:
  constexpr event() noexcept = default;
  constexpr explicit operator bool() const noexcept { return static_cast<bool>(object_); }
  constexpr mobile::object_id target() const noexcept { return object_; }
  /// Of the target's events, from 1.
  constexpr std::uint32_t number() const noexcept { return number_; }
  /// How many signals it takes.
  constexpr std::uint32_t size() const noexcept { return size_; }
  /// From 0. Signals of one round fire it once.
  constexpr std::uint32_t round() const noexcept { return round_; }
  /// The same event in its next round. A rank that is ahead may signal that early: such signals are
  /// kept until the event has fired and is rearmed.
  constexpr event next_round() const noexcept {
    event e = *this;
    ++e.round_;
    return e;
  }
  constexpr auto operator<=>(const event&) const noexcept = default;
  template <class A> void serialize(A& ar) { ar(object_, number_, size_, round_); }

private:
  friend struct mobile::detail::event_access;
  mobile::object_id object_;
  std::uint32_t number_ = 0, size_ = 0, round_ = 0;
};

/// Makes an event of the target, of `n` signals. After the last of them, `target.*F()` or
/// `target.*F(signals)` runs, as an invocation: exclusive, or shared if F is const. F may also be a
/// free function, or a lambda without captures, that takes the object first. What it throws has no
/// caller to go to and ends the job, as with `send`.
///
/// `target.*F(objects)` and `target.*F(objects, signals)` take a `std::span<U* const>` first:
/// `objects[i]` is the object that signal `i` has brought, as a `mobile_ptr<U>`; null if it has
/// brought none. Such an event *claims* the target and these objects when it fires, as
/// `call_together` does (together.hpp), and no earlier: in the order of their ids, then all come to
/// the target's rank, and F runs with access to all. `std::span<const U* const>` asks for shared
/// access to them. Several signals may bring one object, and one may bring the target: it is
/// claimed once, and F has a pointer at each number. The next round fires when F has ended. An
/// object that is gone when it is claimed, the target too, one that cannot be packed, and two that
/// cannot move and are apart: F does not run, and that ends the job, with the function and its
/// objects. A program that wants to go on gives such pointers as values to a function without
/// `objects`, which calls `call_together`.
///
/// If the target is on the calling rank, no message is sent; else the calling fiber waits until the
/// target knows the event. \throws error(invalid_argument) for a null pointer and for an n below 1
/// or above 2^24; error(not_found) if the target is gone.
template <auto F, class T> event make_event(mobile_ptr<T> target, std::int64_t n) {
  mobile::detail::entered_event<F>.used(); // a checkpoint may have such events
  if constexpr (mobile::detail::check_event<F, T>())
    return mobile::detail::event_access::make(target.id(), mobile::detail::the_event_kind<F>, n);
  else
    return {};
}

/// Gives number `i` of 0 to `e.size()` - 1. It runs nothing but, if it is the last, the event's
/// function. It counts for `quiesce`, for the job's end and for the calling epoch until that has
/// run. Signals have no order. Any fiber of any rank.
///
/// \throws error(invalid_argument) for a null event and for a number that is out of range. What is
/// found where the target is has no caller to go to and ends the job, as with `send`: a number that
/// was given before in this round, error(already_exists) with both places; a target that is gone,
/// error(not_found). Use `call_signal` to handle that.
void signal(const event& e, std::int64_t i);
/// The same with a value that can be serialized, or a tern::buffer. The buffer's memory is handed
/// over. A `mobile_ptr<U>` brings its object, if the event's function takes such objects; that does
/// not touch the object before the event fires. If it takes those of another class, that is
/// error(invalid_argument), found where the target is: a pointer to a derived class is to be
/// converted.
template <class V> void signal(const event& e, std::int64_t i, V&& value) {
  if constexpr (mobile::detail::check_signal_value<V>())
    mobile::detail::event_access::give(e, i, mobile::detail::value_out(std::forward<V>(value)));
}

/// As `signal`, with a future: set when the target has taken the signal in. It throws what `signal`
/// ends the job for.
future<void> call_signal(const event& e, std::int64_t i);
template <class V> future<void> call_signal(const event& e, std::int64_t i, V&& value) {
  if constexpr (mobile::detail::check_signal_value<V>())
    return mobile::detail::event_access::call(e, i, mobile::detail::value_out(std::forward<V>(value)));
  else
    return {};
}

/// The event fires in its next round too. Call it before round `e.round()` has fired, or within the
/// function that this runs: when the function has returned, an event that is not rearmed and has no
/// early signals is over. More than once for one round does nothing more. \return the next round.
/// \throws error(invalid_argument) for a null event. A target that is gone, or an event that is
/// over, is error(not_found), and ends the job if the target is on another rank.
event rearm(const event& e);

/// What an event's function gets: the signals of one round, by number. Threads: as a std::vector.
class signals {
public:
  /// The event, in the round that has fired: what `rearm` wants.
  const event& of() const noexcept { return of_; }
  std::size_t size() const noexcept { return what_.slots.size(); }
  /// The rank that has given number `i`. \pre i < size(), as below.
  int rank(std::size_t i) const { return what_.slots.at(i).rank; }
  /// Has it brought a value?
  bool has_value(std::size_t i) const { return what_.slots.at(i).type != 0; }
  /// The value that it has brought. \throws error(not_found) if it has brought none,
  /// error(invalid_argument) if that was given as another type.
  template <class V> V get(std::size_t i) const {
    return tern::unpack<V>(what_.bytes_of(i, mobile::detail::value_type<V>, mobile::detail::name_of_value<V>()));
  }
  /// The elements of the tern::buffer<T> that it has brought, valid as long as this. Throws
  /// likewise.
  template <class T> std::span<const T> elements(std::size_t i) const {
    const auto bytes =
        what_.bytes_of(i, mobile::detail::value_type<buffer<T>>, mobile::detail::name_of_value<buffer<T>>());
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  template <class A> void serialize(A& ar) { ar(what_); }

private:
  friend struct mobile::detail::event_access;
  event of_;
  mobile::detail::fired_signals what_;
};

} // namespace tern
