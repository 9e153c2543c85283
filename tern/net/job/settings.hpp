// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// From options and machine to what a rank is given. Internal.

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <tern/base/options.hpp>
#include <tern/net/message/send_queue.hpp>
#include <tern/net/transport.hpp>

namespace tern::net {

struct job_settings {
  int workers = 1;
  std::size_t stack_bytes = 0;
  std::chrono::microseconds spin{0};
  bool poll_apart = false;            ///< a thread of its own looks after the transport
  std::vector<std::vector<int>> cpus; ///< by worker; empty: not bound
  std::string bound_to;               ///< "core" or "numa" where bound
  std::optional<double> quota;        ///< CPUs that the container may use, if limited
};

std::size_t stack_bytes(const options& opts);
extern const option<std::string> aggregate_option;
aggregation aggregation_of(const options& opts);
extern const option<std::string> unhandled_option;
/// At an exception that leaves a handler for which no caller waits.
bool stops_at_unhandled(const options& opts);
/// At a future that is dropped with an exception.
bool stops_at_dropped(const options& opts);
/// \throws error(invalid_option) for an unknown binding.
job_settings resolve(const options& opts, const transport& wire);

/// The CPUs that a rank of a host may use.
struct cpu_share {
  std::size_t allowed = 1;     ///< by this rank
  std::optional<double> quota; ///< CPUs that control groups leave to all ranks of this host together
  int sharers = 1;             ///< ranks that may run on some of these CPUs, this rank included
  int host_size = 1;           ///< ranks on the host
};
/// As many workers as there are CPUs for each of the ranks that share them; at least 1.
int default_workers(const cpu_share& share) noexcept;
/// Whether each of these workers, on each of the ranks, has a CPU to itself.
bool has_cpu_each(const cpu_share& share, int workers) noexcept;

} // namespace tern::net
