// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the runtime has done so far: tasks, and copies between devices.

#include <tern/base/language/compiler.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace tern::hetero {

/// Numbers since the scheduler started; exact while nothing runs.
struct statistics {
  struct of_device {
    std::string id;
    std::uint64_t tasks = 0;       ///< of the program's that ran there; not host access and the like
    std::int64_t memory_bytes = 0; ///< that copies of objects take there now
  };
  std::uint64_t submitted = 0, completed = 0; ///< tasks; also those of the runtime's own, for host access and the like
  std::uint64_t copies_to_devices = 0, bytes_to_devices = 0;
  std::uint64_t copies_from_devices = 0, bytes_from_devices = 0;
  std::uint64_t copies_between_devices = 0, bytes_between_devices = 0; ///< straight from one to another
  /// Memory of objects on the host that a device's driver has page-locked; and that it was to lock,
  /// and could not: copies from and to that are slow.
  std::int64_t locked_bytes = 0, not_locked_bytes = 0;
  /// Tasks that were launched on a device before what they follow had ended (hetero-ahead).
  std::uint64_t launched_behind = 0;
  /// Copies that were begun before the tasks on devices had ended that they follow.
  std::uint64_t copied_behind = 0;
  /// Tasks that were in one launch with others on a device.
  std::uint64_t launched_together = 0;
  /// Of the host's memory, if it is limited (hetero-host-memory): the limit, what objects take
  /// there, and what they take on disk now. Lent memory does not count.
  std::int64_t host_limit = 0, host_bytes = 0, disk_bytes = 0;
  std::uint64_t copies_to_disk = 0, bytes_to_disk = 0, copies_from_disk = 0, bytes_from_disk = 0;
  std::vector<of_device> devices;
};

/// Of the calling fiber's scheduler. Looks for devices, which it names, if that has not happened.
/// \throws error(invalid_state) on a thread that is no worker, error(invalid_option) for what
/// options say of devices.
statistics count();

} // namespace tern::hetero
