// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The programs of all sides (bench/serve.hpp), and what they compute.

#include "bench/serve.hpp"
#include "bench/task/kernels.hpp"

namespace tern::bench::task {

using namespace sides;

} // namespace tern::bench::task
