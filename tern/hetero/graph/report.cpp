// SPDX-License-Identifier: Apache-2.0
/// \file
/// What dumps and reports say of tasks: who holds access to what, what waits for it, and what devices are at.
///
/// They are asked for when a program stands still for ever, and while it runs. So nothing is looked at that may go
/// meanwhile: a host access is in its worker's list, and does not end while that list's lock is held; what waits for it
/// can then not end either, nor what waits for that, and so on. What a device is at only its driver may look at: it
/// leaves a picture when nothing has gone on there for a while.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/hetero/data/access_note.hpp>
#include <tern/hetero/device/device_worker.hpp>
#include <tern/hetero/graph/runtime.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::hetero::detail {
namespace {

constexpr std::size_t listed = 8;       // of things that may be thousands
constexpr std::size_t followed = 10000; // tasks that wait for one, directly or not
// A driver leaves a picture after so many rounds without progress, in which it sleeps for some milliseconds, or before
// it sleeps for so many nanoseconds at once.
constexpr int picture_after = 256;
constexpr std::int64_t picture_patience = 1'000'000;
constexpr std::chrono::milliseconds of_an_object{20}; // to wait for its lock

using task_set = std::unordered_set<const task_record*>; // address: only asked whether it holds one

std::string counted(std::size_t n, const char* one, const char* many) {
  return std::to_string(n) + " " + (n == 1 ? one : many);
}
std::string seconds(double s) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f s", s);
  return text;
}
void append(std::string& list, const std::string& what, const char* separator = ", ") {
  if (!list.empty()) list += separator;
  list += what;
}
std::string joined(const std::vector<std::string>& all) {
  std::string list;
  for (std::size_t i = 0; i < std::min(all.size(), listed); ++i) append(list, all[i]);
  if (all.size() > listed) list += " and " + std::to_string(all.size() - listed) + " more";
  return list;
}

const char* words_for(access_mode how) noexcept {
  switch (how) {
  case access_mode::read:
    return "read";
  case access_mode::write:
    return "write";
  case access_mode::read_write:
    return "read and write";
  case access_mode::commute:
    break;
  }
  return "commute";
}

std::string text_of_use(const use& u) {
  const auto hold = tern::detail::try_within(u.object->lock, of_an_object);
  return hold ? u.object->text(u.part) : "an object that another thread has locked";
}

std::string place(const std::source_location& where) { return error(errc::internal, "", "", where).place(); }

/// "host access (read) at app.cpp:31 by fiber 5".
std::string called(const access_note& a) {
  return std::string("host access (") + words_for(a.how) + ") at " + place(a.where) +
         (a.fiber ? " by fiber " + std::to_string(a.fiber) : "");
}
const access_note* access_of(const task_record& t) noexcept {
  return t.work == &host_access_work ? &const_cast<task_record&>(t).work_as<access_note>() : nullptr;
}

/// \pre it cannot end meanwhile.
std::string called(const task_record& t) {
  if (const access_note* const a = access_of(t)) return called(*a);
  return std::string("task '") + t.text_name() + "'";
}

/// A task that may end meanwhile, but whose record stays: then its closure goes, unless nothing has to be done for
/// that.
std::string called_while_it_runs(const task_record& t) {
  if (const char* const name = t.name.load(std::memory_order_acquire)) return std::string("task '") + name + "'";
  return t.work && t.work->name && !t.work->destroy ? std::string("task '") + t.work->name(t) + "'" : "a task";
}

/// Those that wait for a task: directly, or for one that does.
struct waiting_for {
  std::vector<std::string> directly;
  std::size_t later = 0;
};

/// \pre `first` cannot end meanwhile. \param told gets those that are named.
waiting_for find_waiting(const task_record& first, task_set& told) {
  waiting_for found;
  task_set seen{&first};
  std::vector<std::pair<const task_record*, bool>> to_look_at{{&first, true}}; // with: named tasks follow it directly
  for (std::size_t i = 0; i < to_look_at.size() && seen.size() < followed; ++i) {
    const auto [t, direct] = to_look_at[i];
    // acquire: the links, and what their tasks are. address: of links and tasks, as `follow` has put them there
    std::uintptr_t list = t->successors.load(std::memory_order_acquire);
    if (list == closed_list) list = 0;
    for (auto* l = reinterpret_cast<const link*>(list); l && seen.size() < followed; l = l->next) {
      if ((l->target & edge_bits) == hook_edge) continue;
      const auto* const next = reinterpret_cast<const task_record*>(l->target & ~edge_bits);
      if (!seen.insert(next).second) continue;
      const bool joins = !next->work; // it only stands for all that it follows
      to_look_at.emplace_back(next, direct && joins);
      if (joins) continue;
      if (!direct) {
        ++found.later;
        continue;
      }
      told.insert(next);
      found.directly.push_back(called(*next));
    }
  }
  std::reverse(found.directly.begin(), found.directly.end()); // the last to come stands first in lists
  return found;
}

std::string describe_waiting(const task_record& first, task_set& told) {
  const waiting_for w = find_waiting(first, told);
  if (w.directly.empty()) return {};
  return "      for it " + std::string(w.directly.size() == 1 ? "waits " : "wait ") + joined(w.directly) +
         (w.later ? ", and " + std::to_string(w.later) + " more after " + (w.directly.size() == 1 ? "it" : "these")
                  : std::string()) +
         "\n";
}

/// What `t`, which reads its part, follows and has not ended: those that write it. \pre `t` does not end meanwhile.
std::string writers_before(const task_record& t, const use& u) {
  const auto hold = tern::detail::try_within(u.object->lock, of_an_object);
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

std::string runtime::describe(std::chrono::milliseconds limit) {
  const std::uint64_t left = outstanding();
  if (left == 0) return {};
  std::string text =
      "  tasks on objects: " + std::to_string(left) + " that have not ended, with those for host access\n";
  struct told_access {
    std::int64_t asked;
    std::string text;
  };
  std::vector<told_access> held, waiting;
  std::size_t held_count = 0, waiting_count = 0;
  task_set told;
  const auto each_part = [&](auto&& f) {
    for (std::size_t i = 0; i <= static_cast<std::size_t>(workers()); ++i) {
      const auto hold = tern::detail::try_within(parts_[i].accesses_lock, limit);
      if (!hold) {
        text += "    (host accesses: another thread holds the lock on one of their lists)\n";
        return;
      }
      for (const access_note* a = parts_[i].accesses; a; a = a->next) f(*a);
    }
  };
  each_part([&](const access_note& a) {
    const std::int64_t since = a.granted.load(std::memory_order_relaxed);
    if (since == 0 || ++held_count > listed) return;
    held.push_back({a.asked, "    " + called(a) + " to " + text_of_use(a.task->use_at(0)) + ", held since " +
                                 seconds(core_.seconds_since(since)) + "\n" + describe_waiting(*a.task, told)});
  });
  each_part([&](const access_note& a) {
    if (a.granted.load(std::memory_order_relaxed) != 0 || told.contains(a.task) || ++waiting_count > listed) return;
    const use& u = a.task->use_at(0);
    std::string before = a.how == access_mode::read ? writers_before(*a.task, u) : std::string();
    if (before.empty()) {
      const std::int32_t n = a.task->pending.load(std::memory_order_relaxed);
      before = n > 0 && n < task_record::not_submitted / 2
                   ? counted(static_cast<std::size_t>(n), "task or copy", "tasks or copies") + " before it"
                   : "its turn";
    }
    waiting.push_back({a.asked, "    " + called(a) + " to " + text_of_use(u) + ", since " +
                                    seconds(core_.seconds_since(a.asked)) + ", waits for " + before + "\n"});
  });
  for (auto* const list : {&held, &waiting}) {
    std::sort(list->begin(), list->end(), [](const told_access& a, const told_access& b) {
      return a.asked != b.asked ? a.asked < b.asked : a.text < b.text;
    });
    for (const told_access& one : *list) text += one.text;
  }
  if (held_count > listed) text += "    and " + std::to_string(held_count - listed) + " more that are held\n";
  if (waiting_count > listed) text += "    and " + std::to_string(waiting_count - listed) + " more that wait\n";
  for (const auto& d : drivers_)
    if (d) text += d->describe(limit);
  if (const auto hold = tern::detail::try_within(policy_lock_, limit); !hold)
    text += "    (devices: another thread holds the lock on how much they have to do)\n";
  else if (at_policy_ > 0)
    text += "    " + counted(at_policy_, "task waits", "tasks wait") +
            " for a device that has room, under the policy '" + policy_->name() + "'\n";
  return text;
}

int runtime::at_work() const noexcept {
  int all = 0;
  for (const auto& d : drivers_)
    if (d) all += d->at_work();
  return all;
}

// Devices -------------------------------------------------------------------------------------------------------------

void driver::note_progress(bool did) noexcept {
  kernels_now_.store(static_cast<int>(running_.size()), std::memory_order_relaxed);
  copies_now_.store(static_cast<int>(moving_.size()), std::memory_order_relaxed);
  waiting_now_.store(static_cast<int>(waiting_.size() + gathered_.size()), std::memory_order_relaxed);
  if (did) {
    if (still_rounds_ == 0) return;
    still_since_.store(0, std::memory_order_relaxed);
    if (still_rounds_ == picture_after) {
      const std::lock_guard hold(picture_lock_);
      picture_.clear();
    }
    still_rounds_ = 0;
    return;
  }
  if (still_rounds_ == picture_after) return;
  if (still_rounds_ == 0) still_since_.store(tern::detail::ticks(), std::memory_order_relaxed);
  if (++still_rounds_ < picture_after && device_->patience() < picture_patience) return;
  still_rounds_ = picture_after;
  std::string now = picture();
  const std::lock_guard hold(picture_lock_);
  picture_.swap(now);
}

// In the driver: what is here ends by nobody else.
std::string driver::picture() noexcept {
  std::string text;
  task_set told;
  std::size_t n = 0;
  for (const launched& l : running_) {
    if (++n > listed) break;
    text += "      kernel of " + called(*l.task) +
            (l.rest.empty() ? "" : ", with " + std::to_string(l.rest.size()) + " more in one launch") + "\n" +
            describe_waiting(*l.task, told);
  }
  n = 0;
  for (const transfer* x : moving_) {
    if (++n > listed) break;
    const std::unique_lock hold(x->object->lock, std::try_to_lock);
    text += "      copy " + std::string(x->to == 0 ? "from it, of " : "to it, of ") +
            (hold ? x->object->text(x->part) : "an object that another thread has locked") + "\n";
  }
  if (!waiting_.empty()) {
    const task_record& t = *waiting_.front();
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < t.use_count; ++i) {
      const use& u = const_cast<task_record&>(t).use_at(i);
      bytes += static_cast<std::size_t>(u.part.size()) * u.object->element;
    }
    std::vector<std::string> in_the_way;
    each_held([&](object_state& o, std::size_t i) {
      if (const instance& x = o.instances[i]; x.users > 0 || x.pinned > 0)
        in_the_way.push_back(o.text(x.where) + (x.pinned > 0 ? " (pinned)" : " (in use)"));
    });
    text += "      " + called(t) + " waits for memory: it uses " + std::to_string(bytes) + " bytes there, of " +
            std::to_string(device_->memory_limit()) +
            (in_the_way.empty() ? "" : ", where there is " + joined(in_the_way)) + "\n" + describe_waiting(t, told);
  }
  return text;
}

std::string driver::describe(std::chrono::milliseconds limit) {
  const auto now = [](const std::atomic<int>& n) {
    return static_cast<std::size_t>(n.load(std::memory_order_relaxed));
  };
  const std::size_t kernels = now(kernels_now_), copies = now(copies_now_), wait = now(waiting_now_);
  if (kernels + copies + wait == 0) return {};
  std::string text;
  if (kernels > 0) append(text, counted(kernels, "kernel", "kernels") + " under way");
  if (copies > 0) append(text, counted(copies, "copy", "copies") + " under way");
  if (wait > 0) append(text, counted(wait, "task waits", "tasks wait") + " for its memory");
  text = "    device " + home_.info(number_).id + ": " + text;
  if (const std::int64_t since = still_since_.load(std::memory_order_relaxed); since != 0)
    text += ", nothing has ended there since " + seconds(home_.core().seconds_since(since));
  text += "\n";
  const auto hold = tern::detail::try_within(picture_lock_, limit);
  return text + (hold ? picture_ : "      (another thread holds the lock on what it is at)\n");
}

} // namespace tern::hetero::detail
