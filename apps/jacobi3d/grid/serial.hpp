// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The same by plain loops, one after the other: what all other ways of computing it must equal,
/// bit by bit. Compiled without contraction of a product and a sum.

#include "apps/jacobi3d/grid/problem.hpp"

#include <cstdint>
#include <vector>

namespace jacobi3d {

template <class T> struct serial_result {
  std::vector<T> values; ///< of all cells, x fastest
  double change = 0;     ///< the largest of a cell in the last iteration
  std::uint64_t hash() const { return hash_of(values.data(), static_cast<std::int64_t>(values.size()), 0); }
};
/// T is float or double. Takes three times the grid's memory.
template <class T> serial_result<T> run_serially(const cells& n, std::int64_t iterations, double alpha);

extern template serial_result<double> run_serially(const cells&, std::int64_t, double);
extern template serial_result<float> run_serially(const cells&, std::int64_t, double);

} // namespace jacobi3d
