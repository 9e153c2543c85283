// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a claim of an object is made of. Internal; docs/design/claims.md describes the protocol.

#include <cstdint>
#include <span>

#include <tern/base/archive.hpp>
#include <tern/mobile/message/control.hpp>
#include <tern/mobile/object_id.hpp>

namespace tern::mobile {
struct entry;
}

namespace tern::mobile::detail {

/// A claim that goes with its function to another rank.
struct claim_name {
  object_id id;
  std::uint32_t place = 0; ///< as in claimed_object
  std::uint32_t shared = 0;
};

/// One object of those that are claimed together, as the claimer sees it.
struct claimed_object {
  object_id id;
  const type_record* type = nullptr; ///< that it must be of
  std::uint32_t place = 0;           ///< among the function's objects; 0: the main one
  bool shared = false;               ///< as the function wants it
  // How it is claimed.
  bool own = false;       ///< the caller is an invocation of it
  bool must_move = false; ///< it is to be had alone, so that it can
  bool granted = false;
  claim_grant with{};
  // Where it is, while it is here.
  entry* of = nullptr;
  void* object = nullptr; ///< as a `type`

  action how() const noexcept { return shared && !must_move ? action::share : action::exclude; }
};

/// What runs when all are here.
class claimed_body {
public:
  /// \param objects by their places.
  virtual void run(std::span<void* const> objects) = 0;

protected:
  ~claimed_body() = default;
};

} // namespace tern::mobile::detail

template <> inline constexpr bool tern::is_bitwise<tern::mobile::detail::claim_name> = true;
