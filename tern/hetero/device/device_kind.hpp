// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The registry of device kinds: how a kind adds its devices. For kinds in this tree and outside of
/// it (tern/hetero/README.md, "How to add a device kind").

#include <memory>
#include <string>
#include <vector>

#include <tern/base/options.hpp>
#include <tern/hetero/device/device.hpp>
#include <tern/hetero/devices.hpp>

namespace tern::hetero::detail {

class pinned_memory;

/// What a search for the devices of a kind is given, and gives.
struct device_search {
  device_kind kind; ///< of its devices' info
  const options& opts;
  int workers;                     ///< of the scheduler
  bool all;                        ///< `hetero-devices` asks for all devices
  device_kinds used;               ///< kinds searched before that have devices in use
  std::vector<std::string>& notes; ///< gets what a user wants to know of devices that were looked for in vain
  /// Of objects on the host, from the kind's `memory_to_pin`; set by `find` if it is null and the
  /// devices pin memory.
  std::shared_ptr<pinned_memory> pinned;
};

/// What there is to know of a kind. `name`, `order` and `find` are needed.
struct device_kind_entry {
  const char* name; ///< in ids and options: "opencl"
  int order;        ///< kinds are searched in ascending order, equal ones by name
  /// Of the enumeration; `host`: the next value that is free.
  device_kind kind = device_kind::host;
  /// Its devices know the time of a simulation. Others are not looked for there.
  bool in_simulations = false;
  /// Looking for its devices costs nothing, so it is done always; else only where they are asked
  /// for.
  bool always = false;
  /// All its devices that options allow, whether they are used or not, made anew for each caller.
  /// Thread-safe.
  std::vector<std::unique_ptr<device>> (*find)(device_search& search) = nullptr;
  /// Memory for objects that its devices are going to pin. Called before devices are looked for,
  /// which may be long after the first objects: so it is quick and opens no device. Null, or a
  /// result that is null: they pin none, or there is none.
  std::shared_ptr<pinned_memory> (*memory_to_pin)(const options& opts) = nullptr;
  /// May devices be looked for before the job starts, to refuse wrong names? Null: yes.
  bool (*before_start)(const options& opts) = nullptr;
};

/// Those of this tree, then those that were registered, by `kind`, which is set.
const std::vector<device_kind_entry>& registered_kinds();

} // namespace tern::hetero::detail

namespace tern::hetero {

/// Adds a kind of devices: a static object, made before the first runtime starts. As many as
/// `device_kinds` has bits.
/// \throws error(already_exists) for a name that a kind has, error(unsupported) for one kind too
/// many.
class device_kind_registration {
public:
  explicit device_kind_registration(const detail::device_kind_entry& entry);
  /// For `device_info::kind`, `hetero_task::on` and the like.
  device_kind kind() const noexcept { return kind_; }

private:
  device_kind kind_;
};

} // namespace tern::hetero
