// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/submission/wait_all.hpp>

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
constexpr std::uint64_t tell_every = 16; // tasks that a worker completes, until those are told that may be late

bool seen_otherwise(const task_record* t) noexcept {
  return (t->marks.load(std::memory_order_relaxed) & (task_record::inherited | task_record::failure_seen)) != 0;
}
} // namespace

outstanding_tasks::outstanding_tasks(record_pool& records)
    : records_(records), parts_(records.parts()),
      light_(parts_.core().barrier.usable() && !parts_.core().executor && !tern::detail::tsan::enabled) {}

void outstanding_tasks::count_completed(std::uint64_t tasks) noexcept {
  const worker* const w = tern::detail::this_worker();
  bool tells = false;
  if (parts_.is_mine(w)) [[likely]] {
    worker_part& p = parts_[static_cast<std::size_t>(w->index)];
    const std::uint64_t before = p.completed.load(std::memory_order_relaxed), n = before + tasks;
    tells = before / tell_every != n / tell_every;
    if (light_) {
      // release: pairs with the acquire in `count`: what the tasks did
      p.completed.store(n, std::memory_order_release);
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      p.completed.exchange(n, std::memory_order_seq_cst);
    }
  } else {
    parts_[static_cast<std::size_t>(parts_.workers())].completed.fetch_add(tasks, std::memory_order_seq_cst);
    tells = true; // how many these threads have completed is not looked at
  }
  if (watchers_.load(light_ ? std::memory_order_relaxed : std::memory_order_seq_cst) > 0) [[unlikely]]
    wake_waiters();
  // A waiter that none of these sees waits for as long as it may.
  else if (tells && late_watchers_.load(std::memory_order_relaxed) > 0) [[unlikely]]
    wake_waiters();
}

// What has been completed first: both numbers only grow, and the one is never above the other; so
// if they are equal, there was a moment between the two sums at which nothing was left.
std::uint64_t outstanding_tasks::count() const noexcept {
  std::uint64_t submitted = 0;
  const std::uint64_t over = completed();
  for (const worker_part& p : std::span<const worker_part>(&parts_[0], parts_.size()))
    submitted += p.submitted.load(std::memory_order_seq_cst);
  return submitted - over;
}

std::uint64_t outstanding_tasks::completed() const noexcept {
  std::uint64_t all = 0;
  for (const worker_part& p : std::span<const worker_part>(&parts_[0], parts_.size()))
    all += p.completed.load(std::memory_order_seq_cst);
  return all;
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
    }
    for (const waiter& w : reached) watchers_of(w.left).fetch_sub(1, std::memory_order_relaxed);
  }
  if (reached.empty()) return;
  const progress now = progress_now();
  for (waiter& w : reached) w.reached.set_value(now);
}

// So many are left then that a worker completes its next `tell_every` soon.
std::atomic<int>& outstanding_tasks::watchers_of(std::uint64_t left) noexcept {
  return left > 2 * tell_every * static_cast<std::uint64_t>(parts_.workers()) ? late_watchers_ : watchers_;
}

std::uint64_t outstanding_tasks::add(waiter&& w) {
  const std::lock_guard hold(waiters_lock_);
  const std::uint64_t id = w.id = ++last_id_;
  std::atomic<int>& watchers = watchers_of(w.left);
  waiters_.push_back(std::move(w));
  watchers.fetch_add(1, std::memory_order_seq_cst);
  return id;
}

void outstanding_tasks::wait() {
  waiter me{0, 0, promise<progress>()};
  future<progress> reached = me.reached.get_future();
  add(std::move(me));
  if (light_) parts_.core().barrier();
  wake_waiters();
  reached.wait();
}

outstanding_tasks::progress outstanding_tasks::wait_for_fewer(std::uint64_t left, std::chrono::microseconds at_most) {
  const std::uint64_t before = completed();
  waiter me{left, 0, promise<progress>()};
  future<progress> reached = me.reached.get_future();
  const std::uint64_t id = add(std::move(me));
  if (&watchers_of(left) == &watchers_) { // a completion that did not see it may have been the last
    if (light_) parts_.core().barrier();
    wake_waiters();
  }
  if (reached.wait_for(at_most) == future_status::ready) return reached.get();
  {
    const std::lock_guard hold(waiters_lock_);
    if (std::erase_if(waiters_, [id](const waiter& w) { return w.id == id; }) > 0)
      watchers_of(left).fetch_sub(1, std::memory_order_relaxed);
  }
  return completed() == before ? progress::none : progress_now();
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

// A guess. That no worker looks for work does not tell enough: one may just have found the only
// task. That one does tells too much where the machine does not run the worker that has the tasks.
outstanding_tasks::progress outstanding_tasks::progress_now() const noexcept {
  const tern::detail::scheduler_core& core = parts_.core();
  const bool idle = core.parking.searching.load(std::memory_order_relaxed) > 0 ||
                    core.parking.asleep.load(std::memory_order_relaxed) > 0;
  const bool ready =
      std::any_of(core.workers.begin(), core.workers.end(), [](const auto& w) { return w->deque.size() > 0; });
  return idle && !ready ? progress::too_narrow : progress::enough;
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
