// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the reporter's thread watches for. Internal.

#include <tern/base/options.hpp>
#include <tern/net/report/reporter.hpp>

namespace tern::net {

/// The watchdog and the watch for standstills, as the options want them.
watches hang_watches(const options& opts);

} // namespace tern::net
