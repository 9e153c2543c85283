// SPDX-License-Identifier: Apache-2.0
#include <tern/task/boundary/dropped_failures.hpp>

namespace tern::detail {

std::string dropped_failures::text() {
  const std::lock_guard hold(lock_);
  if (count_ == 0) return {};
  std::string all = std::to_string(count_) + (count_ == 1 ? " future was" : " futures were") +
                    " dropped with an exception that was never retrieved:";
  for (const auto& one : first_) all += "\n  " + one;
  if (count_ > first_.size()) all += "\n  and " + std::to_string(count_ - first_.size()) + " more";
  return all;
}

} // namespace tern::detail
