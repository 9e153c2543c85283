// SPDX-License-Identifier: Apache-2.0
#include <tern/task/worker/outside_queue.hpp>

namespace tern::detail {

unsigned outside_queue::take(runnable*& f, tasklet** out, unsigned most) noexcept {
  std::lock_guard hold(lock_);
  f = fibers_.pop();
  if (f) {
    add(-1);
    return 0;
  }
  unsigned n = 0;
  for (; n < most && tasklets_ && !tasklets_->empty(); ++n) {
    out[n] = tasklets_->front();
    tasklets_->pop_front();
  }
  add(-static_cast<int>(n));
  return n;
}

} // namespace tern::detail
