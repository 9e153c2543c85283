// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What Tern's contestant of `bench_mobile` measures, in the files of the same names.

#include <cstddef>

#include <nlohmann/json.hpp>

namespace tern::bench::mobile {

// local.cpp: one rank, alone.
nlohmann::json local(double most);
nlohmann::json lookup(std::size_t objects, double most);
nlohmann::json table(std::size_t objects, double most);
nlohmann::json memory(std::size_t objects);
/// Two ranks in one process. The result is that of rank 0.
nlohmann::json moved(std::size_t objects);

/// disk.cpp: one rank, with a limit of memory; MiB/s at which large objects are read, and changed.
nlohmann::json disk(std::size_t objects, long rounds);

/// hops.cpp: not within a job.
nlohmann::json hops(int most_stale);

} // namespace tern::bench::mobile
