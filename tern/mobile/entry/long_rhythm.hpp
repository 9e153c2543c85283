// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// After how many quick invocations of an object a long one comes. Internal.

#include <algorithm>
#include <cstdint>

namespace tern::mobile::detail {

/// Counts the quick invocations of one object since its last long one, and remembers how many there
/// usually are. An object that counts its inputs down computes at the last one, so its next
/// invocation can be told from its place in this rhythm. One thread at a time.
class long_rhythm {
public:
  static constexpr int places = 16; ///< that are told apart
  static constexpr int due = 8;     ///< the place at which the next long invocation is usual
  static constexpr int unknown = -1;
  static constexpr std::uint8_t no_gap = 255;

  long_rhythm() noexcept = default;
  /// As packed by `gap` and `since`.
  long_rhythm(std::uint8_t gap, std::uint16_t since) noexcept
      : gap_(gap == no_gap ? -1.0F : static_cast<float>(gap)), since_(since) {}

  /// The place of the next invocation: `due` less the quick ones that are still to come, as far as
  /// known. `unknown` before the first long one.
  int place() const noexcept {
    if (gap_ < 0) return unknown;
    return rounded(std::clamp(static_cast<float>(since_) - gap_ + due, 0.0F, places - 1.0F));
  }
  /// An invocation has ended.
  void ran(bool was_long) noexcept {
    if (!was_long) {
      if (since_ < UINT16_MAX) ++since_;
      return;
    }
    const auto now = static_cast<float>(since_);
    gap_ = gap_ < 0 ? now : gap_ + (now - gap_) / 4;
    since_ = 0;
  }
  /// What travels with the object.
  std::uint8_t gap() const noexcept {
    return gap_ < 0 ? no_gap : static_cast<std::uint8_t>(rounded(std::min(gap_, no_gap - 1.0F)));
  }
  std::uint16_t since() const noexcept { return since_; }

private:
  /// \pre not negative. <cmath> would cost each user of objects a tenth of a second.
  static constexpr int rounded(float x) noexcept { return static_cast<int>(x + 0.5F); }
  float gap_ = -1; ///< quick invocations between two long ones, lately; negative: not known
  std::uint16_t since_ = 0;
};

} // namespace tern::mobile::detail
