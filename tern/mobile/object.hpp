// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Mobile objects: things that live somewhere in the job and are talked to through a pointer that is valid everywhere.
///
///     struct counter {
///       long value = 0;
///       void add(long n) { value += n; }          // exclusive: alone on its object
///       long get() const { return value; }        // shared: together with other const functions
///     };
///     auto c = tern::create_on<counter>(1).get();  // lives on rank 1; `c` may be sent to any rank
///     tern::send<&counter::add>(c, 5);
///     long v = tern::call<&counter::get>(c).get(); // 5: one sender's invocations run in the order they were sent
///
/// Invocations of different objects run concurrently; those of one object as its functions' constness says. An
/// invocation is a handler: it runs in a fiber and may block, and keeps its access to the object meanwhile. (It must
/// therefore not wait for an exclusive invocation of its own object.)

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <tern/mobile/directory.hpp>
#include <tern/net/message.hpp>

namespace tern {

/// Names a mobile object of type T, or nothing. A value: copy, compare, hash, send. Holding one does not keep the
/// object alive; objects live until `destroy` or the end of the job.
template <class T> class mobile_ptr {
public:
  constexpr mobile_ptr() noexcept = default;
  constexpr explicit mobile_ptr(mobile::object_id id) noexcept : id_(id) {}
  constexpr mobile::object_id id() const noexcept { return id_; }
  /// The rank where the object was created, which always knows where it is.
  constexpr int home() const noexcept { return id_.home(); }
  constexpr explicit operator bool() const noexcept { return static_cast<bool>(id_); }
  constexpr auto operator<=>(const mobile_ptr&) const noexcept = default;
  template <class A> void serialize(A& ar) { ar(id_.bits); }

private:
  mobile::object_id id_;
};

namespace mobile::detail {

using net::detail::answer;

// What a function that may be invoked on an object looks like: a member, or a free function that takes the object
// first.
template <class F> struct member_signature;
template <class C, class R, class... P> struct member_signature<R (C::*)(P...)> : net::detail::signature<R, P...> {
  using object = C;
  static constexpr bool exclusive = true;
};
template <class C, class R, class... P>
struct member_signature<R (C::*)(P...) const> : net::detail::signature<R, P...> {
  using object = C;
  static constexpr bool exclusive = false;
};
template <class C, class R, class... P>
struct member_signature<R (C::*)(P...) noexcept> : member_signature<R (C::*)(P...)> {};
template <class C, class R, class... P>
struct member_signature<R (C::*)(P...) const noexcept> : member_signature<R (C::*)(P...) const> {};
template <class C, class R, class... P> struct member_signature<R (*)(C&, P...)> : net::detail::signature<R, P...> {
  using object = std::remove_const_t<C>;
  static constexpr bool exclusive = !std::is_const_v<C>;
};

template <auto F> void run_member(net::node& here, int source, const net::wire_header& header, net::payload& message);

template <auto F>
inline const net::handler_record member_handler{typeid(std::pair<net::detail::handler_tag<F>, object_id>),
                                                net::detail::signature_of<F>(), TERN_THIS_FILE, &run_member<F>};

template <auto F> void run_member(net::node& here, int source, const net::wire_header& header, net::payload& message) {
  using sig = member_signature<decltype(F)>;
  using object = typename sig::object;
  const object_id id = read_target(message.bytes);
  const std::string& name = member_handler<F>.name();
  invocation call;
  call.exclusive = sig::exclusive;
  call.name = &name;
  call.source = source;
  call.header = header;
  call.message = std::move(message);
  call.body = [&here, source, header, id, &name](void* target, net::payload& bytes) {
    answer<typename sig::result>(
        here, source, header, [&] { return describe_invocation(name, id, type_of<object>()); },
        [&]() -> typename sig::result {
          auto args = net::detail::unpack_call<typename sig::arguments>(bytes, sizeof id.bits);
          if constexpr (!net::detail::views_message<typename sig::arguments>) bytes = {};
          return std::apply(
              [&](auto&&... a) -> typename sig::result {
                return std::invoke(F, *static_cast<object*>(target), std::forward<decltype(a)>(a)...);
              },
              std::move(args));
        });
  };
  directory::here().deliver(here, id, type_of<object>(), std::move(call));
}

// Says in one line what is wrong; the caller compiles nothing further then.
template <auto F, class T, class... A> consteval bool check_invocation() {
  using sig = member_signature<decltype(F)>;
  constexpr bool same = std::is_same_v<typename sig::object, T>;
  static_assert(same, "the function belongs to another class than the pointer");
  static_assert(sig::travels_well, "an invocation's parameters travel by value: use values or const references, "
                                   "no pointers and no non-const references");
  static_assert(!sig::has_futures, "a future cannot travel: wait for it and send its value");
  static_assert(sizeof...(A) == sig::arity, "the number of arguments differs from the function's parameters");
  return same && sig::travels_well && !sig::has_futures && sizeof...(A) == sig::arity;
}

template <auto F, class T, class... A>
void post_invocation(net::node& here, int where, mobile_ptr<T> to, std::uint64_t reply, A&&... args) {
  using sig = member_signature<decltype(F)>;
  net::detail::post_arguments<typename sig::arguments>(here, where, {member_handler<F>.id(), 0, reply},
                                                       std::tuple(to.id().bits), std::forward<A>(args)...);
}

template <class A> struct constructor_argument {
  using type = std::conditional_t<std::is_convertible_v<A, const char*>, std::string, A>;
};

template <class T, class... A> mobile_ptr<T> construct(A... args) {
  return mobile_ptr<T>(directory::here().add(type_of<T>(), new T(std::move(args)...)));
}

} // namespace mobile::detail

/// Makes a T on the calling rank. Throws what its constructor throws. Any worker thread of a rank.
template <class T, class... A> mobile_ptr<T> create(A&&... args) {
  return mobile_ptr<T>(mobile::directory::here().add(mobile::detail::type_of<T>(), new T(std::forward<A>(args)...)));
}

/// Makes a T on rank `where`, from arguments that are sent there. The future throws what the constructor throws.
template <class T, class... A> future<mobile_ptr<T>> create_on(int where, A&&... args) {
  return call<&mobile::detail::construct<T, typename mobile::detail::constructor_argument<std::decay_t<A>>::type...>>(
      where, std::forward<A>(args)...);
}

/// Starts `(object->*F)(args…)`, or `F(object, args…)`, where the object is, and goes on. Invocations from one rank's
/// fiber to one object begin in the order sent. An exception has nobody to go to and ends the job, as does a pointer to
/// an object that is gone: use `call` for what may fail.
/// \throws error(invalid_argument) for a null pointer.
template <auto F, class T, class... A> void send(mobile_ptr<T> to, A&&... args) {
  if constexpr (mobile::detail::check_invocation<F, T, A...>()) {
    net::node& here = net::node::here();
    const int where = mobile::directory::here().locate(to.id());
    mobile::detail::post_invocation<F>(here, where, to, 0, std::forward<A>(args)...);
    here.pace(where);
  }
}

/// As `send`, with a future for the result. It throws what the invocation throws, with the function's, the object's and
/// its rank's name in the message, and error(not_found) if the object is gone.
template <auto F, class T, class... A>
auto call(mobile_ptr<T> to, A&&... args) -> future<typename mobile::detail::member_signature<decltype(F)>::result> {
  if constexpr (mobile::detail::check_invocation<F, T, A...>()) {
    net::node& here = net::node::here();
    const int where = mobile::directory::here().locate(to.id());
    auto result = net::detail::post_call<typename mobile::detail::member_signature<decltype(F)>::result>(
        here, where, [&](std::uint64_t number) {
          mobile::detail::post_invocation<F>(here, where, to, number, std::forward<A>(args)...);
        });
    here.pace(where);
    return result;
  } else {
    return {};
  }
}

/// Destroys the object after the invocations that it already has. The future is set when it is gone; later invocations
/// fail with error(not_found).
template <class T> future<void> destroy(mobile_ptr<T> object) {
  return call<&mobile::detail::destroy_object>(object.id().home(), object.id().bits);
}

} // namespace tern

template <class T> struct std::hash<tern::mobile_ptr<T>> {
  std::size_t operator()(const tern::mobile_ptr<T>& p) const noexcept {
    return std::hash<tern::mobile::object_id>{}(p.id());
  }
};
