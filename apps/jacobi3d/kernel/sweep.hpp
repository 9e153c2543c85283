// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The kernels of a block: one iteration, and what it has changed.

#include "apps/jacobi3d/grid/problem.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include <tern/hetero/devices.hpp>
#include <tern/hetero/hetero_task.hpp>

namespace jacobi3d {

/// A block's cells: one behind the other, x fastest. Kernels look at a cell before the first and
/// behind the last one, whatever is there: so there is room at both ends.
inline constexpr std::int64_t field_pad = 8;
template <class T> using field = tern::hetero_object<T>;
template <class T> using faces = std::array<tern::hetero_object<T>, side_count>; ///< by side

/// Where kernels run: any device, or those of a kind.
using where = std::optional<tern::hetero::device_kind>;

/// How cells lie in a field: cell (x, y, z) of the block at start + z plane + y row + x.
struct layout {
  std::int64_t start = field_pad, row = 0, plane = 0, room = 0;
  /// \param n of the block. \param around layers of cells around it that the field has, too.
  static layout of(const cells& n, std::int64_t around) noexcept {
    layout l;
    l.row = n[0] + 2 * around;
    l.plane = l.row * (n[1] + 2 * around);
    l.start = field_pad + around * (l.plane + l.row + 1);
    l.room = l.plane * (n[2] + 2 * around) + 2 * field_pad;
    return l;
  }
  std::int64_t at(std::int64_t x, std::int64_t y, std::int64_t z) const noexcept {
    return start + z * plane + y * row + x;
  }
};
/// Cells from `low` up to before `high`, in the numbers of a block: what is around it has numbers
/// below 0, or from its size on.
struct cell_box {
  cells low{}, high{};
  cells size() const noexcept { return {high[0] - low[0], high[1] - low[1], high[2] - low[2]}; }
};

struct sweep_numbers {
  cells n;                ///< of the block
  double alpha = 0;       ///< weight of a cell itself; (1 - alpha) / 6 of each neighbour
  unsigned out_sides = 0; ///< bit s: the layer of side s goes to `out[s]`
};
/// Submits one iteration: reads `from` and what lies around it, writes `to` and its outermost
/// layers. `out[s]` of a side that is not wanted is any object; it is not written, but counts as
/// that. \return the task.
template <class T>
tern::hetero_task submit_sweep(const sweep_numbers& how, const field<T>& from, const field<T>& to, const faces<T>& in,
                               const faces<T>& out, where on);
/// Submits some iterations in fields that have layers around their blocks: iteration i writes the
/// cells of `boxes[i]`, and reads those beside them. Begins in `from`; cells that lie in no box
/// stay in both. On the host all of them are one task, plane by plane, so that the cells stay in
/// its caches.
template <class T>
tern::hetero_task submit_sweeps(const layout& l, const std::vector<cell_box>& boxes, double alpha, const field<T>& from,
                                const field<T>& to, where on);
/// Submits a copy: the cells of a box, from a field to an object that has only these, or back.
template <class T>
void submit_pack(const layout& l, const cell_box& of, const field<T>& from, const tern::hetero_object<T>& to, where on);
template <class T>
void submit_unpack(const layout& l, const cell_box& of, const tern::hetero_object<T>& from, const field<T>& to,
                   where on);
/// Submits: the largest difference of two fields, by columns of y. \param n of the block. \param
/// most has n[0] * n[2] elements.
template <class T>
void submit_change(const cells& n, const layout& l, const field<T>& a, const field<T>& b,
                   const tern::hetero_object<T>& most, where on);

#define JACOBI3D_EXTERN(T)                                                                                             \
  extern template tern::hetero_task submit_sweep(const sweep_numbers&, const field<T>&, const field<T>&,               \
                                                 const faces<T>&, const faces<T>&, where);                             \
  extern template tern::hetero_task submit_sweeps(const layout&, const std::vector<cell_box>&, double,                 \
                                                  const field<T>&, const field<T>&, where);                            \
  extern template void submit_pack(const layout&, const cell_box&, const field<T>&, const tern::hetero_object<T>&,     \
                                   where);                                                                             \
  extern template void submit_unpack(const layout&, const cell_box&, const tern::hetero_object<T>&, const field<T>&,   \
                                     where);                                                                           \
  extern template void submit_change(const cells&, const layout&, const field<T>&, const field<T>&,                    \
                                     const tern::hetero_object<T>&, where);
JACOBI3D_EXTERN(double)
JACOBI3D_EXTERN(float)
#undef JACOBI3D_EXTERN

} // namespace jacobi3d
