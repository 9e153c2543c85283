// SPDX-License-Identifier: Apache-2.0
#include <tern/task/worker/handed_ring.hpp>

#include <new>

namespace tern::detail {

handed_ring* handed_inbox::add() noexcept {
  const std::lock_guard hold(lock_);
  if (count_ == most_rings) return nullptr;
  auto* const one = new (std::nothrow) handed_ring(first_.load(std::memory_order_relaxed));
  if (!one) return nullptr;
  ++count_;
  first_.store(one, std::memory_order_release);
  return one;
}

} // namespace tern::detail
