// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How arguments become a message, and parameters again. Internal.
///
/// A message is a header and an archive of the arguments, and perhaps a body. A range of bitwise
/// elements (std::span<const T>, buffer<T> or shared_buffer<T>) is its length, doubled, and
///  - its elements, aligned as they need it within the message, so that the handler sees them where they lie; or
///  - plus one, and the elements are the message's body: one range of a message may be.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <tern/base/archive.hpp>
#include <tern/base/conversion/conversion.hpp>
#include <tern/net/buffer.hpp>
#include <tern/net/memory/lent_buffer.hpp>
#include <tern/net/message/node_send.hpp>

namespace tern {

template <> inline constexpr bool is_bitwise<net::wire_header> = true;

namespace net::detail {

/// What a handler's parameter std::span<const T> is until it is called: elements in the message, or
/// their own.
template <class T> struct range_view {
  std::span<const T> elements;
  std::vector<T> copied;                                            // where the message has them badly aligned
  operator std::span<const T>() const noexcept { return elements; } // NOLINT(google-explicit-constructor)
};

// How a handler's parameter travels: by value; a span of constants as a range, or as the vector it
// views.
template <class P> struct travels { using type = std::remove_cvref_t<P>; };
template <class T> struct travels<std::span<const T>> {
  using type = std::conditional_t<tern::detail::bitwise<T>, range_view<T>, std::vector<T>>;
};
template <class T> struct travels<const std::span<const T>&> : travels<std::span<const T>> {};

template <class Stored> struct range_of { static constexpr bool is = false; };
template <class T> struct range_of<range_view<T>> {
  static constexpr bool is = true;
  using element = T;
};
template <class T> struct range_of<buffer<T>> : range_of<range_view<T>> {};
template <class T> struct range_of<shared_buffer<T>> : range_of<range_view<T>> {};

inline constexpr std::size_t small_message = 512;    // is packed on the sender's stack
inline constexpr std::size_t least_body = 16 * 1024; // bytes of a range below which a copy costs less than a transfer

/// A range on its way into a message.
template <class T> class range_out {
public:
  explicit range_out(std::span<const T> elements) noexcept : elements_(elements) {}
  explicit range_out(const lent<T>& l) noexcept : elements_(l.elements), owner_(l.owner), lent_(true) {}
  explicit range_out(const shared_buffer<T>& b) noexcept
      : elements_(b), owner_(buffer_access::owner(b)), lent_(true), constant_(true) {}
  explicit range_out(buffer<T>&& b) noexcept : elements_(b), buffer_(&b) {}
  explicit range_out(std::vector<T>&& v) noexcept : elements_(v), vector_(&v) {}
  /// Of elements that must be converted.
  template <class R> range_out(std::in_place_t, const R& other) : own_(std::begin(other), std::end(other)) {
    elements_ = own_;
  }
  range_out(const range_out&) = delete;

  /// Makes this range the message's body, if it may be and is worth it. \return whether it is.
  bool become_body(byte_buffer& body, std::optional<loan>& owed) {
    if (elements_.size_bytes() < least_body || !(lent_ || buffer_ || vector_)) return false;
    if (lent_) {
      // It is never written to: its lender declares it read-only.
      auto* const first = const_cast<std::byte*>(reinterpret_cast<const std::byte*>(elements_.data()));
      byte_lender* lender = nullptr;
      if (owner_)
        lender = new share_lender(std::move(owner_), constant_);
      else
        lender = &owed.emplace();
      body = byte_buffer::borrow(first, elements_.size_bytes(), *lender);
    } else if (buffer_) {
      body = buffer_access::release(*buffer_);
    } else {
      buffer<T> b(std::move(*vector_));
      body = buffer_access::release(b);
    }
    return in_body_ = true;
  }

  template <class A> void save(A& ar) const {
    ar(static_cast<std::uint64_t>(elements_.size()) << 1 | (in_body_ ? 1u : 0u));
    if (in_body_ || elements_.empty()) return;
    static constexpr std::byte padding[alignof(std::max_align_t)] = {};
    ar.write(padding, -ar.position() % alignof(T));
    ar.write(elements_.data(), elements_.size_bytes());
  }

private:
  std::span<const T> elements_;
  std::shared_ptr<const void> owner_;
  bool lent_ = false, constant_ = false, in_body_ = false;
  buffer<T>* buffer_ = nullptr;
  std::vector<T>* vector_ = nullptr;
  std::vector<T> own_;
};

/// An argument on its way into a message that may become the message's body, as a range does:
/// `bool become_body(byte_buffer& body, std::optional<loan>& owed)`.
template <class X>
concept may_be_body = requires(X& x, byte_buffer& body, std::optional<loan>& owed) {
  { x.become_body(body, owed) } -> std::same_as<bool>;
};

/// How arguments become a parameter of type Stored, if not by conversion. A layer above may
/// specialise it:
///
///     static constexpr bool is = true;
///     template <class A> static auto make(A&& a);     // what is packed; it may be a body (may_be_body)
///     static void load(input_archive& ar, byte_buffer& body, bool& body_used, Stored& x);
///
/// `load` may take the body over: then it sets `body_used`, and throws if that was set.
template <class Stored> struct argument_form { static constexpr bool is = false; };

/// "argument 2 of handler 'solve'"
struct argument_name {
  std::uint32_t handler;
  std::size_t number; ///< from 1
  std::string operator()() const;
};

/// Is a range of other elements copied into a Stored?
template <class Stored, class A>
concept copies_elements = requires(A&& a) {
  Stored(std::begin(a), std::end(a));
}
&&!std::is_convertible_v<A, Stored> && !std::is_same_v<std::remove_cvref_t<A>, Stored>;

template <class A> using element_reference = decltype(*std::begin(std::declval<const std::remove_cvref_t<A>&>()));

/// What an argument loses as a parameter.
template <class Stored, class A> consteval tern::detail::conversion loss() {
  using plain = std::remove_cvref_t<A>;
  if constexpr (argument_form<Stored>::is) {
    return tern::detail::conversion::fine; // it says itself what it takes
  } else if constexpr (range_of<Stored>::is) {
    using element = typename range_of<Stored>::element;
    if constexpr (requires { typename element_reference<A>; })
      return tern::detail::conversion_of<element_reference<A>, element>();
    else
      return tern::detail::conversion::fine;
  } else if constexpr (copies_elements<Stored, A> && requires { typename Stored::value_type; }) {
    return tern::detail::conversion_of<element_reference<plain>, typename Stored::value_type>();
  } else {
    return tern::detail::conversion_of<A, Stored>();
  }
}

/// Says in one line which argument would lose something.
template <class Arguments, class... A> consteval bool accept_arguments() {
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return (tern::detail::accept_argument<I + 1, loss<std::tuple_element_t<I, Arguments>, A>()>() && ...);
  }
  (std::index_sequence_for<A...>{});
}

template <class Element, class R, class Where> void check_elements(const R& elements, const Where& where) {
  if constexpr (tern::detail::may_not_fit<std::remove_cvref_t<element_reference<R>>, Element>())
    for (const auto& one : elements) tern::detail::check_fit<Element>(one, where);
}

// The argument as the parameter's own type: a reference if it is that already, converted otherwise,
// so that call<&f>(r, 3) for f(double) sends a double. \param where names it. \throws
// error(invalid_argument) if it does not fit.
template <class Stored, class A, class Where> decltype(auto) as_stored(A&& a, const Where& where) {
  using plain = std::remove_cvref_t<A>;
  if constexpr (argument_form<Stored>::is) {
    return argument_form<Stored>::make(std::forward<A>(a));
  } else if constexpr (range_of<Stored>::is) {
    using element = typename range_of<Stored>::element;
    constexpr bool moved = !std::is_lvalue_reference_v<A> && !std::is_const_v<A>;
    if constexpr (std::is_same_v<plain, lent<element>> || std::is_same_v<plain, shared_buffer<element>>) {
      return range_out<element>(a);
    } else if constexpr (moved &&
                         (std::is_same_v<plain, buffer<element>> || std::is_same_v<plain, std::vector<element>>)) {
      return range_out<element>(std::forward<A>(a));
    } else if constexpr (std::is_convertible_v<const plain&, std::span<const element>>) {
      return range_out<element>(std::span<const element>(a));
    } else {
      check_elements<element>(a, where);
      return range_out<element>(std::in_place, a);
    }
  } else if constexpr (std::is_same_v<plain, Stored>) {
    if constexpr (!std::is_lvalue_reference_v<A> && requires { a.will_leave(); }) a.will_leave(); // remote_promise
    return std::as_const(a);
  } else if constexpr (copies_elements<Stored, A>) { // a span or range for a vector
    if constexpr (requires { typename Stored::value_type; }) check_elements<typename Stored::value_type>(a, where);
    return Stored(std::begin(a), std::end(a));
  } else {
    tern::detail::check_fit<Stored>(a, where);
    return Stored(std::forward<A>(a));
  }
}

[[noreturn]] void changed_while_packed();

/// Are values of these types one after the other all there is to their archive, and may it stand on
/// the stack?
template <class... T>
inline constexpr bool plain = ((tern::detail::bitwise<std::remove_cvref_t<T>> &&
                                std::is_trivially_copyable_v<std::remove_cvref_t<T>>)&&...);
template <class... T>
inline constexpr std::size_t plain_bytes = (sizeof(std::remove_cvref_t<T>) + ... + std::size_t{0});

/// Packs the values after a header, and sends them.
template <class... T>
requires(plain<T...>&& plain_bytes<T...> <=
         small_message - sizeof(wire_header)) void post_packed(node_send& here, int destination, wire_header h,
                                                               posting how, T&&... x) {
  const auto write_to = [&](std::byte* at) {
    const auto put = [&](const auto& value) {
      std::memcpy(at, &value, sizeof value);
      at += sizeof value;
    };
    put(h);
    (put(x), ...);
  };
  constexpr std::size_t bytes = sizeof h + plain_bytes<T...>;
  if (how.counted && !how.urgent)
    if (std::byte* const at = here.place(destination, h, bytes)) return write_to(at);
  alignas(16) std::array<std::byte, bytes> space;
  write_to(space.data());
  byte_buffer none;
  here.post(destination, std::span<std::byte>(space), none, how);
}
/// The same for a destination that is chosen when all is packed, which may run code of the program,
/// and that may still write to the message: `void post(node_send& here, message, byte_buffer& body,
/// posting how)`, for a message of bytes in a std::span and in a byte_buffer.
template <class Where, class... T>
void post_packed_to(node_send& here, Where&& where, wire_header h, posting how, T&&... x) {
  std::optional<loan> owed; // outlives the body, which may come back if an argument throws
  byte_buffer body;
  packing_undo undo;
  if constexpr ((may_be_body<std::remove_cvref_t<T>> || ...)) {
    const auto try_one = [&](auto& one) {
      if constexpr (may_be_body<std::remove_cvref_t<decltype(one)>>)
        return one.become_body(body, owed);
      else
        return false;
    };
    if ((try_one(x) || ...)) h.flags |= flag_range;
  }
  alignas(16) std::array<std::byte, small_message> space;
  const std::size_t bytes = pack_message_into(std::span(space).subspan(sizeof h), undo, x...);
  if (bytes <= small_message - sizeof h) [[likely]] {
    std::memcpy(space.data(), &h, sizeof h);
    const std::span<std::byte> message = std::span(space).first(sizeof h + bytes);
    where.post(here, message, body, how);
  } else {
    byte_buffer message = here.memory().take(sizeof h + bytes);
    if (pack_message_into(message.bytes().subspan(sizeof h), undo, x...) != bytes) changed_while_packed();
    std::memcpy(message.data(), &h, sizeof h);
    where.post(here, std::move(message), body, how);
  }
  undo.delivered();
  if (owed) here.wait_for(*owed);
}

/// A destination that is known from the beginning.
struct known_rank {
  int rank;
  template <class Message> void post(node_send& here, Message&& message, byte_buffer& body, posting how) const {
    here.post(rank, std::forward<Message>(message), body, how);
  }
};
template <class... T> void post_packed(node_send& here, int destination, wire_header h, posting how, T&&... x) {
  post_packed_to(here, known_rank{destination}, h, how, std::forward<T>(x)...);
}

/// The arguments of a call as its parameters' own types; `first` goes before them.
template <class Arguments, class... First, class... A>
void post_arguments(node_send& here, int destination, const wire_header& h, const std::tuple<First...>& first,
                    A&&... a) {
  [&]<std::size_t... I, std::size_t... J>(std::index_sequence<I...>, std::index_sequence<J...>) {
    post_packed(here, destination, h, {}, std::get<J>(first)...,
                as_stored<std::tuple_element_t<I, Arguments>>(std::forward<A>(a), argument_name{h.handler, I + 1})...);
  }
  (std::index_sequence_for<A...>{}, std::index_sequence_for<First...>{});
}

template <class Arguments, class Where, class... First, class... A>
void post_arguments_to(node_send& here, Where&& where, const wire_header& h, const std::tuple<First...>& first,
                       A&&... a) {
  [&]<std::size_t... I, std::size_t... J>(std::index_sequence<I...>, std::index_sequence<J...>) {
    post_packed_to(
        here, where, h, {}, std::get<J>(first)...,
        as_stored<std::tuple_element_t<I, Arguments>>(std::forward<A>(a), argument_name{h.handler, I + 1})...);
  }
  (std::index_sequence_for<A...>{}, std::index_sequence_for<First...>{});
}

/// The message that `post_arguments` would send, without a body.
template <class Arguments, class... A> byte_buffer pack_call(const wire_header& h, A&&... a) {
  byte_buffer message = [&]<std::size_t... I>(std::index_sequence<I...>) {
    return pack_after(sizeof h, as_stored<std::tuple_element_t<I, Arguments>>(std::forward<A>(a),
                                                                              argument_name{h.handler, I + 1})...);
  }
  (std::index_sequence_for<A...>{});
  std::memcpy(message.data(), &h, sizeof h);
  return message;
}

inline std::span<const std::byte> body_of(const byte_buffer& message) {
  return std::span<const std::byte>(message.data(), message.size()).subspan(sizeof(wire_header));
}

[[noreturn]] void bad_body(std::size_t wanted, std::size_t there);

[[noreturn]] void bad_body_use(bool twice);

// A message that is being unpacked.
struct unpacking {
  payload& message;
  bool body_used = false; // by one of the ranges
};

// The elements of a range that has just been announced to `ar`, and whether they are the body.
template <class T> std::span<const std::byte> load_range(input_archive& ar, unpacking& from, bool& in_body) {
  const payload& message = from.message;
  const auto announced = ar.read_number<std::uint64_t>();
  const std::uint64_t n = announced >> 1;
  in_body = (announced & 1) != 0;
  if (in_body) {
    // Else one parameter could free what another looks at.
    if (std::exchange(from.body_used, true)) bad_body_use(true);
    if (n != message.body.size() / sizeof(T) || message.body.size() % sizeof(T) != 0)
      bad_body(static_cast<std::size_t>(n), message.body.size());
    return message.body.bytes();
  }
  if (n == 0) return {};
  static_cast<void>(ar.take(-ar.position() % alignof(T)));
  if (n > ar.remaining() / sizeof(T)) tern::detail::archive_bad_length(ar.position(), n, sizeof(T), ar.remaining());
  return {ar.take(static_cast<std::size_t>(n) * sizeof(T)), static_cast<std::size_t>(n) * sizeof(T)};
}

template <class T> bool aligned(const std::byte* at) noexcept {
  // address: whether elements can be used where they lie
  return reinterpret_cast<std::uintptr_t>(at) % alignof(T) == 0;
}

template <class T> void load_argument(input_archive& ar, unpacking& from, T& x) {
  if constexpr (argument_form<T>::is)
    argument_form<T>::load(ar, from.message.body, from.body_used, x);
  else
    ar(x);
}
template <class T> void load_argument(input_archive& ar, unpacking& from, range_view<T>& x) {
  bool in_body = false;
  const std::span<const std::byte> bytes = load_range<T>(ar, from, in_body);
  const std::size_t n = bytes.size() / sizeof(T);
  if (aligned<T>(bytes.data())) {
    x.elements = {reinterpret_cast<const T*>(bytes.data()), n};
  } else {
    x.copied.resize(n);
    std::memcpy(x.copied.data(), bytes.data(), bytes.size());
    x.elements = x.copied;
  }
}
template <class T> void load_argument(input_archive& ar, unpacking& from, buffer<T>& x) {
  bool in_body = false;
  const std::span<const std::byte> bytes = load_range<T>(ar, from, in_body);
  if (in_body && from.message.body.writable() && aligned<T>(bytes.data())) {
    x = buffer_access::adopt<T>(std::move(from.message.body));
  } else {
    x = buffer<T>(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(x.data(), bytes.data(), bytes.size());
  }
}

template <class T> void load_argument(input_archive& ar, unpacking& from, shared_buffer<T>& x) {
  bool in_body = false;
  const std::span<const std::byte> bytes = load_range<T>(ar, from, in_body);
  const std::span<const T> elements(reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T));
  byte_buffer& body = from.message.body;
  if (!in_body || !aligned<T>(bytes.data())) {
    buffer<T> own(elements.size());
    if (!bytes.empty()) std::memcpy(own.data(), bytes.data(), bytes.size());
    x = shared_buffer<T>(std::move(own));
  } else if (auto owner = body.share()) {
    x = buffer_access::share(std::move(owner), elements);
    body = {};
  } else if (body.writable()) {
    x = shared_buffer<T>(buffer_access::adopt<T>(std::move(body)));
  } else {
    x = shared_buffer<T>::copy_of(elements); // its lender waits until the handler has ended, or writes to it then
  }
}

template <class Arguments> inline constexpr bool all_plain = false;
template <class... P> inline constexpr bool all_plain<std::tuple<P...>> = plain<P...>;
template <class Arguments> inline constexpr std::size_t all_plain_bytes = 0;
template <class... P> inline constexpr std::size_t all_plain_bytes<std::tuple<P...>> = plain_bytes<P...>;

template <class... P> void read_plain(const std::byte* at, std::tuple<P...>& args) noexcept {
  const auto get = [&](auto& value) {
    std::memcpy(&value, at, sizeof value);
    at += sizeof value;
  };
  std::apply([&](auto&... a) { (get(a), ...); }, args);
}

// What `post_packed` wrote without an archive. \return false if it is not that.
template <class... P> bool load_plain(const payload& message, std::size_t skip, std::tuple<P...>& args) noexcept {
  if constexpr (plain<P...>) {
    skip += sizeof(wire_header);
    if (message.bytes.size() != skip + plain_bytes<P...> || !message.body.empty()) return false;
    read_plain(message.bytes.data() + skip, args);
    return true;
  } else {
    return false;
  }
}

template <class Arguments>
[[gnu::noinline]] void unpack_archive(payload& message, std::size_t skip, Arguments& args, bool discards = false) {
  input_archive ar(body_of(message.bytes), discards);
  static_cast<void>(ar.take(skip));
  unpacking from{message};
  const bool has_body = !message.body.empty();
  std::apply([&](auto&... a) { (load_argument(ar, from, a), ...); }, args);
  ar.finish();
  if (has_body && !from.body_used) [[unlikely]]
    bad_body_use(false);
}

/// A call's arguments, after `skip` bytes of the archive. Ranges may lie in the message, which must
/// stay.
/// \throws error(invalid_data).
template <class Arguments> Arguments unpack_call(payload& message, std::size_t skip = 0) {
  Arguments args;
  if (!load_plain(message, skip, args)) [[unlikely]]
    unpack_archive(message, skip, args);
  return args;
}

/// Nothing will be done with a call's arguments, after `Skip` bytes of the archive. What came with
/// them goes back to where it belongs: a share of a promise, for one. Bytes that are none are
/// ignored.
template <class Arguments, std::size_t Skip> void discard_call(payload& message) noexcept {
  if constexpr (!all_plain<Arguments>) {
    try {
      Arguments args;
      unpack_archive(message, Skip, args, true);
    } catch (...) { // what stands before has been read
    }
  }
  message.body = {};
}

/// Does any parameter look into the message?
template <class Arguments> inline constexpr bool views_message = false;
template <class... P> inline constexpr bool views_message<std::tuple<P...>> = (range_of<P>::is || ...);

} // namespace net::detail
} // namespace tern
