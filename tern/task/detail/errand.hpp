// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What an event source does in the fiber that worker 0 keeps for it (`event_source::in_fiber`). Internal to Tern's
/// layers.

#include <array>
#include <cstddef>

namespace tern::detail {

struct fiber;

/// A fiber's name as a fiber keeps it: copied as one piece.
using fiber_name = std::array<char, 48>;

/// One piece of work: while it lives the calling fiber is, to everybody who looks, a fiber of its own: it has a number
/// that no other has had, a name, its own `fiber_local`s, and an end. May be destroyed on another worker than it began
/// on, if it waited.
class errand {
public:
  /// \pre in `event_source::in_fiber`, and `stays()`.
  explicit errand(const fiber_name& name) noexcept;
  ~errand();
  errand(const errand&) = delete;
  errand& operator=(const errand&) = delete;

  /// Does the calling context still work for worker 0's events? No longer after it has waited and gone on elsewhere, or
  /// after another fiber has taken its place: then it returns from `in_fiber`.
  static bool stays() noexcept;

private:
  fiber* const self_;
};

} // namespace tern::detail
