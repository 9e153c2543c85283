// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The parts of Tern's contestant.

#include "bench/harness/contestant.hpp"

#include <tern/hetero/kernel.hpp>

namespace tern::bench::cuda {

using namespace contest;

/// The first CUDA device's id. \throws not_here
const char* device();
/// The dialect's kernels (bench/hetero/kernels.hpp). \return none if that is not what is meant.
measurement kernels(const job& j);
/// Tasks of cuBLAS and cuSOLVER, where these are. \return none if that is not what is meant.
/// \throws not_here
measurement libraries(const job& j);
/// The block of the kernel that they use.
const tern::hetero::source_block& kernels_of_libraries();

} // namespace tern::bench::cuda
