// SPDX-License-Identifier: Apache-2.0
#include <tern/task/worker/activation_queue.hpp>

#include <bit>

namespace tern::detail {

// Under the lock.
activation* activation_queue::take(unsigned kinds) noexcept {
  const unsigned there = mask_.load(std::memory_order_relaxed) & kinds;
  if (there == 0) return nullptr;
  auto* const a = static_cast<activation*>(queues_[std::countr_zero(there)].pop());
  count_now(-1);
  return a;
}

activation* activation_queue::give_half(activation_queue& to) noexcept {
  runnable_queue taken;
  activation* first = nullptr;
  {
    const std::lock_guard hold(lock_);
    const unsigned half = (count() + 1) / 2;
    for (unsigned n = 0; n < half; ++n) {
      activation* const a = take(run_queue::all);
      if (!first)
        first = a;
      else
        taken.push(a);
    }
  }
  if (taken.empty()) return first;
  const std::lock_guard hold(to.lock_); // not both: two workers may take from each other
  while (runnable* const a = taken.pop()) {
    to.queues_[a->level].push(a);
    to.count_now(1);
  }
  return first;
}

} // namespace tern::detail
