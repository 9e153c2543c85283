// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Active messages: run a function on another rank.
///
///     int square(int x) { return x * x; }
///     tern::send<&record>(1, values);                 // starts record(values) on rank 1 and goes on
///     int nine = tern::call<&square>(1, 3).get();     // … and waits for the result
///
/// Arguments and results are anything that can be serialized (archive.hpp). Handlers run in fibers:
/// they may block, call and wait. Between one pair of ranks handlers *start* in the order in which
/// their messages were sent.
///
/// A handler is a function, or a lambda without captures written in its place: `send<[](int x) { …
/// }>(1, 3)`. It has no state: what it needs travels as arguments.
///
/// An argument becomes its parameter's type where it is sent. Floating-point does not become an
/// integer, nor a number or pointer a bool: the compiler names the argument. An integer that does
/// not fit into a narrower parameter, and a double beyond a float's range, throw
/// error(invalid_argument) with the argument's number, its value and the type.

#include <source_location>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <tern/base/archive.hpp>
#include <tern/net/call/handler_frame.hpp>
#include <tern/net/call/pending_calls.hpp>
#include <tern/net/call/replies.hpp>
#include <tern/net/handler.hpp>
#include <tern/net/message/message_run.hpp>
#include <tern/net/node.hpp>
#include <tern/net/packing/packing.hpp>

namespace tern {

namespace net::detail {

template <class P>
inline constexpr bool can_travel = !std::is_pointer_v<std::remove_cvref_t<P>> &&
                                   !(std::is_lvalue_reference_v<P> && !std::is_const_v<std::remove_reference_t<P>>);

template <class T> inline constexpr bool is_future = false;
template <class T> inline constexpr bool is_future<future<T>> = true;
template <class T> inline constexpr bool is_future<shared_future<T>> = true;
template <class T> inline constexpr bool is_future<promise<T>> = true;

template <class R, class... P> struct signature {
  using result = std::remove_cvref_t<R>;
  using arguments = std::tuple<typename travels<P>::type...>;
  static constexpr std::size_t arity = sizeof...(P);
  static constexpr bool travels_well = (can_travel<P> && ...);
  static constexpr bool has_futures = is_future<result> || (is_future<std::remove_cvref_t<P>> || ...);
};

template <class F> struct signature_of_callable; // none for member functions: those belong to mobile objects
template <class F>
requires std::is_class_v<F>
struct signature_of_callable<F> : signature_of_callable<decltype(&F::operator())> {
};
template <class R, class... P> struct signature_of_callable<R (*)(P...)> : signature<R, P...> {};
template <class R, class... P> struct signature_of_callable<R (*)(P...) noexcept> : signature<R, P...> {};
template <class C, class R, class... P> struct signature_of_callable<R (C::*)(P...) const> : signature<R, P...> {};
template <class C, class R, class... P>
struct signature_of_callable<R (C::*)(P...) const noexcept> : signature<R, P...> {};

// Runs `f` and sends its result, or what it threw, to the caller. `context()` says what it was.
template <class R, class Context, class F>
void answer(node& here, int source, const wire_header& header, const Context& context, F&& f) {
  try {
    if constexpr (std::is_void_v<R>) {
      f();
      if (header.reply) post_answer(here, source, header.reply);
    } else if (header.reply) {
      const R result = f();
      post_answer(here, source, header.reply, result);
    } else {
      static_cast<void>(f());
    }
  } catch (...) {
    here.reply_error(source, header.reply, std::current_exception(), context());
  }
}

/// Reads a value that no caller waits for, and destroys it.
template <class T> void discard_value(std::span<const std::byte> bytes) noexcept {
  try {
    input_archive ar(bytes, true);
    static_cast<void>(unpack_next<T>(ar));
  } catch (...) { // what stands before has been read
  }
}

/// May reading a T make things of the rank's scheduler, as far as can be known? Numbers, and
/// ranges of them, do not: they are read where messages arrive also if that is in a thread of its
/// own.
template <class T> consteval bool needs_fiber_to_load() {
  if constexpr (tern::detail::bitwise<T>)
    return false;
  else if constexpr (requires { typename T::value_type; })
    return needs_fiber_to_load<typename T::value_type>();
  else
    return true;
}

/// Waits for a T that comes in a message. It is also what the future holds: so both take memory
/// once.
template <class T> class awaited : public pending_reply, public tern::detail::future_state<T> {
public:
  using ref = std::unique_ptr<awaited, pending_reply::goes>;
  using result = T;
  /// Counts the reference of the future too.
  explicit awaited(const std::source_location& made) : tern::detail::future_state<T>(2, made) {}
  static std::pair<ref, future<T>> make(const std::source_location& made) {
    ref self(new awaited(made));
    auto result = tern::detail::future_access::make<T>(self.get());
    return {std::move(self), std::move(result)};
  }
  void value(std::span<const std::byte> bytes) override {
    if constexpr (std::is_void_v<T>) {
      unpack_into(bytes);
      this->set();
    } else {
      this->set(unpack<T>(bytes));
    }
  }
  void failed(std::exception_ptr e) override { this->set_exception(std::move(e)); }
  pending_reply::discard_function discards() const noexcept override {
    if constexpr (std::is_void_v<T>)
      return nullptr;
    else if constexpr (tern::detail::bitwise<T>)
      return nullptr;
    else
      return &discard_value<T>;
  }
  bool needs_fiber() const noexcept override {
    if constexpr (std::is_void_v<T>)
      return false;
    else
      return needs_fiber_to_load<T>();
  }

private:
  void let_go() noexcept override {
    this->abandon();
    this->release();
  }
};

// `post(reply number)` sends the message. \return the future of its answer, whose state is a State,
// made of `more`.
template <class State, class Post, class... More>
future<typename State::result> post_call_as(node& here, int destination, Post&& post, const More&... more) {
  typename State::ref reply(new State(std::source_location::current(), more...));
  auto result = tern::detail::future_access::make<typename State::result>(reply.get());
  const std::uint64_t number = here.calls().expect(std::move(reply), destination);
  try {
    post(number);
  } catch (...) {
    here.calls().forget(number);
    throw;
  }
  return result;
}
template <class R, class Post> future<R> post_call(node& here, int destination, Post&& post) {
  return post_call_as<awaited<R>>(here, destination, std::forward<Post>(post));
}

template <auto F> void take_function(node& here, int source, const wire_header& header, payload& message);
template <auto F> void run_function(node& here, int source, const wire_header& header, payload& message);
template <auto F> void run_function_many(message_run& messages);
template <auto F> constexpr handler_run run_of_function() {
  using arguments = typename signature_of_callable<std::remove_cvref_t<decltype(F)>>::arguments;
  if constexpr (all_plain<arguments>) return {&run_function_many<F>, sizeof(wire_header) + all_plain_bytes<arguments>};
  return {};
}

#ifdef __BASE_FILE__
#define TERN_THIS_FILE __BASE_FILE__
#else
#define TERN_THIS_FILE __FILE__
#endif
template <auto F>
inline const handler_record function_handler{
    typeid(handler_tag<F>), signature_of<F>(),   TERN_THIS_FILE, &take_function<F>, false,
    &run_function<F>,       run_of_function<F>()};

template <auto F> void run_function(node& here, int source, const wire_header& header, payload& message) {
  using sig = signature_of_callable<std::remove_cvref_t<decltype(F)>>;
  const handler_frame frame(message.sender >= 0 ? message.sender : source);
  answer<typename sig::result>(
      here, source, header, [] { return "handler '" + function_handler<F>.name() + "'"; },
      [&]() -> typename sig::result {
        auto args = unpack_call<typename sig::arguments>(message);
        if constexpr (!views_message<typename sig::arguments>)
          if (!message.in_place) message = {}; // others can use its memory meanwhile
        return std::apply(F, std::move(args));
      });
}

template <auto F> void run_function_many(message_run& messages) {
  const handler_frame frame(messages.source());
  while (const std::byte* const bytes = messages.next()) {
    try {
      typename signature_of_callable<std::remove_cvref_t<decltype(F)>>::arguments args;
      read_plain(bytes, args);
      static_cast<void>(std::apply(F, std::move(args)));
    } catch (...) {
      messages.here().reply_error(messages.source(), 0, std::current_exception(),
                                  "handler '" + function_handler<F>.name() + "'");
    }
  }
}

template <auto F> void take_function(node& here, int source, const wire_header& header, payload& message) {
  here.run_handler(&run_function<F>, source, header, message, function_handler<F>.name());
}

/// Sends the call of a handler. \param reply the caller's number; 0: no caller waits.
template <auto F, class... A> void post_function(node& here, int destination, std::uint64_t reply, A&&... args) {
  using sig = signature_of_callable<std::remove_cvref_t<decltype(F)>>;
  post_arguments<typename sig::arguments>(here, destination, {function_handler<F>.id(), 0, reply}, std::tuple<>(),
                                          std::forward<A>(args)...);
}

// Says in one line what is wrong; the caller compiles nothing further then.
template <auto F, class... A> consteval bool check_call() {
  using sig = signature_of_callable<std::remove_cvref_t<decltype(F)>>;
  static_assert(sig::travels_well, "a handler's parameters travel by value: use values or const references, "
                                   "no pointers and no non-const references");
  static_assert(!sig::has_futures, "a future cannot travel: wait for it and send its value; "
                                   "a promise can as a remote_promise");
  static_assert(sizeof...(A) == sig::arity, "the number of arguments differs from the handler's parameters");
  static_assert(!sig::travels_well || std::is_default_constructible_v<typename sig::arguments>,
                "the type of a handler's parameter has no default constructor, which it needs to be unpacked: give it "
                "one");
  if constexpr (sig::travels_well && !sig::has_futures && sizeof...(A) == sig::arity)
    return accept_arguments<typename sig::arguments, A...>();
  else
    return false;
}

// A lambda with captures has state, which a handler cannot. Overloads take it where a program may
// write it, to say so.
template <auto F> struct as_value {};
/// An object that lives as long as the program but is no value for a template.
template <const auto& F>
concept with_state = std::is_class_v<std::remove_cvref_t<decltype(F)>> && !requires {
  typename as_value<F>;
};
template <class F, class... A>
concept callable_object = std::is_class_v<std::remove_cvref_t<F>> && std::is_invocable_v<F&, A...>;

template <class... A> consteval void refuse_state() {
  static_assert(sizeof...(A) == static_cast<std::size_t>(-1),
                "a handler has no state, so a lambda with captures cannot be one: send the captured values as "
                "arguments");
}
template <class... A> consteval void refuse_object() {
  static_assert(sizeof...(A) == static_cast<std::size_t>(-1),
                "a handler stands in angle brackets, as in send<&f>(rank, x) or send<[](int x) {}>(rank, 3), and has "
                "no state: send what a lambda captures as arguments");
}

} // namespace net::detail

/// Runs `F(args…)` in a fiber on rank `destination`; returns when the arguments are packed, so they
/// may be changed at once. An exception out of `F` reaches no caller and ends the job: use `call`
/// for what may fail. \throws error(invalid_argument) for a destination that is no rank or an
/// argument that does not fit, error(invalid_data) if an argument's `serialize` contradicts itself,
/// error(invalid_state) outside a running job. Any worker thread, in or out of a fiber.
template <auto F, class... A> void send(int destination, A&&... args) {
  if constexpr (net::detail::check_call<F, A...>()) {
    net::node& here = net::node::here();
    here.check_rank(destination);
    net::detail::post_function<F>(here, destination, 0, std::forward<A>(args)...);
    here.throttle(destination);
  }
}

/// As `send`, and gives a future for the result. What `F` throws is thrown by the future: a
/// tern::error with its code and hint, anything else as error(remote) with its type and text; the
/// message names handler and rank. The result's `load` or `serialize` runs where messages arrive
/// and must not wait.
template <auto F, class... A>
auto call(int destination, A&&... args)
    -> future<typename net::detail::signature_of_callable<std::remove_cvref_t<decltype(F)>>::result> {
  if constexpr (net::detail::check_call<F, A...>()) {
    using sig = net::detail::signature_of_callable<std::remove_cvref_t<decltype(F)>>;
    net::node& here = net::node::here();
    here.check_rank(destination);
    auto result = net::detail::post_call<typename sig::result>(here, destination, [&](std::uint64_t number) {
      net::detail::post_function<F>(here, destination, number, std::forward<A>(args)...);
    });
    here.throttle(destination);
    return result;
  } else {
    return {};
  }
}

/// The rank that has sent what the calling fiber runs: the message of a handler, or the invocation
/// of an object (mobile/object.hpp), also if that has been sent on. A multicast's is the rank that
/// began it. The operator of a collective operation runs in the fiber that takes part: it has that
/// fiber's caller. Ask in the handler itself, and pass the rank to what it starts: tasklets may run
/// in any fiber. \throws error(invalid_state) if the fiber runs neither, as the main function and
/// fibers that a handler has started.
int caller();

// Errors in words only. (A lambda with captures that stands in the angle brackets itself is refused
// by the language.)
template <const auto& F, class... A>
requires net::detail::with_state<F>
void send(int, A&&...) { net::detail::refuse_state<A...>(); }
template <const auto& F, class... A>
requires net::detail::with_state<F> future<void> call(int, A&&...) {
  net::detail::refuse_state<A...>();
  return {};
}
template <class F, class... A>
requires net::detail::callable_object<F, A...>
void send(int, F&&, A&&...) { net::detail::refuse_object<A...>(); }
template <class F, class... A>
requires net::detail::callable_object<F, A...> future<void> call(int, F&&, A&&...) {
  net::detail::refuse_object<A...>();
  return {};
}

} // namespace tern
