// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// One function over several objects, with its types. Internal; programs use together.hpp.

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <tern/mobile/object.hpp>
#include <tern/mobile/together/together_call.hpp>
#include <tern/net/message.hpp>
#include <tern/task/future.hpp>

namespace tern::mobile::detail {

template <class M, class U, class R, class... P> struct together_types : net::detail::signature<R, P...> {
  using main = std::remove_const_t<M>;
  using other = std::remove_const_t<U>;
  using other_pointer = U*;
  static constexpr bool shares_main = std::is_const_v<M>, shares_others = std::is_const_v<U>;
  static constexpr bool fits = true;
};
/// No function over several objects.
struct no_together_types : net::detail::signature<void> {
  using main = void;
  using other = void;
  static constexpr bool fits = false;
};
template <class F> struct together_signature : no_together_types {};
template <class R, class M, class U, class... P>
struct together_signature<R (*)(M&, std::span<U* const>, P...)> : together_types<M, U, R, P...> {};
template <class R, class M, class U, class... P>
struct together_signature<R (*)(M&, std::span<U* const>, P...) noexcept> : together_types<M, U, R, P...> {};
template <class R, class M, class U, class... P>
struct together_signature<R (M::*)(std::span<U* const>, P...)> : together_types<M, U, R, P...> {};
template <class R, class M, class U, class... P>
struct together_signature<R (M::*)(std::span<U* const>, P...) noexcept> : together_types<M, U, R, P...> {};
template <class R, class M, class U, class... P>
struct together_signature<R (M::*)(std::span<U* const>, P...) const> : together_types<const M, U, R, P...> {};
template <class R, class M, class U, class... P>
struct together_signature<R (M::*)(std::span<U* const>, P...) const noexcept> : together_types<const M, U, R, P...> {};
template <class L>
requires std::is_class_v<L> && requires { typename call_operator<decltype(&L::operator())>::function; }
struct together_signature<L> : together_signature<typename call_operator<decltype(&L::operator())>::function> {};

template <auto F> using together_of = together_signature<std::remove_cvref_t<decltype(F)>>;
template <auto F> using together_main = typename together_of<F>::main;
template <auto F> using together_other = typename together_of<F>::other;
template <auto F> using together_result = typename together_of<F>::result;

// Says in one line what is wrong; the caller compiles nothing further then.
template <auto F, class... A> consteval bool check_together() {
  using sig = together_of<F>;
  static_assert(sig::fits, "a function over several objects takes the main one and the others first: "
                           "R f(T& main, std::span<U* const> others, args...), or it is a member of T");
  static_assert(!sig::fits || sig::travels_well, "its parameters travel by value: use values or const references, "
                                                 "no pointers and no non-const references");
  static_assert(!sig::has_futures, "a future cannot travel: wait for it and send its value");
  static_assert(!sig::fits || sizeof...(A) == sig::arity,
                "the number of arguments differs from the function's parameters");
  if constexpr (sig::fits && sig::travels_well && !sig::has_futures && sizeof...(A) == sig::arity)
    return net::detail::accept_arguments<typename sig::arguments, A...>();
  else
    return false;
}

/// How an argument is kept until it is known where the function runs: a range is copied, or moved.
template <class Stored> struct kept_argument { using type = Stored; };
template <class T> struct kept_argument<net::detail::range_view<T>> { using type = std::vector<T>; };
template <class Arguments> struct kept_arguments;
template <class... S> struct kept_arguments<std::tuple<S...>> {
  using type = std::tuple<typename kept_argument<S>::type...>;
};

template <class Stored, class A> typename kept_argument<Stored>::type keep_argument(A&& a, const auto& where) {
  using kept = typename kept_argument<Stored>::type;
  if constexpr (std::is_same_v<std::remove_cvref_t<A>, kept>) {
    return std::forward<A>(a);
  } else if constexpr (net::detail::range_of<Stored>::is) {
    using element = typename net::detail::range_of<Stored>::element;
    if constexpr (std::is_same_v<std::remove_cvref_t<A>, net::detail::lent<element>>) {
      return kept(std::vector<element>(a.elements.begin(), a.elements.end()));
    } else {
      net::detail::check_elements<element>(a, where);
      std::vector<element> copied(std::begin(a), std::end(a));
      if constexpr (std::is_same_v<kept, std::vector<element>>)
        return copied;
      else
        return kept(buffer<element>(std::move(copied)));
    }
  } else {
    return net::detail::as_stored<Stored>(std::forward<A>(a), where);
  }
}

template <auto F>
void take_together(net::node& here, int source, const net::wire_header& header, net::payload& message);
template <auto F>
inline const net::handler_record together_handler{typeid(std::pair<net::detail::handler_tag<F>, claim_name>),
                                                  net::detail::signature_of<F>(), TERN_THIS_FILE, &take_together<F>};

/// Calls F. \param args a tuple of its arguments, in whatever form.
template <auto F, class Arguments>
together_result<F> call_with_objects(std::span<void* const> objects, Arguments&& args) {
  using sig = together_of<F>;
  using pointer = typename sig::other_pointer;
  constexpr std::size_t few = 26; // a block's neighbours in three dimensions
  std::array<pointer, few> space{};
  std::vector<pointer> more;
  const std::size_t n = objects.size() - 1;
  if (n > few) more.resize(n);
  const std::span<pointer> others = n > few ? std::span<pointer>(more) : std::span<pointer>(space).first(n);
  for (std::size_t i = 0; i < n; ++i) others[i] = static_cast<typename sig::other*>(objects[i + 1]);
  return std::apply(
      [&](auto&&... a) -> together_result<F> {
        return std::invoke(F, *static_cast<typename sig::main*>(objects[0]), std::span<const pointer>(others),
                           std::forward<decltype(a)>(a)...);
      },
      std::forward<Arguments>(args));
}

template <auto F>
void run_together(net::node& here, int source, const net::wire_header& header, net::payload& message) {
  using sig = together_of<F>;
  using result = typename sig::result;
  std::string what = "'" + together_handler<F>.name() + "'";
  const net::detail::handler_frame sent(source);
  net::detail::answer<result>(
      here, source, header, [&] { return what; },
      [&]() -> result {
        arrived_claims claims(here, message); // are let go before the caller hears of it
        what = claims.describe(together_handler<F>.name(), type_of<typename sig::main>());
        auto all = [&]<class... S>(std::tuple<S...>*) {
          return net::detail::unpack_call<std::tuple<std::vector<claim_name>, S...>>(message);
        }(static_cast<typename sig::arguments*>(nullptr));
        auto args = std::apply([](auto&, auto&... a) { return std::forward_as_tuple(std::move(a)...); }, all);
        if constexpr (std::is_void_v<result>) {
          claims.run(type_of<typename sig::main>(), type_of<typename sig::other>(),
                     [&](std::span<void* const> objects) { call_with_objects<F>(objects, std::move(args)); });
        } else {
          std::optional<result> value;
          claims.run(
              type_of<typename sig::main>(), type_of<typename sig::other>(),
              [&](std::span<void* const> objects) { value.emplace(call_with_objects<F>(objects, std::move(args))); });
          return std::move(*value);
        }
      });
}
template <auto F>
void take_together(net::node& here, int source, const net::wire_header& header, net::payload& message) {
  here.run_handler(&run_together<F>, source, header, message, together_handler<F>.name());
}

/// The result's state. Asks before a fiber waits that runs an invocation of one of the objects.
template <class R> class together_state : public tern::detail::future_state<R> {
public:
  explicit together_state(const std::source_location& made) : tern::detail::future_state<R>(2, made) {}
  void expect(std::vector<object_id> objects, const std::string& name) {
    objects_ = std::move(objects);
    name_ = &name;
    this->ask_before_waits();
  }

private:
  void before_wait() const override { expect_claims(objects_, *name_, this->made()); }
  std::vector<object_id> objects_;
  const std::string* name_ = nullptr; // of a handler
};

/// It is the result's state, too: so both take memory once.
template <auto F> class typed_call final : public together_call, public together_state<together_result<F>> {
public:
  using sig = together_of<F>;
  using result = typename sig::result;

  template <class... A>
  typed_call(net::node& here, std::size_t objects, A&&... args)
      : together_call(here, objects), together_state<result>(std::source_location::current()), here_(here),
        arguments_(keep(std::index_sequence_for<A...>{}, std::forward<A>(args)...)) {}
  /// Once.
  future<result> get_future() { return tern::detail::future_access::make<result>(this); }

  const std::string& name() const override { return together_handler<F>.name(); }
  void run(std::span<void* const> objects) override {
    if constexpr (std::is_void_v<result>) {
      call_with_objects<F>(objects, std::move(*arguments_));
      this->store();
    } else {
      this->store(call_with_objects<F>(objects, std::move(*arguments_)));
    }
  }
  void post_to(int where, std::span<const claim_name> claims) override {
    const std::vector<claim_name> names(claims.begin(), claims.end());
    remote_ = net::detail::post_call<result>(here_, where, [&](std::uint64_t reply) {
      std::apply(
          [&](auto&... a) {
            net::detail::post_arguments<typename sig::arguments>(here_, where, {together_handler<F>.id(), 0, reply},
                                                                 std::tuple<const std::vector<claim_name>&>(names),
                                                                 std::move(a)...);
          },
          *arguments_);
    });
  }
  void wait() override {
    if constexpr (std::is_void_v<result>) {
      remote_.get();
      this->store();
    } else {
      this->store(remote_.get());
    }
  }
  void failed(std::exception_ptr why) noexcept override { this->store_exception(std::move(why)); }
  void publish() noexcept override {
    arguments_.reset(); // before the caller hears of it: they may refer to something
    tern::detail::future_state_base::publish();
  }
  void drop() noexcept override {
    this->abandon();
    this->release(); // as its future does
  }

private:
  template <std::size_t... I, class... A> static auto keep(std::index_sequence<I...>, A&&... args) {
    return typename kept_arguments<typename sig::arguments>::type(
        keep_argument<std::tuple_element_t<I, typename sig::arguments>>(
            std::forward<A>(args), net::detail::argument_name{together_handler<F>.id(), I + 1})...);
  }

  net::node& here_;
  std::optional<typename kept_arguments<typename sig::arguments>::type> arguments_;
  future<result> remote_;
};

template <auto F, class Others, class... A>
future<together_result<F>> start_typed(mobile_ptr<together_main<F>> main, const Others& others, A&&... args) {
  using sig = together_of<F>;
  net::node& here = net::node::here();
  auto* const call = new typed_call<F>(here, 1 + others.size(), std::forward<A>(args)...);
  together_ref owned(call);
  auto result = call->get_future();
  call->add(main.id(), type_of<typename sig::main>(), sig::shares_main);
  for (const auto& one : others) call->add(one.id(), type_of<typename sig::other>(), sig::shares_others);
  if (const auto* const frame = running_invocation::here()) [[unlikely]]
    for (const claimed_object& c : call->objects())
      if (frame->is_of(c.id)) {
        std::vector<object_id> ids;
        for (const claimed_object& one : call->objects()) ids.push_back(one.id);
        call->expect(std::move(ids), call->name());
        break;
      }
  start_together(std::move(owned));
  return result;
}

} // namespace tern::mobile::detail
