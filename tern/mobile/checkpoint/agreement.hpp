// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What ranks do about each other's failures. Internal.

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include <tern/base/error.hpp>
#include <tern/mobile/entry/rank_objects.hpp>

namespace tern::mobile::detail {

/// How something that all ranks did has ended on one of them.
struct verdict {
  std::int32_t rank = -1; ///< where it failed; below 0: nowhere
  std::uint16_t code = 0;
  std::string message, hint, place;
  template <class A> void serialize(A& ar) { ar(rank, code, message, hint, place); }
};

/// Collective. \param mine what went wrong on the calling rank; null: nothing. \return what went
/// wrong on the first rank where anything did, the same on all; nothing: all is well.
std::optional<error> first_failure(const std::exception_ptr& mine);
/// Throws it on all ranks.
void agree(const std::exception_ptr& mine);
/// Calls `f()` on the calling rank if it is for it, and throws on all ranks what it throws.
/// Collective.
template <class F> void together(bool mine, F&& f) {
  std::exception_ptr wrong;
  try {
    if (mine) f();
  } catch (...) {
    wrong = std::current_exception();
  }
  agree(wrong);
}

/// While it lives, no balancer moves objects of the calling rank.
class frozen_objects {
public:
  explicit frozen_objects(rank_objects& all) : all_(all) { all.freeze(true); }
  ~frozen_objects() { all_.freeze(false); }
  frozen_objects(const frozen_objects&) = delete;
  frozen_objects& operator=(const frozen_objects&) = delete;

private:
  rank_objects& all_;
};

/// \throws error(invalid_state) naming it, if something is open on the calling rank that no
/// checkpoint can keep. \param moment before which it must have ended, for the hint.
void check_nothing_open(const std::string& moment);

} // namespace tern::mobile::detail
