// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What this layer asks of one that knows devices. Internal to Tern's layers.

#include <tern/base/language/compiler.hpp>

#include <functional>

namespace tern::net {
class node;
}

namespace tern::balance::detail {

/// Of the devices of a rank. An object that lives as long as the program.
class device_counter {
public:
  /// Those that are not the host; 0 if none have been looked for. Quick; any thread.
  virtual int devices(net::node& of) const noexcept = 0;
  /// Runs `counts`, which goes through an object's members to count their bytes. \return how many
  /// of these have to leave a device first. In the calling thread; does not wait.
  virtual double resident(const std::function<void()>& counts) const = 0;

protected:
  ~device_counter() = default;
};

/// From now on; before the first rank starts.
void count_devices_by(const device_counter& c) noexcept;
/// Null: there is none.
const device_counter* counter_of_devices() noexcept;

} // namespace tern::balance::detail
