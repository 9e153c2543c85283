// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The programs of all contestants (bench/harness/contestant.hpp), and what they compute.

#include "bench/harness/contestant.hpp"
#include "bench/task/kernels.hpp"

namespace tern::bench::task {

using namespace contest;

} // namespace tern::bench::task
