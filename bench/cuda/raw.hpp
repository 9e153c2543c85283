// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The rival's contestant: CUDA by the driver API, as a good engineer writes it.

#include "bench/cuda/gpu.hpp"
#include "bench/harness/contestant.hpp"

namespace tern::bench::cuda {

using namespace contest;

/// The kernel of the matrix products, which is Tern's in CUDA C++: what is compared is all around
/// it.
extern const char* const naive_text;

/// Benchmarks of copies and launches. \return none if that is not what is meant.
measurement launches(const job& j);
measurement copies(const job& j);
measurement products(const job& j);
measurement chains(const job& j);
/// Kernels, written by hand.
measurement kernels(const job& j);
/// cuBLAS and cuSOLVER. \throws not_here
measurement libraries(const job& j);

} // namespace tern::bench::cuda
