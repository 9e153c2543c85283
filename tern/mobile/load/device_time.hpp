// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What work has taken of devices. Internal.

namespace tern::mobile::detail {

struct device_time {
  double seconds = 0;
  double amount = 0; ///< how much work that was, in a unit that is the same on all devices; 0: not known
};

} // namespace tern::mobile::detail
