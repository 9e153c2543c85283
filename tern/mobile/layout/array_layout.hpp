// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which numbers the elements of an array have. Internal.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tern/mobile/layout/array_mapping.hpp>
#include <tern/mobile/object_id.hpp>

namespace tern::mobile::detail {

/// Divides by a number that is known before: a product in place of a division, which takes five
/// times as long.
class divisor {
public:
  divisor() noexcept = default;
  explicit divisor(std::uint64_t by) noexcept : by_(by), inverse_(by > 1 ? ~std::uint64_t{0} / by : 0) {}
  std::uint64_t value() const noexcept { return by_; }
  struct result {
    std::uint64_t quotient, rest;
  };
  /// \pre x < 2^63
  result operator()(std::uint64_t x) const noexcept {
    if (by_ == 1) return {x, 0};
    // The product is less than one too small.
    __extension__ using wide = unsigned __int128;
    std::uint64_t q = static_cast<std::uint64_t>(static_cast<wide>(x) * inverse_ >> 64);
    std::uint64_t r = x - q * by_;
    while (r >= by_) ++q, r -= by_;
    return {q, r};
  }

private:
  std::uint64_t by_ = 1, inverse_ = 0;
};

/// What an array is, the same on all ranks.
struct array_plan {
  std::uint64_t id = 0; ///< the rank that made it (24 bits) and a number there (40)
  std::int32_t dimensions = 1;
  std::array<std::int64_t, 3> size{1, 1, 1}; ///< the dimensions that it lacks: 1
  bool sparse = false;
  array_mapping mapping;
  std::string name, type; ///< of the elements' class
  template <class A> void serialize(A& ar) { ar(id, dimensions, size, sparse, mapping, name, type); }
};

/// Gives each place in an array its number in order (its *linear index*), its home and its object's
/// id, at no message. Each home has reserved numbers that follow each other,
/// one for each element that may be born there; with a mapping of the program's own, one for each
/// element of the array.
///
/// Immutable once `place_at` has been called, and thread-safe then.
class array_layout {
public:
  /// \throws error(invalid_argument) for extents below 1, too many elements, or a mapping for
  /// another number of dimensions.
  array_layout(array_plan plan, int ranks);

  const array_plan& plan() const noexcept { return plan_; }
  int ranks() const noexcept { return static_cast<int>(ranks_.value()); }
  std::int64_t total() const noexcept { return total_; }
  bool is_own() const noexcept { return plan_.mapping.what() == array_mapping::kind::own; }

  /// The place's linear index. \throws error(invalid_argument) that names array, index and extents
  /// if it is outside.
  template <class... I> std::int64_t linear(I... i) const {
    std::int64_t at = 0;
    bool inside = true;
    std::size_t d = 0;
    const auto step = [&](std::int64_t x) {
      inside &= static_cast<std::uint64_t>(x) < static_cast<std::uint64_t>(size_[d]);
      at = at * size_[d] + x;
      ++d;
    };
    (step(static_cast<std::int64_t>(i)), ...);
    if (!inside) [[unlikely]]
      outside({static_cast<std::int64_t>(i)...});
    return at;
  }
  /// \pre 0 <= linear < total()
  std::array<std::int64_t, 3> index_of(std::int64_t linear) const noexcept;

  struct place {
    int home;
    std::uint64_t number; ///< among those of that home, from 0
  };
  /// \throws error(invalid_argument) if a mapping of the program's own gives no rank.
  place place_of(std::int64_t linear) const {
    const auto at = static_cast<std::uint64_t>(linear);
    if (kind_ == array_mapping::kind::block) [[likely]] {
      const bool first = at < larger_; // of the homes, which have one more
      const auto [home, number] = first ? large_(at) : small_(at - larger_);
      return {static_cast<int>(home) + (first ? 0 : more_), number};
    }
    if (kind_ == array_mapping::kind::cyclic) {
      const auto [number, home] = ranks_(at);
      return {static_cast<int>(home), number};
    }
    return {own_home(linear), at};
  }
  /// \pre `place_at`
  object_id id_of(std::int64_t linear) const {
    const place p = place_of(linear);
    return object_id(first_ids_[static_cast<std::size_t>(p.home)].bits + p.number);
  }
  /// The element's linear index, if it is one of this array's. \pre `place_at`
  std::optional<std::int64_t> linear_of(object_id id) const noexcept;

  /// How many numbers a home reserves.
  std::uint64_t numbers_of(int home) const noexcept;
  /// Of the elements that a home has: the first, and what is between two. \pre !is_own()
  struct range {
    std::int64_t first, step, count;
  };
  range range_of(int home) const noexcept;
  /// The first number on each rank, as given to `place_at`.
  std::vector<std::uint64_t> firsts() const;
  /// The first number on each rank.
  void place_at(const std::vector<std::uint64_t>& firsts);

  /// "'grid'", or "array 0:3" for one without a name.
  std::string title() const;
  /// "(3, 7)".
  std::string text_of(std::int64_t linear) const;
  /// "block(3, 7) of 'grid'".
  std::string describe(std::int64_t linear) const { return plan_.type + text_of(linear) + " of " + title(); }
  /// "16 x 16".
  std::string size_text() const;

private:
  [[noreturn]] void outside(std::initializer_list<std::int64_t> index) const;
  int own_home(std::int64_t linear) const;

  // What each use of an element needs, together.
  std::array<std::int64_t, 3> size_;
  array_mapping::kind kind_;
  int more_ = 0;             // so many homes have one more
  std::uint64_t larger_ = 0; // elements on those
  divisor large_, small_;    // elements of such a home, and of another
  std::vector<object_id> first_ids_;
  const divisor ranks_;
  std::int64_t total_ = 1;
  const array_plan plan_;
};

} // namespace tern::mobile::detail
