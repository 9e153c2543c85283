// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What each rank of a host lets the others know of its process, in memory that they share.
/// Internal.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <tern/net/transport.hpp>

namespace tern::net::detail {

/// Zero at the start; written by its rank, but for `found`.
struct host_record {
  std::atomic<std::uint32_t> process; ///< stored last, release: a reader that acquires it sees what is below
  std::atomic<std::int32_t> rank;
  std::atomic<std::uint64_t> started, space;
  /// Its process ends the job, and has said why: others need not wonder that it goes, nor that a
  /// launcher kills them.
  std::atomic<std::uint32_t> leaving;
  /// Written by others: how it was lost, as 1 + liveness::kind. The first writer reports it and
  /// ends the job.
  std::atomic<std::uint32_t> found;
  /// When its process came to a standstill: seconds of the host's steady clock, and one; 0: it goes
  /// on.
  std::atomic<std::uint64_t> still_since;

  static host_record& of(const host_memory& all, int place) noexcept {
    return *reinterpret_cast<host_record*>(all.first + static_cast<std::size_t>(place) * all.stride);
  }
};
static_assert(sizeof(host_record) <= host_memory::bytes && std::atomic<std::uint64_t>::is_always_lock_free);

} // namespace tern::net::detail
