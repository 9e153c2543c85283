// SPDX-License-Identifier: Apache-2.0
#include <tern/task/boundary/registry.hpp>

extern "C" {
tern::detail::scheduler_core* tern_schedulers[256] = {};
}

namespace tern::detail {

std::mutex schedulers_lock;

void register_core(scheduler_core& c) {
  const std::lock_guard hold(schedulers_lock);
  for (auto& place : tern_schedulers)
    if (!place) {
      place = &c;
      return;
    } // more than that are not shown
}

void unregister_core(scheduler_core& c) noexcept {
  const std::lock_guard hold(schedulers_lock);
  for (auto& place : tern_schedulers)
    if (place == &c) place = nullptr;
}

} // namespace tern::detail
