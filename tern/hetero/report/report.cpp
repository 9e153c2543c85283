// SPDX-License-Identifier: Apache-2.0
/// \file
/// What dumps and reports say of tasks: which accesses are held, what waits for them, and what
/// devices have to do.
///
/// They are made when a program stands still for ever, and while it runs. So nothing is looked at
/// that may go meanwhile: a host access is in its worker's list, and does not end while that list's
/// lock is held; what waits for it can then not end either, nor what waits for that, and so on.
/// Only its worker may look at what a device has to do: it leaves a snapshot when nothing has ended
/// there for a while.
#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <tern/hetero/graph/runtime.hpp>
#include <tern/hetero/report/task_text.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::hetero::detail {
namespace {

/// What `t`, which reads its part, follows and that have not ended: those that write it. \pre `t`
/// does not end meanwhile.
std::string writers_before(const task_record& t, const use& u) {
  const auto hold = tern::detail::try_within(u.object->lock, object_lock_wait);
  if (!hold) return {};
  std::vector<std::string> before;
  u.object->each(u.part, [&](fragment& f) {
    for (const task_record* w : f.writers)
      if (w != &t && !w->is_done())
        if (std::string name = called_while_it_runs(*w); std::find(before.begin(), before.end(), name) == before.end())
          before.push_back(std::move(name));
  });
  return joined(before);
}

} // namespace

std::string describe_tasks(runtime& r, std::chrono::milliseconds limit) {
  const std::uint64_t left = r.outstanding().count();
  if (left == 0) return {};
  std::string text =
      "  tasks on objects: " + std::to_string(left) + " that have not ended, with those for host access\n";
  struct timed_line {
    std::int64_t asked;
    std::string text;
  };
  std::vector<timed_line> held, waiting;
  std::size_t held_count = 0, waiting_count = 0;
  task_set named;
  const auto each_part = [&](auto&& f) {
    const worker_parts& parts = r.parts();
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto hold = tern::detail::try_within(parts[i].accesses_lock, limit);
      if (!hold) {
        text += "    (host accesses: another thread holds the lock on one of their lists)\n";
        return;
      }
      for (const access_note* a = parts[i].accesses; a; a = a->next) f(*a);
    }
  };
  each_part([&](const access_note& a) {
    const std::int64_t since = a.granted.load(std::memory_order_relaxed);
    if (since == access_note::waits || ++held_count > report_lines) return;
    held.push_back({a.asked, "    " + called(a) + " to " + text_of_use(a.task->use_at(0)) + ", held since " +
                                 seconds(r.core().seconds_since(since)) + "\n" + describe_waiting(*a.task, named)});
  });
  each_part([&](const access_note& a) {
    if (a.granted.load(std::memory_order_relaxed) != access_note::waits || named.contains(a.task) ||
        ++waiting_count > report_lines)
      return;
    const use& u = a.task->use_at(0);
    std::string before = a.how == access_mode::read ? writers_before(*a.task, u) : std::string();
    if (before.empty()) {
      const std::int32_t n = a.task->pending.load(std::memory_order_relaxed);
      before = n > 0 && n < task_record::not_submitted / 2
                   ? counted(static_cast<std::size_t>(n), "task or copy", "tasks or copies") + " before it"
                   : "its turn";
    }
    waiting.push_back({a.asked, "    " + called(a) + " to " + text_of_use(u) + ", since " +
                                    seconds(r.core().seconds_since(a.asked)) + ", waits for " + before + "\n"});
  });
  for (auto* const list : {&held, &waiting}) {
    std::sort(list->begin(), list->end(), [](const timed_line& a, const timed_line& b) {
      return a.asked != b.asked ? a.asked < b.asked : a.text < b.text;
    });
    for (const timed_line& one : *list) text += one.text;
  }
  if (held_count > report_lines)
    text += "    and " + std::to_string(held_count - report_lines) + " more that are held\n";
  if (waiting_count > report_lines)
    text += "    and " + std::to_string(waiting_count - report_lines) + " more that wait\n";
  r.devices().each_queue([&](device_queue& q) { text += q.describe(limit); });
  text += r.placement().describe(limit);
  if (r.pager()) text += r.pager()->describe();
  return text;
}

} // namespace tern::hetero::detail
