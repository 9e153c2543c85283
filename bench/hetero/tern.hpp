// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The parts of Tern's contestant.

#include "bench/hetero/contestant.hpp"

namespace tern::bench::hetero {

/// The kernels (kernels.hpp) as tasks, on the host ("host_NAME") or on the OpenCL device
/// ("opencl_NAME"). \return none if that is not what is meant.
measurement kernels(const job& j);
/// On simulated devices (TERN_HETERO_SIMULATED). \return none if that is not what is meant.
measurement simulated_devices(const job& j);
/// Many small tasks in one call, or one by one (batches.cpp). \return as the others.
measurement batches(const job& j);
/// A factorization on workers and simulated devices (placed_cholesky.cpp). \return as the others.
measurement placed_cholesky(const job& j);
/// Tasks behind others on a simulated device (queued_launches.cpp). \return as the others.
measurement queued_launches(const job& j);
/// On a simulated device with little memory (memory/bounded_memory.cpp). \return as the others.
measurement bounded_memory(const job& j);
/// Over four times the host's limit, by way of a disk (memory/disk_stream.cpp). \return as the
/// others.
measurement disk_stream(const job& j);
/// What policies make of tasks of fixed times, in virtual time (virtual_time.cpp). Called outside
/// of a scheduler: each measurement makes one that is simulated.
measurement virtual_time(const job& j);
/// The device's id. \throws not_here
const char* opencl_device();

} // namespace tern::bench::hetero
