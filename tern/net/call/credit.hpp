// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Counting references that travel, without a message for each copy.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tern::net::detail {

/// Weighted reference counting (Bevan 1987; Watson and Watson 1987). All references to one thing
/// together have the weight 1. A copy takes half of its original's weight, and a reference that is
/// destroyed returns its weight to the owner. When 1 has come back, no reference is left anywhere,
/// nor under way. Here a weight is 2^-n and travels as n, so it can be halved as often as needed.
/// See Mattern, "Global quiescence detection based on credit distribution and recovery", 1989. The
/// owner adds up what comes back exactly, as a binary fraction. Not thread-safe.
class returned_credit {
public:
  /// More halvings than this would take a megabyte at the owner. A reference that is copied so
  /// often is copied through its copies instead.
  static constexpr std::uint32_t most_halvings = 1u << 23;

  /// Weight 2^-n has come back. \return false if that is more than there was. \pre n <=
  /// most_halvings
  bool add(std::uint32_t n) {
    while (n > 0) {
      const std::size_t word = n / 64;
      const std::uint64_t bit = std::uint64_t{1} << (n % 64);
      if (word >= fraction_.size()) fraction_.resize(word + 1);
      fraction_[word] ^= bit;
      if (fraction_[word] & bit) return !whole_; // nothing to carry
      --n;
    }
    if (whole_) return false;
    whole_ = true;
    return empty();
  }
  /// All has come back.
  bool whole() const noexcept { return whole_; }

private:
  bool empty() const noexcept {
    for (const std::uint64_t w : fraction_)
      if (w) return false;
    return true;
  }
  std::vector<std::uint64_t> fraction_; // bit n: 2^-n
  bool whole_ = false;
};

} // namespace tern::net::detail
