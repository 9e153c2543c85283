// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/graph/wait_all.hpp>

#include <algorithm>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include <tern/base/log.hpp>
#include <tern/task/fiber/sanitizer.hpp>

namespace tern::hetero::detail {

using tern::detail::worker;

namespace {
bool seen_otherwise(const task_record* t) noexcept {
  return (t->marks.load(std::memory_order_relaxed) & (task_record::inherited | task_record::failure_seen)) != 0;
}
} // namespace

outstanding_tasks::outstanding_tasks(record_pool& records)
    : records_(records), parts_(records.parts()),
      light_(parts_.core().barrier.usable() && !parts_.core().executor && !tern::detail::tsan::enabled) {}

void outstanding_tasks::count_completed() noexcept {
  const worker* const w = tern::detail::this_worker();
  if (parts_.is_mine(w)) [[likely]] {
    worker_part& p = parts_[static_cast<std::size_t>(w->index)];
    const std::uint64_t n = p.completed.load(std::memory_order_relaxed) + 1;
    if (light_) {
      // release: pairs with the acquire in `count`: what the task did
      p.completed.store(n, std::memory_order_release);
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      p.completed.exchange(n, std::memory_order_seq_cst);
    }
  } else {
    parts_[static_cast<std::size_t>(parts_.workers())].completed.fetch_add(1, std::memory_order_seq_cst);
  }
  if (watchers_.load(light_ ? std::memory_order_relaxed : std::memory_order_seq_cst) > 0) [[unlikely]]
    wake_waiters();
}

// What has been completed first: both numbers only grow, and the one is never above the other; so
// if they are equal, there was a moment between the two sums at which nothing was left.
std::uint64_t outstanding_tasks::count() const noexcept {
  std::uint64_t completed = 0, submitted = 0;
  const std::span<const worker_part> all(&parts_[0], parts_.size());
  for (const worker_part& p : all) completed += p.completed.load(std::memory_order_seq_cst);
  for (const worker_part& p : all) submitted += p.submitted.load(std::memory_order_seq_cst);
  return submitted - completed;
}

void outstanding_tasks::wake_waiters() noexcept {
  // Of two threads that complete the last two tasks at once, the later one here sees what the
  // earlier one has counted.
  watchers_.fetch_add(0, std::memory_order_seq_cst);
  const std::uint64_t left = count();
  std::vector<waiter> reached;
  {
    const std::lock_guard hold(waiters_lock_);
    for (std::size_t i = 0; i < waiters_.size();) {
      if (waiters_[i].left < left) {
        ++i;
        continue;
      }
      reached.push_back(std::move(waiters_[i]));
      waiters_[i] = std::move(waiters_.back());
      waiters_.pop_back();
      watchers_.fetch_sub(1, std::memory_order_relaxed);
    }
  }
  for (waiter& w : reached) w.reached.set_value();
}

void outstanding_tasks::wait(std::uint64_t left, const std::chrono::microseconds* at_most) {
  waiter me{left, 0, promise<void>()};
  future<void> reached = me.reached.get_future();
  std::uint64_t id = 0;
  {
    const std::lock_guard hold(waiters_lock_);
    id = me.id = ++last_id_;
    waiters_.push_back(std::move(me));
    watchers_.fetch_add(1, std::memory_order_seq_cst);
  }
  if (light_) parts_.core().barrier();
  wake_waiters();
  if (!at_most) return reached.wait();
  if (reached.wait_for(*at_most) == future_status::ready) return;
  const std::lock_guard hold(waiters_lock_);
  if (std::erase_if(waiters_, [id](const waiter& w) { return w.id == id; }) > 0)
    watchers_.fetch_sub(1, std::memory_order_relaxed);
}

void outstanding_tasks::note_failure(task_record* t) noexcept {
  if (t->flags & task_record::hidden || seen_otherwise(t)) return;
  constexpr std::size_t kept = 64;
  const std::lock_guard hold(failure_lock_);
  if (failed_.size() == kept) { // failures that the program has seen meanwhile go
    const auto end = std::partition(failed_.begin(), failed_.end(), [](task_record* x) { return !seen_otherwise(x); });
    std::for_each(end, failed_.end(), [&](task_record* x) { records_.unreference(x); });
    failed_.erase(end, failed_.end());
    if (failed_.size() == kept) return; // enough to tell
  }
  t->references.fetch_add(1, std::memory_order_relaxed);
  failed_.push_back(t);
}

void outstanding_tasks::rethrow_failure() {
  std::vector<task_record*> failed;
  {
    const std::lock_guard hold(failure_lock_);
    failed.swap(failed_);
  }
  std::exception_ptr why;
  std::size_t more = 0;
  for (task_record* t : failed) {
    if (!(t->marks.load(std::memory_order_relaxed) & task_record::failure_seen) && more++ == 0) why = t->failure;
    records_.unreference(t);
  }
  if (!why) return;
  if (more > 1) log_info("wait_all: " + std::to_string(more) + " tasks failed; the first one's error follows");
  std::rethrow_exception(why);
}

void outstanding_tasks::drop_waiters() noexcept {
  std::vector<waiter> unreached; // goes after the lock
  const std::lock_guard hold(waiters_lock_);
  unreached.swap(waiters_);
}

std::size_t outstanding_tasks::drop_failures() noexcept {
  std::size_t unseen = 0;
  for (task_record* t : std::exchange(failed_, {})) {
    unseen += (t->marks.load(std::memory_order_relaxed) & task_record::failure_seen) ? 0 : 1;
    records_.unreference(t);
  }
  return unseen;
}

} // namespace tern::hetero::detail
