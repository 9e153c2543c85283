// SPDX-License-Identifier: Apache-2.0
#include <tern/task/boundary/own_threads.hpp>

#include <mutex>

#include <unistd.h>

namespace tern::detail {
namespace {

// Of the process, as its threads are.
std::mutex lock;
own_thread* first = nullptr;

} // namespace

own_thread::own_thread() noexcept : number_(static_cast<int>(gettid())) {
  const std::lock_guard hold(lock);
  next_ = first;
  if (next_) next_->previous_ = this;
  first = this;
}

own_thread::~own_thread() {
  const std::lock_guard hold(lock);
  (previous_ ? previous_->next_ : first) = next_;
  if (next_) next_->previous_ = previous_;
}

bool is_own_thread(int number) noexcept {
  const std::lock_guard hold(lock);
  for (const own_thread* t = first; t; t = t->next_)
    if (t->number_ == number) return true;
  return false;
}

} // namespace tern::detail
