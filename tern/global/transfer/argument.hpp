// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// An object on its way into a message, and out of it. Internal.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <tern/base/archive.hpp>
#include <tern/global/transfer/descriptor.hpp>
#include <tern/hetero/hetero_object.hpp>
#include <tern/net/memory/lent_buffer.hpp>

namespace tern::global::detail {

class departure;

/// What is the same for all elements. Its object's reader takes its place in the order when the
/// elements are first asked for: in `become_body`, or where the archive is written.
class packed_object {
public:
  /// \param handle taken over; null: there is no object.
  packed_object(hetero::detail::object_state* handle, const hetero::detail::box& part, const element_type& of,
                bool gives);
  ~packed_object();
  packed_object(packed_object&& other) noexcept;
  packed_object& operator=(packed_object&&) = delete;

  /// Makes the elements the message's body, if they are large enough, and here. \return whether
  /// they are.
  bool become_body(byte_buffer& body, std::optional<net::detail::loan>& owed);
  void count(size_archive& ar) const;
  void write(output_archive& ar) const;

private:
  void begin() const;
  void store(output_archive& ar, descriptor d) const;
  hetero::detail::box part_;
  element_type of_;
  std::size_t bytes_ = 0;
  bool any_, gives_ = false, fits_inside_ = false, in_body_ = false;
  mutable hetero::detail::object_state* handle_; ///< until the departure has it
  mutable std::shared_ptr<departure> leaves_;
};

template <class T, int N> class argument {
public:
  argument(hetero_view<T, N> view, bool gives)
      : object_(view.release_handle(), view.inside_part(), element_of<T, N>(), gives) {}
  bool become_body(byte_buffer& body, std::optional<net::detail::loan>& owed) {
    return object_.become_body(body, owed);
  }
  template <class A> void save(A& ar) const {
    if constexpr (std::is_same_v<A, size_archive>)
      object_.count(ar);
    else
      object_.write(ar);
  }

private:
  packed_object object_;
};

/// Reads a descriptor. \param body of the message; null: it cannot be that. \return an object with
/// one handle, for the caller; null: there is none. \throws error(invalid_data).
hetero::detail::object_state* load_object(input_archive& ar, byte_buffer* body, bool* body_used,
                                          const element_type& wanted, const char* type);

template <class T, int N> void load(input_archive& ar, byte_buffer* body, bool* body_used, hetero_object<T, N>& x) {
  x = hetero_object<T, N>::from_handle(
      load_object(ar, body, body_used, element_of<T, N>(), hetero::detail::name_of_element<T>()));
}

} // namespace tern::global::detail
