// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The parts of Tern's side.

#include "bench/hetero/side.hpp"

namespace tern::bench::hetero {

/// The kernels (kernels.hpp) on the host. \return none if that is not what is meant.
measurement host_kernels(const job& j);
/// The same on the OpenCL device. \return none if that is not what is meant.
measurement device_kernels(const job& j);
/// On simulated devices (TERN_HETERO_SIMULATED). \return none if that is not what is meant.
measurement simulated_devices(const job& j);
/// The device's id. \throws not_here
const char* opencl_device();

} // namespace tern::bench::hetero
