// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How long copies to and from a device take, before a task needs any. Internal.

#include <cstddef>
#include <cstdint>
#include <functional>

#include <tern/hetero/data/host_memory.hpp>
#include <tern/hetero/device/device.hpp>

namespace tern::hetero::detail {

/// Copies of growing sizes, in either direction and one after the other, as far as 20 ms go;
/// of two sizes at least, which an estimate needs.
///
/// Requires that the device is open, measures, has memory of its own, and nothing in its streams.
/// The caller is a fiber or a thread, and waits. Where there is too little memory, nothing is
/// copied. \throws what the device throws; then no memory is held, either.
class link_probe {
public:
  static constexpr std::int64_t budget = 20'000'000; ///< nanoseconds
  static constexpr std::size_t least = 4096, most = std::size_t{4} << 20;
  static constexpr std::size_t growth = 4;     ///< from size to size
  static constexpr int times = 4;              ///< each size, in each direction
  using clock = std::function<std::int64_t()>; ///< nanoseconds
  /// Of a copy; 0: its time is not known.
  using sink = std::function<void(direction way, std::uint64_t bytes, std::int64_t nanoseconds)>;

  static void run(device& d, host_memory& host, const clock& now, const sink& found);
  /// The same where times are virtual and the device knows them (`device::copy_takes`): all sizes,
  /// and nothing is copied, so no time passes, no fault strikes, and each run finds the same. Any
  /// thread.
  static void compute(const device& d, const sink& found);
};

} // namespace tern::hetero::detail
