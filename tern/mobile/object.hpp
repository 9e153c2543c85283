// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Mobile objects: each lives on one rank of the job, and is invoked through a pointer that is
/// valid on all of them.
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
/// Invocations of different objects run concurrently; those of one object as its functions'
/// constness says. An invocation is a handler: it runs in a fiber and may block, and keeps its
/// access to the object meanwhile. (It must therefore not wait for an exclusive invocation of its
/// own object.)

#include <array>
#include <compare>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>

#include <tern/mobile/directory.hpp>
#include <tern/mobile/object/type.hpp>
#include <tern/net/call_options.hpp>
#include <tern/net/message.hpp>

namespace tern {

/// Names a mobile object of type T, or of a class derived from it, or nothing. A value: copy,
/// compare, hash, send. Holding one does not keep the object alive; objects live until `destroy` or
/// the end of the job. A pointer to a class converts to one to a public base of it; pointers are
/// equal if they name the same object.
template <class T> class mobile_ptr {
public:
  constexpr mobile_ptr() noexcept = default;
  constexpr explicit mobile_ptr(mobile::object_id id) noexcept : id_(id) {}
  template <class D>
  requires(!std::same_as<D, T> && std::convertible_to<D*, T*>) mobile_ptr(const mobile_ptr<D>& p)
  noexcept : id_(p.id()) { // NOLINT(google-explicit-constructor): as D* to T*
    mobile::detail::the_upcast<D, T>.used();
  }
  constexpr mobile::object_id id() const noexcept { return id_; }
  /// The object's home: the rank that is told wherever it goes. It is the one where the object was
  /// created, until the job goes on from a checkpoint on another number of ranks.
  int home() const noexcept { return mobile::directory::home_of_here(id_); }
  constexpr explicit operator bool() const noexcept { return static_cast<bool>(id_); }
  constexpr auto operator<=>(const mobile_ptr&) const noexcept = default;
  template <class A> void serialize(A& ar) { ar(id_.bits); }

private:
  mobile::object_id id_;
};

namespace mobile::detail {

using net::detail::answer;

// What a function that may be invoked on an object looks like: a member, or a free function that
// takes the object first.
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
template <class C, class R, class... P>
struct member_signature<R (*)(C&, P...) noexcept> : member_signature<R (*)(C&, P...)> {};
// A lambda without captures, as the function that it converts to.
template <class F> struct call_operator;
template <class L, class R, class... P> struct call_operator<R (L::*)(P...) const> { using function = R (*)(P...); };
template <class L, class R, class... P>
struct call_operator<R (L::*)(P...) const noexcept> : call_operator<R (L::*)(P...) const> {};
template <class L>
requires requires { typename member_signature<typename call_operator<decltype(&L::operator())>::function>::object; }
struct member_signature<L> : member_signature<typename call_operator<decltype(&L::operator())>::function> {};

template <auto F> void take_member(net::node& here, int source, const net::wire_header& header, net::payload& message);
template <auto F>
void take_member_here(net::node& here, int source, const net::wire_header& header, net::payload& message);

template <auto F> void take_members(net::message_run& messages);
template <auto F> void take_near(line_delivery& from);
template <auto F> constexpr net::handler_run run_of_member() {
  using arguments = typename member_signature<decltype(F)>::arguments;
  if constexpr (net::detail::all_plain<arguments>)
    return {&take_members<F>, sizeof(net::wire_header) + sizeof(address) + net::detail::all_plain_bytes<arguments>};
  return {};
}

template <auto F>
inline const net::handler_record member_handler{typeid(std::pair<net::detail::handler_tag<F>, object_id>),
                                                net::detail::signature_of<F>(),
                                                TERN_THIS_FILE,
                                                &take_member<F>,
                                                false,
                                                &take_member_here<F>,
                                                run_of_member<F>()};

template <auto F>
void run_member(net::node& here, void* target, const address& to, const net::wire_header& header,
                net::payload& message) {
  using sig = member_signature<decltype(F)>;
  using object = typename sig::object;
  answer<typename sig::result>(
      here, to.origin(), header,
      [&] { return describe_invocation(member_handler<F>.name(), to.object, type_of<object>().name); },
      [&]() -> typename sig::result {
        auto args = net::detail::unpack_call<typename sig::arguments>(message, sizeof(address));
        if constexpr (!net::detail::views_message<typename sig::arguments>)
          if (!message.in_place) message = {}; // others can use its memory meanwhile
        return std::apply(
            [&](auto&&... a) -> typename sig::result {
              return std::invoke(F, *static_cast<object*>(target), std::forward<decltype(a)>(a)...);
            },
            std::move(args));
      });
}

template <auto F>
inline constexpr invocable member{
    member_signature<decltype(F)>::exclusive ? action::exclude : action::share,
    &record_of<typename member_signature<decltype(F)>::object>,
    []() -> const std::string& { return member_handler<F>.name(); }, &run_member<F>,
    &net::detail::discard_call<typename member_signature<decltype(F)>::arguments, sizeof(address)>};

template <auto F> void take_member(net::node& here, int source, const net::wire_header& header, net::payload& message) {
  directory::of(here).arrive(here, member<F>, source, header, message, false);
}
template <auto F>
void take_member_here(net::node& here, int source, const net::wire_header& header, net::payload& message) {
  directory::of(here).arrive(here, member<F>, source, header, message, true);
}

template <auto F> void take_members(net::message_run& messages) {
  using sig = member_signature<decltype(F)>;
  using object = typename sig::object;
  directory& all = directory::of(messages.here());
  const int source = messages.source();
  invocation_series run(all.access(), member<F>, source);
  while (const std::byte* const bytes = messages.next()) {
    // First of all: what gives the last object back may let others receive.
    std::array<std::byte, run_of_member<F>().bytes> whole;
    std::memcpy(whole.data(), messages.whole(bytes).data(), whole.size());
    address to;
    std::memcpy(&to, whole.data() + sizeof(net::wire_header), sizeof to);
    net::wire_header header;
    std::memcpy(&header, whole.data(), sizeof header);
    void* const target = run.admit(to, header);
    if (!target) [[unlikely]] {
      net::payload message{byte_buffer::copy_of(whole), {}, false};
      all.arrive(messages.here(), member<F>, source, header, message, true);
      continue;
    }
    typename sig::arguments args;
    net::detail::read_plain(whole.data() + sizeof(net::wire_header) + sizeof to, args);
    const auto frame = run.frame(to);
    try {
      static_cast<void>(std::apply(
          [&](auto&&... a) { return std::invoke(F, *static_cast<object*>(target), std::forward<decltype(a)>(a)...); },
          std::move(args)));
    } catch (...) {
      messages.here().reply_error(to.origin(), 0, std::current_exception(),
                                  describe_invocation(member_handler<F>.name(), to.object, run.type().name));
    }
  }
}

template <auto F> void take_near(line_delivery& from) {
  using sig = member_signature<decltype(F)>;
  using object = typename sig::object;
  directory& all = directory::of(from.here());
  const int rank = from.here().rank();
  const net::wire_header header{member_handler<F>.id(), 0, 0};
  invocation_series run(all.access(), member<F>, rank);
  while (near_record* const r = from.next(&take_near<F>, member_handler<F>.label())) {
    // First of all: what gives the last object back may send, and that is written where this lies.
    constexpr std::size_t bytes = net::detail::all_plain_bytes<typename sig::arguments>;
    std::array<std::byte, bytes> plain;
    if constexpr (bytes > 0) std::memcpy(plain.data(), r->arguments(), bytes);
    const object_id id = r->object;
    void* const target = run.admit_near(id, header);
    if (!target) [[unlikely]] {
      net::payload message{pack_after(0, header, address(id, rank)), {}, false};
      message.bytes.append(plain);
      all.arrive(from.here(), member<F>, rank, header, message, true);
      continue;
    }
    typename sig::arguments args;
    net::detail::read_plain(plain.data(), args);
    try {
      static_cast<void>(std::apply(
          [&](auto&&... a) { return std::invoke(F, *static_cast<object*>(target), std::forward<decltype(a)>(a)...); },
          std::move(args)));
    } catch (...) {
      from.here().reply_error(rank, 0, std::current_exception(),
                              describe_invocation(member_handler<F>.name(), id, run.type().name));
    }
  }
}

template <class T>
void take_object(net::node& here, int source, const net::wire_header& header, net::payload& message) {
  directory::of(here).land(type_of<T>(), source, header, message);
}
template <class T> struct arrival_tag {};
template <class T>
inline const net::handler_record object_handler{
    typeid(arrival_tag<T>), "migration of " + tern::detail::type_name(typeid(T)), TERN_THIS_FILE, &take_object<T>};
template <class T> inline const movable_class the_movable_class{object_handler<T>, &record_of<T>};
template <class T> const net::handler_record* arrival_of() {
  the_movable_class<T>.used();
  return &object_handler<T>;
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
  if constexpr (same && sig::travels_well && !sig::has_futures && sizeof...(A) == sig::arity)
    return net::detail::accept_arguments<typename sig::arguments, A...>();
  else
    return false;
}

/// \param post sends a message that begins with the address that it is given to the rank that it is
/// given.
/// \param bytes that it has beside, if it is an invocation.
template <class Post>
void post_to_object(directory& known, object_id id, Post&& post, std::optional<std::size_t> bytes = {}) {
  const destination to = known.find_destination(id);
  try {
    post(to.where, to.to);
  } catch (...) {
    known.failed(to);
    throw;
  }
  bytes ? known.sent(to, *bytes) : known.sent(to);
}

/// Sends values of plain types after the header and the object's name, on a rank with mailboxes.
template <class... T>
void mail_plain(directory& known, object_id id, const net::wire_header& h, bool invokes, const T&... x) {
  outgoing_mail message(known.mail(), sizeof h + sizeof(address) + net::detail::plain_bytes<T...>);
  std::byte* at = message.message().data();
  std::memcpy(at, &h, sizeof h);
  at += sizeof h + sizeof(address);
  [[maybe_unused]] const auto put = [&](const auto& value) {
    std::memcpy(at, &value, sizeof value);
    at += sizeof value;
  };
  (put(x), ...);
  known.send(id, message, invokes);
}
/// Sends values of plain types to the object.
/// \param near takes such an invocation from the rank's own line; null: it must not go that way.
template <class... T>
void post_plain(net::node& here, directory& known, object_id id, const net::wire_header& h, bool invokes,
                near_function near, const T&... x) {
  if (known.has_mailboxes()) return mail_plain(known, id, h, invokes, x...);
  constexpr std::size_t bytes = net::detail::plain_bytes<T...>, whole = sizeof h + sizeof(address) + bytes;
  if (near)
    if (std::byte* at = known.place(id, near, bytes, whole)) {
      [[maybe_unused]] const auto put = [&](const auto& value) {
        std::memcpy(at, &value, sizeof value);
        at += sizeof value;
      };
      (put(x), ...);
      return known.line().throttle();
    }
  const destination to = known.find_destination(id);
  try {
    if (to.is_lined())
      known.line().put(id, pack(h, to.to, x...).bytes(), {});
    else
      net::detail::post_packed(here, to.where, h, {}, to.to, x...);
  } catch (...) {
    known.failed(to);
    throw;
  }
  if (!invokes) return known.sent(to);
  known.sent(to, whole - sizeof h);
  to.is_lined() ? known.line().throttle() : here.throttle(to.where);
}
/// The same for the arguments of an invocation, as its parameters' own types.
template <class Arguments, class... A>
void post_plain_arguments(net::node& here, directory& known, object_id id, const net::wire_header& h,
                          near_function near, A&&... args) {
  using net::detail::argument_name;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    post_plain(here, known, id, h, true, near,
               static_cast<const std::tuple_element_t<I, Arguments>&>(
                   net::detail::as_stored<std::tuple_element_t<I, Arguments>>(std::forward<A>(args),
                                                                              argument_name{h.handler, I + 1}))...);
  }
  (std::index_sequence_for<A...>{});
}

// Where a message to an object goes, asked when it is packed: packing may run code of the program,
// which may itself send to objects.
struct object_address {
  net::node& from;
  directory& known;
  object_id id;
  destination next{};
  bool chosen = false;
  template <class Message> void post(net::node_send& here, Message&& message, byte_buffer& body, net::posting how) {
    const std::span<std::byte> bytes(message);
    if (known.has_mailboxes()) {
      outgoing_mail mine(known.mail(), bytes.size());
      std::memcpy(mine.message().data(), bytes.data(), bytes.size());
      mine.body() = std::move(body);
      return known.send(id, mine, true);
    }
    const std::size_t size = bytes.size();
    next = known.find_destination(id);
    chosen = true;
    std::memcpy(bytes.data() + sizeof(net::wire_header), &next.to, sizeof next.to);
    if (next.is_lined())
      known.line().put(id, bytes, std::move(body));
    else
      here.post(next.where, std::forward<Message>(message), body, how);
    chosen = false;
    known.sent(next, size);
  }
  void throttle() {
    if (next.is_lined())
      known.line().throttle();
    else if (!known.has_mailboxes())
      from.throttle(next.where);
  }
};

template <auto F, class T, class... A>
void post_invocation(net::node& here, mobile_ptr<T> object, std::uint64_t reply, std::uint32_t how, A&&... args) {
  using arguments = typename member_signature<decltype(F)>::arguments;
  if constexpr (net::detail::all_plain<arguments>) {
    near_function near = nullptr;
    if constexpr (net::detail::all_plain_bytes<arguments> <= own_line::most_near)
      if (reply == 0 && how == 0) near = &take_near<F>;
    post_plain_arguments<arguments>(here, directory::of(here), object.id(), {member_handler<F>.id(), how, reply}, near,
                                    std::forward<A>(args)...);
  } else {
    object_address to{here, directory::of(here), object.id()};
    to.known.check(to.id);
    try {
      net::detail::post_arguments_to<arguments>(here, to, {member_handler<F>.id(), how, reply}, std::tuple(address()),
                                                std::forward<A>(args)...);
    } catch (...) {
      if (to.chosen) to.known.failed(to.next);
      throw;
    }
    to.throttle();
  }
}

/// One of the runtime's own messages to an object.
template <class... A>
void post_control(net::node& here, const net::handler_record& what, object_id id, std::uint64_t reply,
                  const A&... args) {
  post_plain(here, directory::of(here), id, {what.id(), 0, reply}, false, nullptr, args...);
}

/// Waits for the end of what the calling invocation's own object keeps out until that invocation
/// has ended.
template <class R> class awaited_from_itself final : public net::detail::awaited<R> {
public:
  awaited_from_itself(const std::source_location& made, object_id object, action what, const std::string& name)
      : net::detail::awaited<R>(made), object_(object), what_(what), name_(name) {
    this->ask_before_waits();
  }

private:
  void before_wait() const override { running_invocation::expect_admission(object_, what_, name_, this->made()); }
  const object_id object_;
  const action what_;
  const std::string& name_; // of a handler
};

/// `post(reply number)` sends what does `what` to the object.
template <class R, class Post>
future<R> post_object_call(net::node& here, object_id id, action what, const std::string& name, Post&& post) {
  if (running_invocation::is_of_own(id, what)) [[unlikely]]
    return net::detail::post_call_as<awaited_from_itself<R>>(here, directory::of(here).home_of(id),
                                                             std::forward<Post>(post), id, what, name);
  return net::detail::post_call<R>(here, directory::of(here).home_of(id), std::forward<Post>(post));
}

/// One that is answered.
template <class... A> future<void> ask(const net::handler_record& what, object_id id, const A&... args) {
  net::node& here = net::node::here();
  return net::detail::post_call<void>(here, directory::of(here).home_of(id),
                                      [&](std::uint64_t reply) { post_control(here, what, id, reply, args...); });
}
/// The same for one that waits until no invocation runs.
template <class... A>
future<void> ask_for(action what, const net::handler_record& handler, object_id id, const A&... args) {
  net::node& here = net::node::here();
  return post_object_call<void>(here, id, what, handler.name(),
                                [&](std::uint64_t reply) { post_control(here, handler, id, reply, args...); });
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
  if constexpr (tern::detail::accept_constructor_arguments<T, A...>())
    return mobile_ptr<T>(mobile::directory::here().add(mobile::detail::type_of<T>(), new T(std::forward<A>(args)...)));
  else
    return {};
}

/// Makes a T on rank `where`, from arguments that are sent there. The future throws what the
/// constructor throws.
template <class T, class... A> future<mobile_ptr<T>> create_on(int where, A&&... args) {
  if constexpr (tern::detail::accept_constructor_arguments<
                    T, typename mobile::detail::constructor_argument<std::decay_t<A>>::type...>())
    return call<&mobile::detail::construct<T, typename mobile::detail::constructor_argument<std::decay_t<A>>::type...>>(
        where, std::forward<A>(args)...);
  else
    return {};
}

/// Starts `(object->*F)(args…)`, or `F(object, args…)`, where the object is, and goes on.
/// Invocations from one rank's fiber to one object begin in the order sent, wherever the object
/// moves. Those of two fibers, such as two invocations of one sender, may overtake each other when
/// an object moves: docs/concepts/objects.md, "Order". An exception has no caller to go to and ends
/// the job, as does a pointer to an object that is gone: use `call` for what may fail.
/// \throws error(invalid_argument) for a null pointer, and for an argument that does not fit (see
/// message.hpp).
template <auto F, class T, class... A> void send(mobile_ptr<T> to, A&&... args) {
  if constexpr (mobile::detail::check_invocation<F, T, A...>())
    mobile::detail::post_invocation<F>(net::node::here(), to, 0, 0, std::forward<A>(args)...);
}

/// How an invocation is sent.
struct send_options {
  /// Where it runs, it comes before less urgent ones of other objects, and before those of its
  /// object that wait and that other ranks have sent. What one rank has sent to one object begins
  /// in the order sent, whatever its priority.
  tern::priority priority = tern::priority::normal;
  bool work = false; ///< it causes work, however quickly it returns: balancing treats it as one that takes long
};
/// `send<&solver::stop>({.priority = tern::priority::high}, solver)`.
template <auto F, class T, class... A> void send(const send_options& how, mobile_ptr<T> to, A&&... args) {
  if constexpr (mobile::detail::check_invocation<F, T, A...>())
    mobile::detail::post_invocation<F>(net::node::here(), to, 0, mobile::flags_of(how), std::forward<A>(args)...);
}

/// As `send`, with a future for the result. It throws what the invocation throws, with the
/// function's, the object's and its rank's name in the message, and error(not_found) if the object
/// is gone. An invocation that waits for one of its own object which cannot run beside it gets
/// error(deadlock): see `release_access`.
template <auto F, class T, class... A>
auto call(mobile_ptr<T> to, A&&... args) -> future<typename mobile::detail::member_signature<decltype(F)>::result> {
  if constexpr (mobile::detail::check_invocation<F, T, A...>()) {
    net::node& here = net::node::here();
    return mobile::detail::post_object_call<typename mobile::detail::member_signature<decltype(F)>::result>(
        here, to.id(), mobile::detail::member<F>.what, mobile::detail::member_handler<F>.name(),
        [&](std::uint64_t number) {
          mobile::detail::post_invocation<F>(here, to, number, 0, std::forward<A>(args)...);
        });
  } else {
    return {};
  }
}

/// How an invocation is sent, and how long its caller waits (see call_options.hpp).
struct invocation_options {
  tern::priority priority = tern::priority::normal; ///< as for `send`
  std::chrono::nanoseconds timeout{0};
  std::stop_token stop{};
};
template <auto F, class T, class... A>
auto call(const invocation_options& how, mobile_ptr<T> to, A&&... args)
    -> future<typename mobile::detail::member_signature<decltype(F)>::result> {
  if constexpr (mobile::detail::check_invocation<F, T, A...>()) {
    net::node& here = net::node::here();
    return net::detail::post_call<typename mobile::detail::member_signature<decltype(F)>::result>(
        here, {.timeout = how.timeout, .stop = how.stop}, mobile::detail::member_handler<F>.name(),
        mobile::directory::of(here).home_of(to.id()), [&](std::uint64_t number) {
          mobile::detail::post_invocation<F>(here, to, number, net::flag_of(how.priority), std::forward<A>(args)...);
        });
  } else {
    return {};
  }
}

/// Destroys the object after the invocations that it already has. The future is set when it is
/// gone; later invocations fail with error(not_found). \throws error(invalid_argument) for a null
/// pointer.
template <class T> future<void> destroy(mobile_ptr<T> object) {
  return mobile::detail::ask_for(mobile::action::destroy, mobile::detail::destroy_handler, object.id());
}

/// Moves the object to rank `to`, as soon as those invocations have ended that run on it; those
/// that wait go with it. The future is set when it is there. If the object cannot be packed or
/// unpacked it stays where it was, and the future throws why. An invocation of the object itself
/// that waits for it gets error(deadlock). \throws error(invalid_argument) for a null pointer and a
/// rank that there is not; the future throws error(not_found) if the object is gone, and
/// error(unsupported) if it is of a derived class that cannot be serialized.
template <class T> future<void> migrate(mobile_ptr<T> object, int to) {
  static_assert(std::is_polymorphic_v<T> || mobile::detail::can_move<T>,
                "the class cannot move: give it `template <class A> void serialize(A& ar)` and a default constructor, "
                "or one from a tern::input_archive&");
  net::node::here().check_rank(to);
  return mobile::detail::ask_for(mobile::action::migrate, mobile::detail::migrate_handler, object.id(),
                                 static_cast<std::int32_t>(to));
}

/// Swaps the object out to its rank's disk until it is invoked or moves: for one that will not be
/// used for long. With `--tern-mobile-memory` the rank does so by itself when it needs memory. The
/// future is set when it is there, or when it is wanted before; it throws error(io) naming the
/// directory if the disk is full, or does not work, and what packing throws; then the object stays
/// in memory.
template <class T> future<void> swap_out(mobile_ptr<T> object) {
  return mobile::detail::ask_for(mobile::action::swap_out, mobile::detail::swap_out_handler, object.id());
}

/// Keeps the object where it is, from when the future is set until as many `unpin` have come: a
/// request to move it fails with error(invalid_state). The future throws error(not_found) if the
/// object is gone.
template <class T> future<void> pin(mobile_ptr<T> object) {
  return mobile::detail::ask(mobile::detail::pin_handler, object.id());
}
template <class T> future<void> unpin(mobile_ptr<T> object) {
  return mobile::detail::ask(mobile::detail::unpin_handler, object.id());
}

/// Within an invocation: gives up its access to the object until the scope ends. The end of the
/// scope waits until it has the same access again, before all invocations that have not begun.
/// Meanwhile the object may change, but does not move or end. For invocations that wait long, or
/// for another invocation of their own object.
class [[nodiscard]] release_access {
public:
  /// \throws error(invalid_state) outside an invocation.
  release_access() : of_(mobile::detail::running_invocation::required("tern::release_access")) { of_.release(); }
  ~release_access() { of_.regain(); }
  release_access(const release_access&) = delete;
  release_access& operator=(const release_access&) = delete;

private:
  mobile::detail::running_invocation& of_;
};

/// Within an invocation: the object that it runs on. \throws error(invalid_state) outside one,
/// error(invalid_argument) if the object is no T.
template <class T> mobile_ptr<T> self() {
  const auto& running = mobile::detail::running_invocation::required("tern::self");
  running.check_type(mobile::detail::type_of<T>());
  return mobile_ptr<T>(running.id());
}

/// Is the object on the calling rank at this moment?
template <class T> bool is_here(mobile_ptr<T> object) { return mobile::directory::here().is_here(object.id()); }

} // namespace tern

template <class T> struct std::hash<tern::mobile_ptr<T>> {
  std::size_t operator()(const tern::mobile_ptr<T>& p) const noexcept {
    return std::hash<tern::mobile::object_id>{}(p.id());
  }
};
