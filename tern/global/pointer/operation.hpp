// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What operations on global pointers are made of. Internal.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <source_location>
#include <utility>

#include <tern/global/pointer/global_place.hpp>
#include <tern/global/transfer/descriptor.hpp>
#include <tern/hetero/access.hpp>
#include <tern/task/future.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern {
enum class accumulation : std::uint8_t;
}

namespace tern::global::detail {

/// An operation that has been announced. Any thread.
class operation {
public:
  /// Ready when it is over. From now on its failure counts as seen.
  shared_future<void> done();
  /// Once. \param why null: all went well.
  void end(std::exception_ptr why) noexcept;
  /// The program learns of its failure in another way.
  void mark_seen() noexcept;
  /// Has a program asked how it ended?
  bool seen() const noexcept;

private:
  mutable tern::detail::spin_lock guard_;
  bool over_ = false, seen_ = false;
  std::exception_ptr failure_;
  std::optional<promise<void>> promise_; ///< once it is asked for
  shared_future<void> future_;
};

/// A part of an object of this rank. Owns a handle.
class local_part {
public:
  local_part(hetero::detail::object_state* handle, const hetero::detail::box& where, const element_type& of,
             bool gives) noexcept
      : part(where), element(of), given(gives), handle_(handle) {}
  local_part(local_part&& other) noexcept
      : part(other.part), element(other.element), given(other.given), handle_(std::exchange(other.handle_, nullptr)) {}
  local_part& operator=(local_part&&) = delete;
  ~local_part() {
    if (handle_) hetero::detail::drop_handle(handle_);
  }
  hetero::detail::object_state* release() noexcept { return std::exchange(handle_, nullptr); }
  hetero::detail::object_state* handle() const noexcept { return handle_; }
  std::size_t bytes() const noexcept { return static_cast<std::size_t>(part.size()) * element.bytes; }

  const hetero::detail::box part;
  const element_type element;
  const bool given;

private:
  hetero::detail::object_state* handle_;
};

/// Throws what `put` and the others say of arguments that do not go together. \param what it is:
/// "put".
void check_part_for(const char* what, const hetero::detail::object_state* mine, const hetero::detail::box& part,
                    const element_type& of, const global_place& place, const element_type& named);

std::shared_ptr<operation> begin_put(local_part source, const global_place& to);
std::shared_ptr<operation> begin_get(local_part target, const global_place& from);
/// \return a handle.
hetero::detail::object_state* begin_get_new(const element_type& of, const char* type, const global_place& from);
std::shared_ptr<operation> begin_accumulate(local_part source, const global_place& to, accumulation how, bool in_order);
hetero::detail::object_state* begin_fetch_accumulate(local_part source, const char* type, const global_place& to,
                                                     accumulation how);

/// Owns an entry in the table of exports of its rank.
class export_entry {
public:
  export_entry() = default;
  explicit export_entry(const global_place& p) noexcept : place_(p) {}
  export_entry(export_entry&& other) noexcept : place_(std::exchange(other.place_, {})) {}
  export_entry& operator=(export_entry&& other) noexcept {
    std::swap(place_, other.place_);
    return *this;
  }
  ~export_entry();
  const global_place& place() const noexcept { return place_; }

private:
  global_place place_;
};
/// \param handle taken over.
export_entry enter_export(hetero::detail::object_state* handle, const hetero::detail::box& part, const element_type& of,
                          std::source_location where);

} // namespace tern::global::detail
