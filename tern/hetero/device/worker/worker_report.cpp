// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/device/worker/worker_report.hpp>

#include <mutex>

#include <tern/hetero/report/task_text.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::hetero::detail {

namespace {
// A worker leaves a snapshot after so many rounds without progress, in which it sleeps for some
// milliseconds, or before it sleeps for so many nanoseconds at once.
constexpr int snapshot_after = 256;
constexpr std::int64_t snapshot_delay = 1'000'000;
} // namespace

void worker_report::note(bool did, const load& now, std::int64_t poll_delay,
                         const std::function<std::string()>& snapshot) noexcept {
  kernels_.store(static_cast<int>(now.kernels), std::memory_order_relaxed);
  copies_.store(static_cast<int>(now.copies), std::memory_order_relaxed);
  waiting_.store(static_cast<int>(now.waiting), std::memory_order_relaxed);
  if (did) {
    if (still_rounds_ == 0) return;
    still_since_.store(goes_on, std::memory_order_relaxed);
    if (still_rounds_ == snapshot_after) {
      const std::lock_guard hold(lock_);
      snapshot_.clear();
    }
    still_rounds_ = 0;
    return;
  }
  if (still_rounds_ == snapshot_after) return;
  if (still_rounds_ == 0) still_since_.store(tern::detail::ticks(), std::memory_order_relaxed);
  if (++still_rounds_ < snapshot_after && poll_delay < snapshot_delay) return;
  still_rounds_ = snapshot_after;
  std::string text = snapshot();
  const std::lock_guard hold(lock_);
  snapshot_.swap(text);
}

std::string worker_report::describe(const std::string& id, const tern::detail::scheduler_core& core,
                                    std::chrono::milliseconds limit) {
  const auto now = [](const std::atomic<int>& n) {
    return static_cast<std::size_t>(n.load(std::memory_order_relaxed));
  };
  const std::size_t kernels = now(kernels_), copies = now(copies_), wait = now(waiting_);
  if (kernels + copies + wait == 0) return {};
  std::string text;
  if (kernels > 0) append(text, counted(kernels, "kernel", "kernels") + " under way");
  if (copies > 0) append(text, counted(copies, "copy", "copies") + " under way");
  if (wait > 0) append(text, counted(wait, "task waits", "tasks wait") + " for its memory");
  text = "    device " + id + ": " + text;
  if (const std::int64_t since = still_since_.load(std::memory_order_relaxed); since != goes_on)
    text += ", nothing has ended there since " + seconds(core.seconds_since(since));
  text += "\n";
  const auto hold = tern::detail::try_within(lock_, limit);
  return text + (hold ? snapshot_ : "      (another thread holds the lock on what it is at)\n");
}

} // namespace tern::hetero::detail
