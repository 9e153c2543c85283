// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Mobile objects that live as long as a reference to them exists:
///
///     tern::mobile_ref<table> t = tern::create_counted<table>();
///     tern::send<&worker::use>(w, t);   // a copy goes along; the object is there when it arrives, wherever it is
///     tern::call<&table::size>(t).get();
///
/// When the last reference is gone, on whatever rank, and what was sent by way of them has run, the
/// object is destroyed. References to each other in a ring keep each other alive for ever. A
/// mobile_ptr, `t.ptr()`, counts for nothing.
///
/// Cost: copies on a rank cost an atomic increment. One that is sent takes half of the credit that
/// its rank has of the object along (weighted reference counting: Bevan 1987; Watson and Watson
/// 1987), which costs no message; one message to the object gives back what a rank's last reference
/// had.

#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include <tern/mobile/object.hpp>

namespace tern {

namespace mobile::detail {

/// What the references of one rank that come from one have in common. Thread-safe.
class shared_credit {
public:
  static constexpr std::uint64_t first = std::uint64_t{1} << 62; ///< of a new object

  shared_credit(object_id id, std::uint64_t credit) noexcept : id_(id), credit_(credit) {}
  /// Gives back what there is.
  ~shared_credit();
  shared_credit(const shared_credit&) = delete;
  shared_credit& operator=(const shared_credit&) = delete;
  object_id id() const noexcept { return id_; }
  /// Half of it. In a fiber: may have to ask the object for more, once in 2^40 times or after 62
  /// halvings. \throws error(not_found) then, if it has been destroyed; error(unsupported) if what
  /// is packed goes to several ranks.
  std::uint64_t split();
  /// Takes back what `split` gave: it has not left.
  void take_back(std::uint64_t credit) noexcept { credit_.fetch_add(credit, std::memory_order_relaxed); }

private:
  const object_id id_;
  std::atomic<std::uint64_t> credit_;
};

/// Of a reference that has been unpacked. \throws error(invalid_data) for an object that no job of
/// so many ranks can have.
std::shared_ptr<shared_credit> received_credit(object_id id, std::uint64_t credit);

} // namespace mobile::detail

/// A mobile_ptr that keeps its object alive, or names nothing. Copy, compare, send, but not to
/// several ranks at once (`broadcast`, `multicast`), which would all get the same credit.
/// Thread-safe as a shared_ptr. A message that is not sent, or not handled, gives its credit back.
/// An archive of the program's own must be unpacked: if it is thrown away, the object lives until
/// the job ends.
template <class T> class mobile_ref {
public:
  mobile_ref() noexcept = default;
  /// For `create_counted`.
  mobile_ref(mobile::object_id id, std::uint64_t credit)
      : shared_(std::make_shared<mobile::detail::shared_credit>(id, credit)) {}
  template <class D>
  requires(!std::same_as<D, T> && std::convertible_to<D*, T*>) mobile_ref(const mobile_ref<D>& r)
  noexcept : shared_(r.shared_) { // NOLINT(google-explicit-constructor): as D* to T*
    mobile::detail::the_upcast<D, T>.used();
  }
  mobile_ptr<T> ptr() const noexcept { return shared_ ? mobile_ptr<T>(shared_->id()) : mobile_ptr<T>(); }
  explicit operator bool() const noexcept { return static_cast<bool>(shared_); }
  friend bool operator==(const mobile_ref& a, const mobile_ref& b) noexcept { return a.ptr() == b.ptr(); }
  friend auto operator<=>(const mobile_ref& a, const mobile_ref& b) noexcept { return a.ptr() <=> b.ptr(); }

  template <class A> void save(A& ar) const {
    std::uint64_t credit = 0;
    if constexpr (!std::is_same_v<A, size_archive>) { // which is asked first, and takes nothing along
      if (shared_) {
        credit = shared_->split();
        if constexpr (requires { ar.on_abandon([] {}); })
          if (ar.purpose() == archive_purpose::message)
            ar.on_abandon([from = shared_, credit] { from->take_back(credit); });
      }
    }
    ar(ptr(), credit);
  }
  template <class A> void load(A& ar) {
    mobile_ptr<T> to;
    std::uint64_t credit = 0;
    ar(to, credit);
    shared_ = to ? mobile::detail::received_credit(to.id(), credit) : nullptr;
  }

private:
  template <class D> friend class mobile_ref;
  std::shared_ptr<mobile::detail::shared_credit> shared_;
};

namespace mobile::detail {

template <class T, class... A> mobile_ref<T> construct_counted(A... args) {
  const object_id id = directory::here().add(type_of<T>(), new T(std::move(args)...), shared_credit::first);
  return mobile_ref<T>(id, shared_credit::first);
}

} // namespace mobile::detail

/// Makes a T on the calling rank that lives as long as a reference to it exists. Throws what its
/// constructor throws. Any worker thread of a rank.
template <class T, class... A> mobile_ref<T> create_counted(A&&... args) {
  if constexpr (tern::detail::accept_constructor_arguments<T, A...>()) {
    auto object = std::make_unique<T>(std::forward<A>(args)...);
    const auto id =
        mobile::directory::here().add(mobile::detail::type_of<T>(), object.get(), mobile::detail::shared_credit::first);
    object.release();
    return mobile_ref<T>(id, mobile::detail::shared_credit::first);
  } else {
    return {};
  }
}
/// The same on rank `where`, as `create_on`.
template <class T, class... A> future<mobile_ref<T>> create_counted_on(int where, A&&... args) {
  if constexpr (tern::detail::accept_constructor_arguments<
                    T, typename mobile::detail::constructor_argument<std::decay_t<A>>::type...>())
    return call<
        &mobile::detail::construct_counted<T, typename mobile::detail::constructor_argument<std::decay_t<A>>::type...>>(
        where, std::forward<A>(args)...);
  else
    return {};
}

/// As for a mobile_ptr.
template <auto F, class T, class... A> void send(const mobile_ref<T>& to, A&&... args) {
  send<F>(to.ptr(), std::forward<A>(args)...);
}
template <auto F, class T, class... A> void send(const send_options& how, const mobile_ref<T>& to, A&&... args) {
  send<F>(how, to.ptr(), std::forward<A>(args)...);
}
template <auto F, class T, class... A> auto call(const mobile_ref<T>& to, A&&... args) {
  return call<F>(to.ptr(), std::forward<A>(args)...);
}
template <auto F, class T, class... A> auto call(const invocation_options& how, const mobile_ref<T>& to, A&&... args) {
  return call<F>(how, to.ptr(), std::forward<A>(args)...);
}

} // namespace tern
