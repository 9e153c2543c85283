// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A schedule of a graph of tasks over unlike devices, made before any of them runs. Internal.
///
/// Source: Topcuoglu, Hariri, Wu, "Performance-effective and low-complexity task scheduling for
/// heterogeneous computing", 2002 (HEFT), with copies of data that several tasks read.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace tern::hetero::detail {

/// Tasks in an order in which each comes after those that it follows, and the data that they share.
/// Times are in seconds.
struct heft_problem {
  static constexpr double impossible = -1;
  struct use {
    std::uint32_t piece;
    bool reads, writes;
  };
  struct task {
    std::vector<double> seconds;       ///< on each device; `impossible`: not there
    std::vector<use> uses;             ///< of data
    std::vector<std::uint32_t> before; ///< tasks that it follows
  };
  struct piece {
    std::vector<double> copies; ///< from device a to device b: at [a * devices + b]
    std::uint64_t valid = 0;    ///< devices that have it at first, a bit for each; none: no task needs what it was
  };
  std::vector<int> units; ///< tasks that each device runs at a time; one entry for each device
  std::vector<task> tasks;
  std::vector<piece> pieces;
  std::size_t devices() const noexcept { return units.size(); }
};

struct heft_schedule {
  std::vector<std::uint8_t> device; ///< of each task
  std::vector<double> rank;         ///< seconds to the end of all, at least: those with more come first
  double seconds = 0;               ///< from the first to the end
};

/// Tasks go, by upward rank (the mean of their times and of copies, along the longest way to the
/// end), each to the device where it ends first, in a gap between others if there is one. A copy
/// waits for the link's other copies, and stays until another task writes the data.
///
/// \pre each task can run on some device. A value; any thread. Costs tasks × devices, times what
/// they use.
heft_schedule make_heft_schedule(const heft_problem& p);

/// What is used at a time: gaps are found and filled.
class busy_times {
public:
  explicit busy_times(int units) : units_(static_cast<std::size_t>(units > 0 ? units : 1)) {}
  struct slot {
    std::size_t unit;
    double begin;
  };
  /// The first moment, not before `earliest`, at which a unit has so many seconds.
  slot find(double earliest, double seconds) const;
  void take(const slot& at, double seconds);

private:
  struct span {
    double begin, end;
  };
  std::vector<std::vector<span>> units_; ///< spans in their order, which do not meet
};

} // namespace tern::hetero::detail
