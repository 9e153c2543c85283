// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/report/task_text.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <source_location>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/hetero/data/object_state.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::hetero::detail {
namespace {

constexpr std::size_t followed = 10000; // tasks that wait for one, directly or not
const char* name_of_access(access_mode how) noexcept {
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

std::string place(const std::source_location& where) { return error(errc::internal, "", "", where).place(); }

const access_note* access_of(const task_record& t) noexcept {
  return t.work == &host_access_work ? &const_cast<task_record&>(t).work_as<access_note>() : nullptr;
}

} // namespace

std::string counted(std::size_t n, const char* one, const char* many) {
  return std::to_string(n) + " " + (n == 1 ? one : many);
}
std::string seconds(double s) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f s", s);
  return text;
}
void append(std::string& list, const std::string& what, const char* separator) {
  if (!list.empty()) list += separator;
  list += what;
}
std::string joined(const std::vector<std::string>& all) {
  std::string list;
  for (std::size_t i = 0; i < std::min(all.size(), report_lines); ++i) append(list, all[i]);
  if (all.size() > report_lines) list += " and " + std::to_string(all.size() - report_lines) + " more";
  return list;
}

std::string text_of_use(const use& u) {
  const auto hold = tern::detail::try_within(u.object->lock, object_lock_wait);
  return hold ? u.object->text(u.part) : "an object that another thread has locked";
}

std::string called(const access_note& a) {
  return std::string("host access (") + name_of_access(a.how) + ") at " + place(a.where) +
         (a.fiber ? " by fiber " + std::to_string(a.fiber) : "");
}
std::string called(const task_record& t) {
  if (const access_note* const a = access_of(t)) return called(*a);
  return std::string("task '") + t.text_name() + "'";
}

std::string called_while_it_runs(const task_record& t) {
  if (const char* const name = t.name.load(std::memory_order_acquire)) return std::string("task '") + name + "'";
  return t.work && t.work->name && !t.work->destroy ? std::string("task '") + t.work->name(t) + "'" : "a task";
}

namespace {

/// Those that wait for a task: directly, or for one that does.
struct waiting_for {
  std::vector<std::string> directly;
  std::size_t later = 0;
};

/// \pre `first` cannot end meanwhile. \param named gets those that are named.
waiting_for find_waiting(const task_record& first, task_set& named) {
  waiting_for found;
  task_set seen{&first};
  std::vector<std::pair<const task_record*, bool>> to_look_at{{&first, true}}; // with: named tasks follow it directly
  for (std::size_t i = 0; i < to_look_at.size() && seen.size() < followed; ++i) {
    const auto [t, direct] = to_look_at[i];
    // acquire: the links, and what their tasks are. address: of links and tasks, as `follow` has
    // put them there
    std::uintptr_t list = t->successors.load(std::memory_order_acquire);
    if (list == closed_list) list = 0;
    list &= ~watched_list;
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
      named.insert(next);
      found.directly.push_back(called(*next));
    }
  }
  std::reverse(found.directly.begin(), found.directly.end()); // the last to come stands first in lists
  return found;
}

} // namespace

std::string describe_waiting(const task_record& first, task_set& named) {
  const waiting_for w = find_waiting(first, named);
  if (w.directly.empty()) return {};
  return "      for it " + std::string(w.directly.size() == 1 ? "waits " : "wait ") + joined(w.directly) +
         (w.later ? ", and " + std::to_string(w.later) + " more after " + (w.directly.size() == 1 ? "it" : "these")
                  : std::string()) +
         "\n";
}

} // namespace tern::hetero::detail
