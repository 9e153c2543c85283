// SPDX-License-Identifier: Apache-2.0
/// \file
/// How far tasks have come, and who waits for that; and tasks that commute.
#include <tern/hetero/graph/runtime.hpp>

#include <chrono>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/base/log.hpp>

namespace tern::hetero::detail {

using tern::detail::worker;

// Waiting -------------------------------------------------------------------------------------------------------------

void runtime::count_submitted(worker_part& p, bool mine) noexcept {
  if (mine)
    p.submitted.store(p.submitted.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  else
    p.submitted.fetch_add(1, std::memory_order_release);
}

// Whoever waits says so, passes a barrier for all threads, then counts; whoever completes counts, then looks whether
// somebody waits. One sees the other.
void runtime::count_completed() noexcept {
  const worker* const w = tern::detail::this_worker();
  if (is_mine(w)) [[likely]] {
    worker_part& p = parts_[static_cast<std::size_t>(w->index)];
    const std::uint64_t n = p.completed.load(std::memory_order_relaxed) + 1;
    if (light_) {
      // release: pairs with the acquire in `outstanding`: what the task did
      p.completed.store(n, std::memory_order_release);
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      p.completed.exchange(n, std::memory_order_seq_cst);
    }
  } else {
    parts_[static_cast<std::size_t>(workers())].completed.fetch_add(1, std::memory_order_seq_cst);
  }
  if (watchers_.load(light_ ? std::memory_order_relaxed : std::memory_order_seq_cst) > 0) [[unlikely]]
    tell_of_progress();
}

// What has been completed first: both numbers only grow, and the one is never above the other; so if they are equal,
// there was a moment between the two sums at which nothing was left.
std::uint64_t runtime::outstanding() const noexcept {
  std::uint64_t completed = 0, submitted = 0;
  const auto parts = static_cast<std::size_t>(workers()) + 1;
  for (std::size_t i = 0; i < parts; ++i) completed += parts_[i].completed.load(std::memory_order_seq_cst);
  for (std::size_t i = 0; i < parts; ++i) submitted += parts_[i].submitted.load(std::memory_order_seq_cst);
  return submitted - completed;
}

void runtime::tell_of_progress() noexcept {
  // Of two who complete the last two tasks at once, the later one here sees what the earlier one has counted.
  watchers_.fetch_add(0, std::memory_order_seq_cst);
  const std::uint64_t left = outstanding();
  std::vector<progress_waiter> reached;
  {
    const std::lock_guard hold(progress_lock_);
    for (std::size_t i = 0; i < progress_.size();) {
      if (progress_[i].left < left) {
        ++i;
        continue;
      }
      reached.push_back(std::move(progress_[i]));
      progress_[i] = std::move(progress_.back());
      progress_.pop_back();
      watchers_.fetch_sub(1, std::memory_order_relaxed);
    }
  }
  for (progress_waiter& w : reached) w.reached.set_value();
}

void runtime::wait_for_progress(std::uint64_t left, const std::chrono::microseconds* at_most) {
  const std::uint64_t id = tick();
  progress_waiter me{left, id, promise<void>()};
  future<void> reached = me.reached.get_future();
  {
    const std::lock_guard hold(progress_lock_);
    progress_.push_back(std::move(me));
    watchers_.fetch_add(1, std::memory_order_seq_cst);
  }
  if (light_) core_.barrier();
  tell_of_progress();
  if (!at_most) return reached.wait();
  if (reached.wait_for(*at_most) == future_status::ready) return;
  const std::lock_guard hold(progress_lock_);
  if (std::erase_if(progress_, [id](const progress_waiter& w) { return w.id == id; }) > 0)
    watchers_.fetch_sub(1, std::memory_order_relaxed);
}

void runtime::wait_all() {
  if (const task_record* const t = task_here(); t && t->home == this)
    throw error(errc::invalid_state,
                std::string("wait_all in task '") + t->text_name() + "' would wait for that task, for ever",
                "call it where tasks are submitted; in a task, wait() for those that it needs");
  if (outstanding() > 0) wait_for_progress(0, nullptr);
  std::vector<task_record*> failed;
  {
    const std::lock_guard hold(failure_lock_);
    failed.swap(failed_);
  }
  std::exception_ptr why;
  std::size_t more = 0;
  for (task_record* t : failed) {
    if (!(t->marks.load(std::memory_order_relaxed) & task_record::failure_seen) && more++ == 0) why = t->failure;
    unreference(t);
  }
  if (!why) return;
  if (more > 1) log_info("wait_all: " + std::to_string(more) + " tasks failed; the first one's error follows");
  std::rethrow_exception(why);
}

void runtime::wait(task_record* t) {
  struct waiting final : completion_hook {
    waiting() noexcept
        : completion_hook{[](completion_hook& h, task_record&) noexcept {
            const std::unique_ptr<waiting> self(static_cast<waiting*>(&h));
            self->over.set_value();
          }} {}
    promise<void> over;
  };
  t->marks.fetch_or(task_record::failure_seen, std::memory_order_relaxed);
  if (!t->is_done()) {
    if (task_here() == t)
      throw error(errc::invalid_state, std::string("task '") + t->text_name() + "' would wait for itself, for ever",
                  "wait for it from elsewhere");
    auto h = std::make_unique<waiting>(); // in the task's list: that may be followed when this stack is gone
    future<void> over = h->over.get_future();
    if (hook(t, *h)) {
      static_cast<void>(h.release()); // it deletes itself
      over.wait();
    }
  }
  if (t->has_failed()) std::rethrow_exception(t->failure);
}

// Commuting -----------------------------------------------------------------------------------------------------------

// Under commute_lock_. \return true: it has all; else it waits in the list of one that another has.
bool runtime::take_commuting(task_record* t) noexcept {
  for (std::size_t i = 0; i < t->use_count; ++i) {
    const use& u = t->use_at(i);
    if (u.how != access_mode::commute || !u.object->commuter || u.object->commuter == t) continue;
    object_state& o = *u.object;
    t->next = nullptr;
    (o.commuters_first ? o.commuters_last->next : o.commuters_first) = t;
    o.commuters_last = t;
    return false;
  }
  for (std::size_t i = 0; i < t->use_count; ++i)
    if (use& u = t->use_at(i); u.how == access_mode::commute) u.object->commuter = t;
  return true;
}

bool runtime::lock_commuting(task_record* t) {
  const std::lock_guard hold(commute_lock_);
  return take_commuting(t);
}

void runtime::unlock_commuting(task_record* t) noexcept {
  task_record* freed = nullptr; // that can begin now
  {
    const std::lock_guard hold(commute_lock_);
    for (std::size_t i = 0; i < t->use_count; ++i)
      if (use& u = t->use_at(i); u.how == access_mode::commute && u.object->commuter == t) u.object->commuter = nullptr;
    for (std::size_t i = 0; i < t->use_count; ++i) {
      if (t->use_at(i).how != access_mode::commute) continue;
      object_state& o = *t->use_at(i).object;
      while (o.commuters_first && !o.commuter) { // the first that needs nothing else; others wait elsewhere from now on
        task_record* const x = o.commuters_first;
        o.commuters_first = std::exchange(x->next, nullptr);
        if (!take_commuting(x)) continue;
        x->next = freed;
        freed = x;
      }
    }
  }
  while (freed) {
    task_record* const x = freed;
    freed = std::exchange(x->next, nullptr);
    make_ready(x, false); // it has the locks: they are taken again at once
  }
}

} // namespace tern::hetero::detail
