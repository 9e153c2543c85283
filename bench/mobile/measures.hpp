// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What Tern's contestant of `bench_mobile` measures, in the files of the same names.

#include <cstddef>
#include <string>

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

/// checkpoint.cpp: two ranks; MiB/s at which objects of a MiB each are saved, and read back.
nlohmann::json save(std::size_t mib, const std::string& folder);
nlohmann::json go_on(std::size_t mib);

/// hops.cpp: not within a job.
nlohmann::json hops(int most_stale);

/// array.cpp. One rank: an invocation of an element by its place, and by a mobile_ptr.
nlohmann::json element(double most);
/// Two ranks: a broadcast, a loop of local invocations, and a reduction; the median of rounds.
nlohmann::json array(std::size_t elements, long rounds);
/// Two ranks: to make an array, to use it and to end it.
nlohmann::json arrays(std::size_t elements, long rounds);
nlohmann::json array_memory(std::size_t elements);

/// event.cpp. One rank: a signal of an event of 26, with its part of what that runs; and an
/// invocation.
nlohmann::json events(double most);
/// together.cpp. One rank: nanoseconds for a function over `objects` objects, and for three
/// invocations of each of them.
nlohmann::json together(std::size_t objects, double most);
/// Not within a job: messages for one such function.
nlohmann::json together_messages(std::size_t objects);
/// Two ranks: microseconds for a function over two objects of which one is elsewhere, and for two
/// calls and a migration.
nlohmann::json together_remote(long rounds);

/// protect.cpp: not within a job. Virtual seconds of a simulated job with a copy each minute and
/// without, and bytes that a rank keeps, and packs.
nlohmann::json protect_cost(int ranks);
/// Virtual microseconds to go on after a death, and for a copy.
nlohmann::json recover(int ranks);

} // namespace tern::bench::mobile
