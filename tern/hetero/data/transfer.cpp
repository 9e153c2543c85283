// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/data/transfer.hpp>

#include <mutex>

namespace tern::hetero::detail {

transfer* transfer_pool::make() {
  {
    const std::lock_guard hold(lock_);
    if (transfer* const x = free_) {
      free_ = std::exchange(x->next, nullptr);
      return x;
    }
  }
  auto fresh = std::make_unique<transfer>();
  transfer* const x = fresh.get();
  const std::lock_guard hold(lock_);
  all_.push_back(std::move(fresh));
  return x;
}

// As a new one, but its lists keep their memory.
void transfer_pool::free(transfer* x) noexcept {
  x->tasks.clear();
  x->after.clear();
  x->follows.clear();
  x->again = x->passed = x->source_again = false;
  x->others.clear();
  x->behind.clear();
  x->source = nullptr;
  x->source_failed = nullptr;
  x->staged = {};
  x->object = nullptr;
  x->from = x->to = x->device = 0;
  x->waits = 0;
  x->save = false;
  x->running = 0;
  x->out_of = nullptr;
  x->outside = nullptr;
  x->copied = nullptr;
  x->unpack = nullptr;
  x->unpack_to = nullptr;
  const std::lock_guard hold(lock_);
  x->next = free_;
  free_ = x;
}

std::size_t transfer_pool::made() noexcept {
  const std::lock_guard hold(lock_);
  return all_.size();
}

} // namespace tern::hetero::detail
