// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which devices a runtime uses, of those that there are. Internal.

#include <memory>
#include <vector>

#include <tern/hetero/device/device.hpp>
#include <tern/hetero/devices.hpp>

namespace tern::hetero::detail {

class pinned_memory;

struct found_devices {
  std::vector<device_info> infos;
  std::vector<std::unique_ptr<device>> devices; ///< one for each info; null: the host
  std::shared_ptr<pinned_memory> pinned;        ///< for the objects' memory on the host; null: ordinary memory
  bool host_runs = true;
};

/// The host. \param workers of the scheduler.
device_info host_info(int workers);

/// The same options with the entry of hetero-simulated that is for the scheduler of that number, of
/// those of a job.
options own_devices(options opts, int scheduler);

/// Must a runtime look for devices when it begins? Where the options name devices, to refuse those
/// that are not there; and where to look costs nothing. Else it looks when something could run on
/// one. \param simulated as `find_devices`. Thread-safe.
bool looks_at_once(const options& opts, bool simulated);

/// Memory for objects that devices are going to pin, of which none has been looked for; null:
/// ordinary memory. Opens no device. Thread-safe.
std::shared_ptr<pinned_memory> memory_to_pin(const options& opts);

/// Those that the options allow, the host first; made anew for each caller. \param workers of the
/// scheduler. \param simulated only what knows virtual time. \param notes gets what is to be known
/// besides. \param pinned from `memory_to_pin`. \param sharers see `with_sharers`; simulated
/// devices are not shared. Thread-safe.
/// \throws error(invalid_option) for one that is not there, naming all that are, also those that
/// are not allowed.
found_devices find_devices(const options& opts, int workers, bool simulated, std::vector<device_note>& notes,
                           std::shared_ptr<pinned_memory> pinned = nullptr, int sharers = 1);

} // namespace tern::hetero::detail
