// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The kernels of a block: one iteration, and what it has changed.

#include "apps/jacobi3d/grid/problem.hpp"

#include <array>
#include <cstdint>
#include <optional>

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
/// Submits: the largest difference of two fields, by columns of y. \param most has n[0] * n[2]
/// elements.
template <class T>
void submit_change(const cells& n, const field<T>& a, const field<T>& b, const tern::hetero_object<T>& most, where on);

#define JACOBI3D_EXTERN(T)                                                                                             \
  extern template tern::hetero_task submit_sweep(const sweep_numbers&, const field<T>&, const field<T>&,               \
                                                 const faces<T>&, const faces<T>&, where);                             \
  extern template void submit_change(const cells&, const field<T>&, const field<T>&, const tern::hetero_object<T>&,    \
                                     where);
JACOBI3D_EXTERN(double)
JACOBI3D_EXTERN(float)
#undef JACOBI3D_EXTERN

} // namespace jacobi3d
