// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/graph/batch/task_bundle.hpp>

#include <algorithm>
#include <new>
#include <utility>

#include <tern/hetero/graph/runtime.hpp>

namespace tern::hetero::detail {

using tern::detail::tasklet;
using tern::detail::worker_base;

task_bundle::task_bundle(std::span<task_record* const> tasks) noexcept
    : end_(static_cast<std::uint32_t>(tasks.size())) {
  std::copy(tasks.begin(), tasks.end(), tasks_.begin());
}

void task_bundle::push(std::span<task_record* const> tasks) noexcept {
  runtime& home = *tasks.front()->home;
  if (tasks.size() == 1) return home.execution().push_to_host(tasks.front());
  home.execution().push_to_host(::new (home.records().allocate_block()) task_bundle(tasks), run_all);
}

void task_bundle::push_later_half() noexcept {
  const std::uint32_t middle = first_ + (end_ - first_ + 1) / 2;
  const std::uint32_t end = std::exchange(end_, middle);
  push(std::span<task_record* const>(tasks_).subspan(middle, end - middle));
}

worker_base* task_bundle::run_all(tasklet* x) noexcept {
  auto& b = *static_cast<task_bundle*>(x);
  runtime& home = *b.tasks_[b.first_]->home;
  // The records of those that come next are on their way into the cache meanwhile.
  constexpr std::uint32_t ahead = 4;
  for (;;) {
    worker_base& w = *tern::detail::this_worker_base();
    if (b.end_ - b.first_ > 1 && w.any_worker_idle()) b.push_later_half();
    if (b.first_ + ahead < b.end_) __builtin_prefetch(b.tasks_[b.first_ + ahead], 1);
    home.execution().run_here(b.tasks_[b.first_++]);
    if (b.first_ == b.end_) break;
    if (tern::detail::this_worker_base()->budget_exhausted()) {
      home.execution().push_to_host(&b, run_all);
      return tern::detail::this_worker_base();
    }
  }
  home.records().free_block(&b);
  return tern::detail::this_worker_base();
}

} // namespace tern::hetero::detail
