// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/graph/batch/task_bundle.hpp>

#include <algorithm>
#include <atomic>
#include <exception>
#include <new>
#include <utility>

#include <tern/hetero/graph/runtime.hpp>
#include <tern/hetero/record/failure.hpp>
#include <tern/trace/trace.hpp>

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

namespace {
/// Runs tasks of a bundle one after the other, and does once for all of them what need not be done
/// for each: the runner's stack is given back, and they are counted. \pre none of them waits, so
/// the worker stays the same.
class row_of_tasks {
public:
  explicit row_of_tasks(runtime& home) noexcept
      : home_(home), worker_(*tern::detail::this_worker()), outer_(worker_.running->task), began_(home.core().now()) {}
  row_of_tasks(const row_of_tasks&) = delete;
  row_of_tasks& operator=(const row_of_tasks&) = delete;
  ~row_of_tasks() {
    while (free_count_ > 0) home_.records().free(free_[--free_count_]); // the bundle is not at its end
    worker_.running->task = outer_;
    std::atomic<std::uint64_t>& on_host = home_.parts()[static_cast<std::size_t>(worker_.index)].on_host;
    on_host.store(on_host.load(std::memory_order_relaxed) + plain_, std::memory_order_relaxed);
    if (ended_ > 0) home_.outstanding().count_completed(ended_);
  }

  tern::detail::worker& here() const noexcept { return worker_; }
  /// Gives back the records that are free now, and this block of the pool.
  void free_with(void* block) noexcept {
    if (free_count_ == 0) return home_.records().free_block(static_cast<task_record*>(block));
    static_assert(task_bundle::capacity <= record_magazine::capacity);
    auto* const m = ::new (block) record_magazine;
    m->count = std::exchange(free_count_, 0);
    std::copy_n(free_.begin(), m->count, m->all);
    home_.records().free_magazine(m);
  }
  /// Do its tasks take longer than it takes to give one away? As far as they have run.
  bool are_long() const noexcept {
    constexpr std::int64_t give_away = 5000; // nanoseconds
    return ran_ > 0 && home_.core().now() - began_ > give_away * ran_;
  }
  void run(task_record* t) noexcept {
    ++ran_;
    if ((t->flags & task_execution::own_ways) != 0 || !t->sound() || trace::on()) [[unlikely]]
      return home_.execution().run_here(t);
    ++plain_;
    worker_.running->task = t; // task_execution::task_here
    try {
      t->work->run(*t);
    } catch (...) {
      fail(t, std::current_exception());
    }
    ++ended_;
    if (!t->work->destroy && task_execution::forget(t)) [[likely]]
      return keep(t);
    home_.execution().complete_uncounted(t, false);
  }

private:
  void keep(task_record* t) noexcept {
    home_.records().renew(t);
    free_[free_count_++] = t;
  }

  runtime& home_;
  tern::detail::worker& worker_;
  const void* const outer_;
  const std::int64_t began_;
  std::int64_t ran_ = 0;
  std::uint64_t plain_ = 0, ended_ = 0;
  std::uint32_t free_count_ = 0;
  std::array<task_record*, task_bundle::capacity> free_;
};
} // namespace

worker_base* task_bundle::run_all(tasklet* x) noexcept {
  auto& b = *static_cast<task_bundle*>(x);
  runtime& home = *b.tasks_[b.first_]->home;
  // The records of those that come next are on their way into the cache meanwhile.
  constexpr std::uint32_t ahead = 4;
  // So many are given away however short they are: what one takes is less than what it takes to be
  // given away.
  constexpr std::uint32_t many = 32;
  row_of_tasks row(home);
  for (;;) {
    const std::uint32_t left = b.end_ - b.first_;
    if (left > 1 && row.here().any_worker_idle() && (left >= many || row.are_long())) b.push_later_half();
    if (b.first_ + ahead < b.end_) __builtin_prefetch(b.tasks_[b.first_ + ahead], 1);
    row.run(b.tasks_[b.first_++]);
    if (b.first_ == b.end_) break;
    if (row.here().budget_exhausted()) {
      home.execution().push_to_host(&b, run_all);
      return &row.here();
    }
  }
  row.free_with(&b);
  return &row.here();
}

} // namespace tern::hetero::detail
