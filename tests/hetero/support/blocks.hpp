// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The blocks of kernels in files of the tree, for tests that compile all there are.

#include <ostream>

#include <tern/hetero/kernel/kernel_blocks.hpp>

namespace tern::hetero {
namespace detail {
/// For the names of tests with one.
inline void PrintTo(const block_in_file& block, std::ostream* out) { *out << block.name; }
} // namespace detail

using detail::block_in_file;
using detail::blocks_in;

} // namespace tern::hetero
