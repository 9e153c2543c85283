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
#include <tern/hetero/devices.hpp>
#include <tern/hetero/hetero_object.hpp>
#include <tern/net/memory/lent_buffer.hpp>

namespace tern::global::detail {

class departure;

/// What is the same for all elements. Its object's reader takes its place in the order when the
/// elements are first asked for: in `become_body`, or where the archive is written. What can leave
/// in the moment (passage/at_once.hpp) has no reader.
class packed_object {
public:
  /// \param handle taken over; null: there is no object. \param encodes null: what the job says.
  packed_object(hetero::detail::object_state* handle, const hetero::detail::box& part, const element_type& of,
                bool gives, std::shared_ptr<const codec> encodes = nullptr);
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
  void begin_on_device() const;
  void store(output_archive& ar, descriptor d) const;
  bool has_become_body(const byte_buffer& body);
  bool copies_at_once(std::byte* to) const;
  void follow(descriptor& d, output_archive& ar) const;
  hetero::detail::box part_;
  element_type of_;
  std::shared_ptr<const codec> codec_;
  std::size_t bytes_ = 0;
  std::uint64_t sum_ = 0;                                        ///< of the body, if it is verified
  mutable hetero::device_kind kind_ = hetero::device_kind::host; ///< of the device that has the elements
  mutable int rate_ = 0;                                         ///< at which kernels encode them; 0: they do not
  bool any_, gives_ = false, fits_inside_ = false, in_body_ = false;
  mutable hetero::detail::object_state* handle_; ///< until the departure has it
  mutable std::shared_ptr<departure> leaves_;
};

/// A part of it is to be sent next: waits for a moment if much is on its way, or for its data if
/// none may be ahead of them (`--tern-global-ahead`). In a fiber; else it does nothing.
void about_to_send(hetero::detail::object_state& o, const hetero::detail::box& part);

template <class T, int N> class argument {
public:
  argument(hetero_view<T, N> view, bool gives, std::shared_ptr<const codec> encodes = nullptr)
      : object_(view.release_handle(), view.inside_part(), element_of<T, N>(), gives, std::move(encodes)) {}
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
