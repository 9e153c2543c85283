// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Sizes and places in up to three dimensions.

#include <tern/base/language/compiler.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace tern {

/// How many elements in each dimension, the last of which runs fastest.
template <int N> using extents = std::array<std::int64_t, static_cast<std::size_t>(N)>;

/// The place of one element: 0 … extents-1 in each dimension.
template <int N> using indices = std::array<std::int64_t, static_cast<std::size_t>(N)>;

} // namespace tern
