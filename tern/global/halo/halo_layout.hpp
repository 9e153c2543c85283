// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which cells a block and its neighbours have in common, and which of them have come. Internal.
///
/// Dimensions are those of objects: three, of which the last runs fastest; an object of fewer has
/// one cell in the first ones, and no ghost layers there. A side is a step to a neighbour, -1, 0 or
/// 1 in each dimension, as a number: 13 and 9, 3 and 1 times its parts. 13 is no step, and the
/// other end of side s is 26 - s.

#include <array>
#include <cstdint>
#include <string>

#include <tern/hetero/hetero_object.hpp>

namespace tern::global::detail {

inline constexpr int halo_side_count = 27;
inline constexpr int opposite_side(int side) noexcept { return halo_side_count - 1 - side; }
using halo_place = std::array<std::int64_t, 3>;
inline constexpr halo_place step_to(int side) noexcept { return {side / 9 - 1, side / 3 % 3 - 1, side % 3 - 1}; }

/// What a program says of a halo.
struct halo_numbers {
  int dimensions = 0; ///< 0: it has said nothing
  halo_place cells{1, 1, 1}, grid{1, 1, 1}, block{0, 0, 0};
  std::int64_t width = 0;
  std::uint8_t diagonal = 0; ///< in how many dimensions at once neighbours may be apart
  std::uint8_t periodic = 0; ///< a bit for each dimension
  template <class A> void serialize(A& ar) { ar(dimensions, cells, grid, block, width, diagonal, periodic); }
};

class halo_layout {
public:
  halo_layout() = default;
  /// \throws error(invalid_argument) for what cannot be.
  explicit halo_layout(const halo_numbers& n);

  const halo_numbers& numbers() const noexcept { return n_; }
  /// A bit for each side with a neighbour.
  std::uint32_t sides() const noexcept { return sides_; }
  int count() const noexcept; ///< of them
  bool has(int side) const noexcept { return side >= 0 && side < halo_side_count && (sides_ >> side & 1) != 0; }
  /// How many sides with a neighbour have lower numbers.
  int index_of(int side) const noexcept;
  halo_place neighbour(int side) const noexcept;
  /// Of a field, with ghost layers.
  halo_place field_size() const noexcept;
  std::int64_t width(std::size_t d) const noexcept { return static_cast<int>(d) >= 3 - n_.dimensions ? n_.width : 0; }
  /// How many cells one side needs of the other.
  std::int64_t cells_at(int side) const noexcept;
  std::int64_t all_cells() const noexcept; ///< of all sides

  /// "the halo of block (1, 0) of 2 x 4"
  std::string text() const;
  /// "side (0, -1)"
  std::string side_text(int side) const;
  std::string place_text(const halo_place& p, const char* separator = ", ") const;

  /// \throws error(invalid_state) for a halo of no block.
  void check_made() const;
  /// \throws error(invalid_argument) for a field of other extents.
  void check_field(const hetero::detail::box& part, const std::string& field) const;
  /// What the grid says of neighbours, and they of it: all are there, and those of two places are
  /// two. \param objects by index of side. \throws error(invalid_argument)
  void check_neighbours(const std::uint64_t* objects) const;

  template <class A> void serialize(A& ar) { ar(n_, sides_); }

private:
  halo_numbers n_;
  std::uint32_t sides_ = 0;
};

/// What has come, by steps, of which there are two at a time: the next one to be unpacked, and that
/// of neighbours that are ahead.
class halo_arrivals {
public:
  std::int64_t step() const noexcept { return step_; }
  /// Notes what has come, unless that throws. \param cells -1: no object.
  /// \throws error(invalid_argument), error(invalid_state)
  void arrived(const halo_layout& of, std::int64_t k, int from, std::int64_t cells);
  bool complete(const halo_layout& of, std::int64_t k) const noexcept {
    return of.numbers().dimensions > 0 && (k == step_ || k == step_ + 1) && there_[slot(k)] == of.sides();
  }
  /// \throws error(invalid_state) where k is not complete, or not the next.
  void check_unpack(const halo_layout& of, std::int64_t k) const;
  /// The next step begins.
  void unpacked() noexcept { there_[slot(step_++)] = 0; }
  static std::size_t slot(std::int64_t k) noexcept { return static_cast<std::size_t>(k % 2); }

  template <class A> void serialize(A& ar) { ar(step_, there_); }

private:
  std::int64_t step_ = 0;
  std::array<std::uint32_t, 2> there_{0, 0}; ///< by step % 2, a bit for each side
};

} // namespace tern::global::detail
