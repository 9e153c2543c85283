// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/submission/submission_window.hpp>

#include <algorithm>
#include <bit>
#include <chrono>

#include <unistd.h>

#include <tern/hetero/record/task_record.hpp>

namespace tern::hetero::detail {
namespace {

constexpr std::chrono::microseconds longest{1000}; // a fiber may hold what all that is left waits for
constexpr std::uint64_t window_per_worker = 64;    // that a window has at least
constexpr std::uint64_t looks_per_window = 8;
constexpr int narrow_waits = 4; // in a row, before the window grows: each is a sample
constexpr std::size_t usual_level2_bytes = std::size_t{1} << 20;

} // namespace

std::size_t level2_cache_bytes() noexcept {
  const long bytes = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : usual_level2_bytes;
}

std::uint64_t first_window(std::size_t cache_bytes, int workers) noexcept {
  const std::uint64_t fit = cache_bytes / 4 / sizeof(task_record);
  const std::uint64_t least = window_per_worker * static_cast<std::uint64_t>(workers);
  return std::bit_floor(std::clamp(std::max(fit, least), window_per_worker, submission_window::widest));
}

// What a simulation does must not depend on the machine.
submission_window::submission_window(outstanding_tasks& outstanding, int asked, int workers, bool simulated) noexcept
    : outstanding_(outstanding), first_(asked > 0   ? static_cast<std::uint64_t>(asked)
                                        : simulated ? widest
                                                    : first_window(level2_cache_bytes(), workers)),
      most_(asked > 0 ? first_ : widest),
      look_every_(std::bit_floor(std::max(first_ / looks_per_window, std::uint64_t{1}))), now_(first_) {}

void submission_window::look(bool wide) {
  const std::uint64_t limit = wide ? most_ : now();
  if (outstanding_.count() <= limit) return;
  const outstanding_tasks::progress seen = outstanding_.wait_for_fewer(limit / 4 * 3, longest);
  if (wide) return;
  using enum outstanding_tasks::progress;
  const int narrow = seen == too_narrow ? narrow_waits_.load(std::memory_order_relaxed) + 1 : 0;
  if (seen == enough)
    now_.store(std::max(limit / 2, first_), std::memory_order_relaxed);
  else if (seen == none || narrow >= narrow_waits)
    now_.store(std::min(limit * 2, most_), std::memory_order_relaxed);
  narrow_waits_.store(narrow < narrow_waits ? narrow : 0, std::memory_order_relaxed);
}

} // namespace tern::hetero::detail
