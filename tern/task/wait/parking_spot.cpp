// SPDX-License-Identifier: Apache-2.0
#include <tern/task/wait/parking_spot.hpp>

#include <ctime>

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tern::detail {

bool asymmetric_barrier::available(bool wanted) noexcept {
  if (!wanted) return false;
  // Registering twice is harmless; the kernel keeps it for the life of the process.
  static const bool registered = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
  return registered;
}

void asymmetric_barrier::operator()() const noexcept {
  if (usable_) syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0); // cannot fail once registered
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void parking_spot::park(std::chrono::microseconds at_most) noexcept {
  const timespec limit{at_most.count() / 1'000'000, at_most.count() % 1'000'000 * 1000};
  // Returns at once if the state has changed; interrupted sleeps are found out by the caller, which
  // looks again.
  syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, parked, at_most.count() > 0 ? &limit : nullptr, nullptr, 0);
}

void parking_spot::wake_thread() noexcept { syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0); }

} // namespace tern::detail
