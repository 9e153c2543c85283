// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/device/discovery.hpp>

namespace tern::hetero::detail {

std::unique_lock<std::mutex> lock_discovery() {
  static constinit std::mutex one; // trivially destroyed: runtimes may end after static objects have
  return std::unique_lock(one);
}

} // namespace tern::hetero::detail
