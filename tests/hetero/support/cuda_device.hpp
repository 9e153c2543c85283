// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// For tests of CUDA devices themselves, not of tasks on them.

#include <memory>
#include <string>
#include <vector>

#include "tests/hetero/support/cuda.hpp"
#include <tern/hetero/device/cuda/cuda_device.hpp>
#include <tern/hetero/memory/pinned_memory.hpp>

namespace tern::hetero::detail {

/// \return null: there is none, and `notes` says why.
std::unique_ptr<cuda_device> first_cuda_device(const options& opts,
                                               const std::shared_ptr<pinned_memory>& host = nullptr,
                                               std::vector<std::string>* notes = nullptr);

} // namespace tern::hetero::detail
