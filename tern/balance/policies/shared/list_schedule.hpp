// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Dealing work out to workers so that all end at the same time. Internal.

#include <cstddef>
#include <span>
#include <vector>

namespace tern::balance::detail {

/// Which load goes to which worker so that the last one ends early: longest processing time first
/// (Graham 1969), then exchanges between the worker that ends last and one that ends early, as long
/// as that helps (Finn and Horowitz 1979). Keeps its memory for the next time. One thread.
class lpt_scheduler {
public:
  /// \param loads heaviest first. \param ends when each worker is free; afterwards: when it has
  /// done its share.
  /// \return the worker of each load; valid until the next call.
  std::span<const int> deal(std::span<const double> loads, std::span<double> ends);

private:
  struct exchange {
    double gain = 0;              ///< so much earlier ends the later of the two
    std::size_t from = 0, to = 0; ///< places in the two lists; `to` may be that list's end: nothing comes back
  };
  void first_come(std::span<const double> loads, std::span<double> ends);
  bool improve(std::span<const double> loads, std::span<double> ends, double enough);
  exchange best(std::span<const double> loads, int full, int other, double gap) const;
  void swap(std::span<const double> loads, std::span<double> ends, int full, int other, const exchange& x);

  std::vector<int> worker_;
  std::vector<std::vector<std::size_t>> lists_; ///< by worker: its loads, heaviest first
  std::vector<int> by_end_;
};

} // namespace tern::balance::detail
