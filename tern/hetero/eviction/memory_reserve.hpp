// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How much of a device's memory is freed at a time, and how much is kept ready to be. Internal.

#include <algorithm>
#include <cstddef>

namespace tern::hetero::detail {

/// Memory is freed in batches, as each takes a look at all instances. What would go next is saved
/// ahead while kernels run, and stays: so a part of the memory is free, or can be at once. That
/// part is 5 % at first, and 5 % more each time that the device had nothing to do while a task
/// waited for memory, up to 20 %. For the device's worker. Source: PaRSEC's GPU memory manager.
class memory_reserve {
public:
  static constexpr unsigned first_percent = 5, most_percent = 20;

  /// Bytes that are freed for a task that lacks so many, of `limit` in all.
  static std::size_t batch(std::size_t limit, std::size_t lacking) noexcept { return std::max(lacking, limit / 80); }
  /// Bytes that should be free, or need not be saved.
  std::size_t mark(std::size_t limit) const noexcept { return limit / 100 * percent_; }
  bool is_low(std::size_t limit, std::size_t used) const noexcept { return used > limit - mark(limit); }
  /// The device has nothing to do, and the first task in line has no room.
  void stalled() noexcept { percent_ = std::min(percent_ + 5, most_percent); }
  unsigned percent() const noexcept { return percent_; }

private:
  unsigned percent_ = first_percent;
};

} // namespace tern::hetero::detail
