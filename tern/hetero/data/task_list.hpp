// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Lists of tasks, as fragments of objects keep them. Internal.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <tern/hetero/record/task_record.hpp>

namespace tern::hetero::detail {

/// References to tasks. A few in place: most lists have one. Threads: one at a time.
class task_list {
public:
  task_list() noexcept = default;
  task_list(const task_list& other); ///< each is referenced once more
  task_list& operator=(const task_list&) = delete;
  task_list(task_list&& other) noexcept;
  task_list& operator=(task_list&& other) noexcept;
  ~task_list() { clear(); }

  std::size_t size() const noexcept { return size_; }
  task_record* const* begin() const noexcept { return data(); }
  task_record* const* end() const noexcept { return data() + size_; }
  /// References it.
  void add(task_record* t) {
    t->references.fetch_add(1, std::memory_order_relaxed);
    put(t);
  }
  /// The same for a task that is just being submitted: no other thread counts.
  void add_new(task_record* t) {
    t->references.store(t->references.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    put(t);
  }
  /// Puts a task that is just being submitted in the place of the only one. \return that one, whose
  /// reference is the caller's.
  [[nodiscard]] task_record* replace_only(task_record* t) noexcept {
    t->references.store(t->references.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); // as add_new
    return std::exchange(data()[0], t);
  }
  /// As `add_new`. \pre it is empty.
  void add_first(task_record* t) noexcept {
    t->references.store(t->references.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    data()[size_++] = t;
  }
  /// If this is the only one, it goes, and its reference is the caller's.
  [[nodiscard]] bool release_only(const task_record* t) noexcept {
    if (size_ != 1 || data()[0] != t) return false;
    size_ = 0;
    return true;
  }
  void clear() noexcept;
  /// As `add_new`. When the list would have to grow, tasks go first that no other has to follow any
  /// more.
  void add_pruned(task_record* t) {
    constexpr std::uint32_t many = 16;
    if (size_ >= many && size_ == capacity_) prune_half();
    add_new(t);
  }
  bool ends_with(const task_record* t) const noexcept { return size_ > 0 && data()[size_ - 1] == t; }
  /// Drops those that have completed and did not fail: no task has to follow them.
  void prune() noexcept;

private:
  void put(task_record* t) {
    if (size_ == (capacity_ == 0 ? in_place : capacity_)) [[unlikely]]
      grow();
    data()[size_++] = t;
  }
  void grow();
  void prune_half();
  task_record** data() noexcept { return capacity_ == 0 ? inline_ : allocated_; }
  task_record* const* data() const noexcept { return capacity_ == 0 ? inline_ : allocated_; }
  static constexpr std::uint32_t in_place = 2;
  std::uint32_t size_ = 0, capacity_ = 0;
  union {
    task_record* inline_[in_place];
    task_record** allocated_;
  };
};

} // namespace tern::hetero::detail
