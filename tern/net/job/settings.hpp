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
/// At an exception that leaves a handler for which no caller waits.
bool stops_at_unhandled(const options& opts);
/// At a future that is dropped with an exception.
bool stops_at_dropped(const options& opts);
/// \throws error(invalid_option) for an unknown binding.
job_settings resolve(const options& opts, int host_rank, int host_size);

} // namespace tern::net
