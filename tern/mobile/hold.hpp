// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Access to a mobile object that is here, without a message:
///
///     if (auto mine = tern::hold(ptr)) mine->value += 1;         // alone on its object
///     if (auto it = tern::hold_shared(ptr)) print(it->value);    // together with other readers

#include <cstdint>
#include <memory>
#include <source_location>
#include <type_traits>
#include <utility>

#include <tern/mobile/object.hpp>
#include <tern/task/future.hpp>

namespace tern {

template <class T> class held_object;

namespace mobile::detail {

/// A fiber that waits for access, on its own rank.
struct hold_request {
  promise<void*> got;
  promise<void> given_back;
};

// The slow way: an invocation that lends its access to the fiber that asked. It comes in the same
// order as all others.
template <class T> bool lend_to(T& object, std::int32_t rank, std::uint64_t address) {
  if (rank != net::node::here().rank()) return false; // it is not where it was asked for
  hold_request& request = *reinterpret_cast<hold_request*>(address);
  // Once it is set, the request may go.
  promise<void*> got = std::move(request.got);
  future<void> back = request.given_back.get_future();
  got.set_value(const_cast<std::remove_const_t<T>*>(&object));
  back.get();
  return true;
}

/// Waits until the object is lent, or its invocation has ended without. \return null: it has moved.
/// Throws why the invocation could not run.
void* wait_for_loan(future<void*> got, future<bool> answer);

template <class T> held_object<T> take_hold(mobile_ptr<std::remove_const_t<T>> of);

} // namespace mobile::detail

/// While it lives, no other fiber changes the object (of a `const` one: none at all), and the
/// object neither moves nor ends. Empty if there is no access. Movable. The fiber that has it must
/// not wait for an invocation of the object that cannot run beside it, and should not have it for
/// long. Not thread-safe.
template <class T> class [[nodiscard]] held_object {
public:
  held_object() noexcept = default;
  held_object(held_object&& o) noexcept
      : object_(std::exchange(o.object_, nullptr)), at_once_(o.at_once_), lent_(std::move(o.lent_)) {}
  held_object& operator=(held_object&& o) noexcept {
    if (this == &o) return *this;
    let_go();
    object_ = std::exchange(o.object_, nullptr);
    at_once_ = o.at_once_;
    lent_ = std::move(o.lent_);
    return *this;
  }
  ~held_object() { let_go(); }
  explicit operator bool() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  T* operator->() const noexcept { return object_; }
  T* get() const noexcept { return object_; }
  /// Now, rather than at the end of its life.
  void let_go() {
    if (!std::exchange(object_, nullptr)) return;
    if (const auto lent = std::move(lent_))
      lent->given_back.set_value();
    else
      mobile::directory::here().end_hold(at_once_, how);
  }

private:
  template <class U> friend held_object<U> mobile::detail::take_hold(mobile_ptr<std::remove_const_t<U>> of);
  static constexpr mobile::action how = std::is_const_v<T> ? mobile::action::share : mobile::action::exclude;
  T* object_ = nullptr;
  mobile::detail::held_access at_once_{};
  std::unique_ptr<mobile::detail::hold_request> lent_; ///< by an invocation; null: had at once
};

namespace mobile::detail {

template <class T> held_object<T> take_hold(mobile_ptr<std::remove_const_t<T>> of) {
  using object = std::remove_const_t<T>;
  held_object<T> mine;
  directory& all = directory::here();
  mine.at_once_ = all.try_hold(of.id(), type_of<object>(), held_object<T>::how);
  if (mine.at_once_.object) {
    mine.object_ = static_cast<object*>(mine.at_once_.object);
    return mine;
  }
  if (!all.is_here(of.id())) return mine;
  running_invocation::expect_admission(of.id(), held_object<T>::how, "tern::hold", std::source_location::current());
  auto request = std::make_unique<hold_request>();
  future<void*> got = request->got.get_future();
  const auto number = reinterpret_cast<std::uint64_t>(request.get()); // address: means something on this rank only
  future<bool> answer = call<&lend_to<T>>(of, static_cast<std::int32_t>(net::node::here().rank()), number);
  mine.object_ = static_cast<object*>(wait_for_loan(std::move(got), std::move(answer)));
  if (mine.object_) mine.lent_ = std::move(request);
  return mine;
}

} // namespace mobile::detail

/// Access to the object for the calling fiber, alone, if it is on this rank: waits until those have
/// run that came before. \return an empty one if it is elsewhere, or moves before. \throws
/// error(invalid_argument) for a null pointer, error(not_found) if the object ends meanwhile,
/// error(deadlock) in an invocation of the object that would have to end first.
template <class T> held_object<T> hold(mobile_ptr<T> object) { return mobile::detail::take_hold<T>(object); }
/// The same, together with others that do not change it.
template <class T> held_object<const T> hold_shared(mobile_ptr<T> object) {
  return mobile::detail::take_hold<const T>(object);
}

} // namespace tern
