// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Starts the contestants of `bench_net`.

#include <string>

#include "bench/harness/jobs.hpp"

namespace tern::bench::net {

/// What a contestant reports. All \throw absent if the launcher, the library or a second core is
/// not there.
nlohmann::json run_raw(mpi library, const std::string& level, const words& arguments,
                       rival_settings how = rival_settings::as_ours);
/// As users run it but for `more`, and with that spinning.
nlohmann::json run_tern(mpi library, const words& arguments, spinning how, environment more = {});
/// Two ranks that are threads, each bound to a core.
nlohmann::json run_tern_inproc(const words& arguments, spinning how);
/// The program that counts allocations.
nlohmann::json run_counting(mpi library, const words& arguments);
/// System calls of both ranks from start to end, by strace. \throws absent also if there is none
/// that may trace.
double system_calls(mpi library, const words& arguments);

} // namespace tern::bench::net
