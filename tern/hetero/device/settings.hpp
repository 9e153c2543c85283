// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What options of this layer mean. Internal.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <tern/base/options.hpp>
#include <tern/hetero/device/device.hpp>

namespace tern::hetero::detail {

/// A number of bytes: "4096", "512K", "2G"; with K, M, G or T, of 1024 each. \return nothing: it is
/// no such number.
std::optional<std::uint64_t> bytes_in(std::string_view text) noexcept;
/// Watts, as "100" or "100,20": busy, idle. \return nothing if it is something else.
std::optional<device_power> watts_in(std::string_view text) noexcept;

/// How many ranks or programs share what this machine has: of hetero-share, or as many as the MPI
/// launcher has started here. At least 1.
int sharing_ranks(const options& opts) noexcept;
/// The same options with hetero-share as `sharing_ranks` has it, if that is not set: or with the
/// number of schedulers that are known to share the machine, if there are more of these, as where
/// ranks are threads of one process.
options with_sharers(options opts, int schedulers);
/// Of a device's memory, what this rank's objects may take there: what there is less a tenth,
/// divided by those that share it. \param own no other rank uses the device.
std::size_t share_of_memory(std::size_t bytes, const options& opts, bool own = false) noexcept;

/// One of the ranks of a machine.
struct local_rank {
  int number = 0, of = 1;
  /// Has it some of so many devices for itself? Else all ranks share them.
  bool divides(int devices) const noexcept { return of > 1 && devices >= of; }
  /// Does it use device `n`? Those that it has for itself are each `of`-th.
  bool uses(int n, int devices) const noexcept { return !divides(devices) || n % of == number; }
};
/// Of the option hetero-own, or the launcher's environment. Of one rank where neither says
/// anything.
local_rank rank_on_machine(const options& opts) noexcept;

/// Of the option hetero-devices, before a job starts. Names of devices must look like some; that
/// those of OpenCL and CUDA are there is only asked where they are named, as their drivers must be
/// opened for that, and where the value was not set by the program, which may set other options
/// next. \throws error(invalid_option).
void verify_devices(const std::string& list, const options& all);

} // namespace tern::hetero::detail
