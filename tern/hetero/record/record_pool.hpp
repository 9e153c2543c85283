// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Where the records of tasks come from, and what each worker keeps for itself. Internal.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <tern/hetero/record/task_record.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::hetero::detail {

class collector;
struct access_note;

/// What one worker counts and keeps, so that it shares no cache line with others.
struct alignas(64) worker_part {
  // Written by that worker alone.
  std::atomic<std::uint64_t> submitted{0}, completed{0};
  task_record* free = nullptr;
  std::uint32_t free_count = 0;
  tern::detail::spin_lock accesses_lock;
  /// A fiber of this worker collects the tasks that it submits (recorded_tasks.hpp).
  std::atomic<collector*> collects{nullptr};
  access_note* accesses = nullptr;       ///< that it has asked for and that have not ended; under the lock
  std::atomic<std::uint64_t> on_host{0}; ///< tasks of the user that it has run, beside those that a policy placed
};
static_assert(sizeof(worker_part) == 64);

/// The parts of all workers of a scheduler, and a last one that all other threads share.
class worker_parts {
public:
  explicit worker_parts(tern::detail::scheduler_core& core)
      : core_(core), workers_(core.cfg.workers), parts_(new worker_part[static_cast<std::size_t>(workers_) + 1]) {}

  tern::detail::scheduler_core& core() const noexcept { return core_; }
  int workers() const noexcept { return workers_; }
  /// \param i of a worker; `workers()`: of all other threads, where only atomic operations are
  /// allowed.
  worker_part& operator[](std::size_t i) const noexcept { return parts_[i]; }
  std::size_t size() const noexcept { return static_cast<std::size_t>(workers_) + 1; }
  /// Is it a worker of this scheduler? After the scheduler's end no worker is, whatever lies at its
  /// address.
  bool is_mine(const tern::detail::worker* w) const noexcept {
    return w && w->home == &core_ && !ended_.load(std::memory_order_relaxed);
  }
  /// That of the calling worker, or the shared one.
  worker_part& here() const noexcept {
    const tern::detail::worker* const w = tern::detail::this_worker();
    return parts_[is_mine(w) ? static_cast<std::size_t>(w->index) : static_cast<std::size_t>(workers_)];
  }
  /// The scheduler has ended. seq_cst: see `task_execution::release_access`.
  void end() noexcept { ended_.store(true, std::memory_order_seq_cst); }
  bool ended(std::memory_order order = std::memory_order_acquire) const noexcept { return ended_.load(order); }

private:
  tern::detail::scheduler_core& core_;
  const int workers_; // the core may be gone
  std::atomic<bool> ended_{false};
  const std::unique_ptr<worker_part[]> parts_;
};

/// Free records, in a block of the pool.
struct alignas(64) record_magazine {
  record_magazine* next;
  std::uint32_t count;
  static constexpr std::uint32_t capacity = 60;
  task_record* all[capacity];
};
static_assert(sizeof(record_magazine) <= sizeof(task_record));

/// Records of 512 bytes, and blocks of the same size for what does not fit into one. In steady
/// state nothing is allocated: each worker has a list of free ones, and gives back whole chains to
/// the others. Any thread.
class record_pool {
public:
  explicit record_pool(tern::detail::scheduler_core& core) : parts_(core) {}
  ~record_pool();
  record_pool(const record_pool&) = delete;
  record_pool& operator=(const record_pool&) = delete;

  worker_parts& parts() noexcept { return parts_; }
  const worker_parts& parts() const noexcept { return parts_; }
  task_record* allocate();
  void* allocate_block() { return allocate(); }
  void free(task_record* t) noexcept;
  /// Gives back many, as new ones, without touching them: what takes them next need not follow a
  /// list from one to the other, each of which is in another worker's cache. \pre `m` lies in a
  /// block of the pool, and is not empty.
  void free_magazine(record_magazine* m) noexcept;
  /// All magazines that are there, linked by `next`; null: none. \pre what is not used comes back.
  record_magazine* take_magazines() noexcept {
    if (!magazines_.load(std::memory_order_relaxed)) return nullptr;
    return magazines_.exchange(nullptr, std::memory_order_acquire);
  }
  /// As a new one, and the caller's. \pre no other thread knows it.
  void renew(task_record* t) noexcept;
  /// Gives back a block of another type than task_record.
  void free_block(void* block) noexcept { free(::new (block) task_record); }
  /// Drops a reference; the last one gives the record back.
  void unreference(task_record* t) noexcept {
    if (drop_reference(t)) free(t);
  }
  /// \return it was the last one: the record is the caller's.
  [[nodiscard]] static bool drop_reference(task_record* t) noexcept {
    // acquire: what others did with it is over. The last one need not write the count.
    return t->references.load(std::memory_order_acquire) == 1 ||
           t->references.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }
  /// Makes space for one more use. \pre the task is not submitted. \throws error(invalid_argument)
  /// for more than 255.
  use& add_use(task_record* t) {
    if (t->use_count < task_record::inline_uses) return t->slots[t->use_count++].of;
    return add_further_use(t);
  }
  /// The time of the task depends on this number. \pre it is not submitted.
  void set_size_number(task_record& t, std::uint64_t number);
  std::size_t records_made() noexcept; ///< memory, in records

private:
  task_record* unpack(record_magazine* m) noexcept;
  use& add_further_use(task_record* t);
  use_block* allocate_use_block(task_record* t);

  worker_parts parts_;
  alignas(64) std::atomic<task_record*> shared_free_{nullptr};
  std::atomic<record_magazine*> magazines_{nullptr};
  alignas(64) tern::detail::spin_lock foreign_; // protects the last part
  tern::detail::spin_lock chunks_lock_;
  std::vector<std::unique_ptr<task_record[]>> chunks_;
};

} // namespace tern::hetero::detail
