// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The exchange of ghost layers between blocks of a regular grid: what a block's neighbours need,
/// and what it needs of them, packed and unpacked on any device by one kernel each.
///
///     class block {                            // an element of the array `all`
///       tern::hetero_object<double, 2> now_;   // cells, and ghost layers around them
///       tern::halo<double, 2> halo_;           // a member: it goes where the block goes
///
///       block(const array& all, const tern::indices<2>& at)
///           : halo_({.cells = {ny, nx}, .grid = {4, 4}, .block = at, .width = 1,
///                    .sides = tern::halo_sides::corners, .periodic = {true, true}}, all),
///             now_(halo_.field_size(), 0.0) {}
///       void give() {                          // what step halo_.step() needs
///         for (const auto& part : halo_.pack(now_))
///           tern::send<&block::take>(part.to<block>(), halo_.step(), part.from, part.cells);
///       }
///       void take(std::int64_t k, int from, tern::hetero_object<double> cells) { // in any order
///         halo_.arrived(k, from, std::move(cells));
///         advance();
///       }
///       void advance() {                       // `begin` calls it too: neighbours may be faster
///         while (begun_ && halo_.step() < steps && halo_.complete(halo_.step())) {
///           halo_.unpack(halo_.step(), now_);
///           tern::submit(stencil, …, tern::read_write(now_)); // waits for the cells
///           give();
///         }
///       }
///     };
///
/// The halo decides nothing: the program says when to pack, send and unpack. It waits for nothing
/// either. Packing and unpacking are tasks, and what has arrived need not have been computed
/// (travel.hpp).
///
/// **Steps** are tags of what is sent, from 0 on. There is room for two of each neighbour: that of
/// `step()`, which is unpacked next, and the one after it, of a neighbour that is ahead. A
/// neighbour needs this block's cells for each step, so it is never further ahead, if all blocks
/// send a step when they have unpacked the one before.
///
/// **Sides** are steps in the grid, as numbers: `halo_part::from` says by which side the neighbour
/// gets a part. In a periodic grid of one block in a dimension a block is its own neighbour, and in
/// one of two blocks its neighbour on both sides. Both are messages like any other.
///
/// Blocks may differ in size, but not along a side that they share; widths do not differ.
///
/// A halo is a value that is part of its block: invocations that change it (`arrived`, `unpack`)
/// are exclusive ones. It is serialized with its block: what has arrived, and was not unpacked, is
/// announced like any member of it, and follows.
///
/// **Errors** name the block, the side and the steps. What throws changes nothing.
///
/// Source: Choi et al. 2021 pack and unpack the six faces of a block in one kernel each.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <tern/base/extents.hpp>
#include <tern/global/halo/halo_kernels.hpp>
#include <tern/global/halo/halo_layout.hpp>
#include <tern/global/travel.hpp>
#include <tern/hetero/hetero_object.hpp>
#include <tern/mobile/object.hpp>

namespace tern {

/// Neighbours beyond which parts of a block it exchanges cells with; each has those before, too. In
/// two dimensions `edges` are the corners; in one there are faces only.
enum class halo_sides : std::uint8_t { faces = 1, edges = 2, corners = 3 };

/// A block in a grid of blocks. Dimensions are in the order of fields: the last runs fastest.
template <int N> struct halo_shape {
  extents<N> cells{};     ///< of the block, without ghost layers
  extents<N> grid{};      ///< blocks
  indices<N> block{};     ///< the place of this one
  std::int64_t width = 1; ///< ghost layers on each side
  halo_sides sides = halo_sides::faces;
  std::array<bool, static_cast<std::size_t>(N)> periodic{}; ///< the last block's neighbour is the first one
};

/// What a neighbour needs.
template <class T> struct halo_part {
  mobile::object_id neighbour;
  int from = 0;         ///< for the neighbour's `arrived`: on which of its sides this block is
  hetero_view<T> cells; ///< a part of what `pack` has written, or will write
  /// \tparam B the class of the pointer that the halo was given.
  template <class B> mobile_ptr<B> to() const noexcept { return mobile_ptr<B>(neighbour); }
};

/// \tparam T float, double or int. \tparam N 1 to 3.
template <class T, int N> class halo {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, int>,
                "halo: elements are float, double or int");
  static_assert(N >= 1 && N <= 3, "halo: a grid has one to three dimensions");

public:
  /// Of no block, until one is assigned, or unpacked.
  halo() = default;
  /// \param neighbours a function, or an array of objects: what gives the pointer to the block at a
  /// place of the grid.
  /// \throws error(invalid_argument) for a width below 1 or beyond the block's cells; for a block
  /// outside of the grid; where a neighbour is null, or one object is two blocks.
  template <class Neighbours>
  requires requires(const Neighbours& n, const indices<N>& at) { n(at).id(); }
  halo(const halo_shape<N>& shape, const Neighbours& neighbours) : layout_(numbers_of(shape)) {
    std::vector<std::uint64_t> objects;
    for (int side = 0; side < global::detail::halo_side_count; ++side) {
      if (!layout_.has(side)) continue;
      const global::detail::halo_place p = layout_.neighbour(side);
      indices<N> at;
      for (std::size_t d = 0; d < N; ++d) at[d] = p[3 - N + d];
      objects.push_back(neighbours(at).id().bits);
    }
    layout_.check_neighbours(objects.data());
    neighbours_ = std::move(objects);
    for (auto& slot : arrived_) slot.resize(neighbours_.size());
  }

  /// Extents of a field: the cells and the ghost layers.
  extents<N> field_size() const noexcept {
    const global::detail::halo_place all = layout_.field_size();
    extents<N> e;
    for (std::size_t d = 0; d < N; ++d) e[d] = all[3 - N + d];
    return e;
  }
  /// The next step to be unpacked; so many have been.
  std::int64_t step() const noexcept { return steps_.step(); }
  /// How many neighbours there are, by side.
  int sides() const noexcept { return layout_.count(); }

  /// Submits a task that copies what the neighbours need into an object of its own. Tasks that are
  /// submitted later may write the field: they wait.
  /// \return a part for each neighbour, to be sent to it with a step.
  /// \throws error(invalid_argument) for a field of other extents than `field_size()`;
  /// error(invalid_state) for a halo of no block.
  std::vector<halo_part<T>> pack(const hetero_view<T, N>& field) const {
    layout_.check_field(field.inside_part(), field.text());
    std::vector<halo_part<T>> parts;
    if (neighbours_.empty()) return parts;
    const hetero_object<T> all(layout_.all_cells());
    global::detail::submit_pack(layout_, field.inside(), field.inside_part(), all);
    parts.reserve(neighbours_.size());
    std::int64_t first = 0;
    for (int side = 0; side < global::detail::halo_side_count; ++side) {
      if (!layout_.has(side)) continue;
      const std::int64_t end = first + layout_.cells_at(side);
      parts.push_back(
          {mobile::object_id(neighbours_[parts.size()]), global::detail::opposite_side(side), all.rows(first, end)});
      first = end;
    }
    return parts;
  }

  /// Takes what a neighbour has sent.
  /// \param from as the neighbour's `pack` said.
  /// \return whether `step()` is complete, by this or before.
  /// \throws error(invalid_argument) for a side where no neighbour is, or another number of cells;
  /// error(invalid_state) for what comes twice, or two steps ahead.
  bool arrived(std::int64_t k, int from, hetero_object<T> cells) {
    steps_.arrived(layout_, k, from, cells ? cells.count() : -1);
    arrived_[global::detail::halo_arrivals::slot(k)][static_cast<std::size_t>(layout_.index_of(from))] =
        std::move(cells);
    return complete(step());
  }
  /// All neighbours' cells of this step have arrived, and were not unpacked. True for `step()` if
  /// there are no neighbours.
  bool complete(std::int64_t k) const noexcept { return steps_.complete(layout_, k); }

  /// Submits a task that copies what has arrived into the field's ghost layers, and goes to the
  /// next step. Where there is no neighbour, ghost layers stay as they are.
  /// \throws error(invalid_state) for another step than `step()`, or one that is not complete;
  /// error(invalid_argument) for a field of other extents than `field_size()`.
  void unpack(std::int64_t k, const hetero_view<T, N>& field) {
    layout_.check_field(field.inside_part(), field.text());
    steps_.check_unpack(layout_, k);
    std::vector<hetero_object<T>>& slot = arrived_[global::detail::halo_arrivals::slot(k)];
    if (!slot.empty())
      global::detail::submit_unpack(layout_, field.inside(), field.inside_part(),
                                    std::span<const hetero_object<T>>(slot));
    for (hetero_object<T>& cells : slot) cells = hetero_object<T>();
    steps_.unpacked();
  }

  template <class A> void serialize(A& ar) { ar(layout_, neighbours_, steps_, arrived_); }

private:
  static global::detail::halo_numbers numbers_of(const halo_shape<N>& shape) {
    global::detail::halo_numbers n;
    n.dimensions = N;
    for (std::size_t d = 0; d < N; ++d) {
      n.cells[3 - N + d] = shape.cells[d];
      n.grid[3 - N + d] = shape.grid[d];
      n.block[3 - N + d] = shape.block[d];
      if (shape.periodic[d]) n.periodic |= static_cast<std::uint8_t>(1u << (3 - N + d));
    }
    n.width = shape.width;
    n.diagonal = static_cast<std::uint8_t>(shape.sides);
    return n;
  }

  global::detail::halo_layout layout_;
  global::detail::halo_arrivals steps_;
  std::vector<std::uint64_t> neighbours_;                ///< objects, by side
  std::array<std::vector<hetero_object<T>>, 2> arrived_; ///< by step % 2 and side
};

} // namespace tern
