// SPDX-License-Identifier: Apache-2.0
#include <tern/net/hang/hang_watches.hpp>

#include <memory>

#include <tern/net/hang/hang_check.hpp>
#include <tern/net/hang/watchdog.hpp>

namespace tern::net {

watches hang_watches(const options& opts) {
  watches all;
  all.push_back(std::make_unique<watchdog>(opts));
  all.push_back(std::make_unique<standstill_watch>(opts));
  return all;
}

} // namespace tern::net
