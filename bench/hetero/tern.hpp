// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The parts of Tern's contestant.

#include "bench/hetero/contestant.hpp"

namespace tern::bench::hetero {

/// The kernels (kernels.hpp) on the host. \return none if that is not what is meant.
measurement host_kernels(const job& j);
/// The same on the OpenCL device. \return none if that is not what is meant.
measurement device_kernels(const job& j);
/// On simulated devices (TERN_HETERO_FAKE). \return none if that is not what is meant.
measurement fake_devices(const job& j);
/// The device's id. \throws not_here
const char* opencl_device();

} // namespace tern::bench::hetero
