// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/data/task_list.hpp>

#include <algorithm>
#include <new>
#include <utility>

namespace tern::hetero::detail {

task_list::task_list(const task_list& other) {
  for (task_record* t : other) add(t);
}
task_list::task_list(task_list&& other) noexcept : size_(other.size_), capacity_(other.capacity_) {
  if (capacity_ == 0)
    std::copy(other.inline_, other.inline_ + size_, inline_);
  else
    allocated_ = other.allocated_;
  other.size_ = other.capacity_ = 0;
}
task_list& task_list::operator=(task_list&& other) noexcept {
  if (this == &other) return *this;
  this->~task_list();
  return *::new (static_cast<void*>(this)) task_list(std::move(other));
}

void task_list::grow() {
  const std::uint32_t held = capacity_ == 0 ? in_place : capacity_;
  auto** const larger = new task_record*[std::size_t{held} * 2];
  std::copy(begin(), end(), larger);
  if (capacity_ != 0) delete[] allocated_;
  allocated_ = larger;
  capacity_ = held * 2;
}

void task_list::clear() noexcept {
  for (task_record* t : *this) unreference(t);
  if (capacity_ != 0) delete[] allocated_;
  size_ = capacity_ = 0;
}

void task_list::prune() noexcept {
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < size_; ++i) {
    task_record* const t = data()[i];
    if (t->is_done() && !t->has_failed())
      unreference(t);
    else
      data()[kept++] = t;
  }
  size_ = kept;
}

// If most are still needed it grows all the same: so each is looked at a few times only.
void task_list::prune_half() {
  prune();
  if (size_ > capacity_ / 2) grow();
}

} // namespace tern::hetero::detail
