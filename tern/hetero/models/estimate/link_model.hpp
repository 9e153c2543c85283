// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How long copies from one memory to another take. Internal.

#include <cstdint>
#include <map>
#include <optional>

#include <tern/hetero/models/estimate/sample_history.hpp>

namespace tern::hetero::detail {

/// A link's time for a copy is latency + bytes / bandwidth.
struct link_line {
  double latency = 0;  ///< nanoseconds
  double per_byte = 0; ///< nanoseconds
  double at(double bytes) const noexcept { return latency + per_byte * bytes; }
};

/// A pair of memories, in one direction. Copies are gathered by powers of two of their bytes, and a
/// line is laid through the medians, each of which counts by its relative error: a kilobyte says as
/// much of the latency as a gigabyte says of the bandwidth.
///
/// Requires times in nanoseconds. Throws std::bad_alloc from `add` and `add_both_ways`. Threads: as
/// a value.
class link_model {
public:
  /// Copies of [2^k, 2^(k+1)) bytes, for one k.
  struct size_range {
    sample_history bytes, times;
    std::uint32_t fresh = 0; ///< of the last samples: since the model was last stored
  };

  /// A copy while nothing went the other way.
  void add(std::uint64_t bytes, double nanoseconds);
  /// A copy while the other direction was busy, too. It counts once there is an estimate of what it
  /// takes alone.
  void add_both_ways(std::uint64_t bytes, double nanoseconds);

  /// \return the line, if copies of sizes a factor of four apart are known.
  std::optional<link_line> line() const;
  /// Of a copy, in nanoseconds: by the line, or by other copies of about its size. \return nothing
  /// where too little is known.
  std::optional<double> at(std::uint64_t bytes) const;
  /// How many times as long copies take while the other direction is busy; at least 1, and 1 where
  /// that is not known.
  double both_ways_factor() const noexcept;

  /// As stored: by k.
  const std::map<int, size_range>& ranges() const noexcept { return ranges_; }
  const sample_history& both_ways() const noexcept { return both_ways_; }
  std::uint32_t fresh_both_ways() const noexcept { return fresh_both_ways_; }
  /// Puts back a stored range, which must lie in [2^k, 2^(k+1)). It takes the place of what was
  /// there.
  void restore(int k, const size_range& range) { ranges_[k] = range; }
  void restore_both_ways(const sample_history& ratios) noexcept { both_ways_ = ratios; }
  /// Adds the other model's fresh samples, in their order.
  void merge_fresh(const link_model& newer);
  /// Nothing is fresh any more.
  void set_stored() noexcept;
  bool has_fresh() const noexcept;

private:
  std::map<int, size_range> ranges_;
  sample_history both_ways_;
  std::uint32_t fresh_both_ways_ = 0;
};

} // namespace tern::hetero::detail
