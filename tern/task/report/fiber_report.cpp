// SPDX-License-Identifier: Apache-2.0
#include <tern/task/report/fiber_report.hpp>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <tern/base/clock.hpp>
#include <tern/task/report/dump.hpp>
#include <tern/task/report/unwind.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::detail {
namespace {

using steady = std::chrono::steady_clock;

// Of a group's fibers so many are looked at; the others are taken to be like one of them.
constexpr std::size_t looked_at_each = 16;

std::string seconds(double s) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", s);
  return text;
}
std::string thousands(std::size_t n) {
  std::string text = std::to_string(n);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<std::size_t>(at), 1, ',');
  return text;
}

// Fibers of one kind are often numbered: "solver 17".
std::string without_numbers(const std::string& name) {
  std::string text;
  for (const char c : name.substr(std::min(name.find('\''), name.size())))
    if (c < '0' || c > '9') text += c;
  return text;
}

struct alike {
  std::vector<const fiber_note*> members; // the longest waiting first
  std::vector<std::uintptr_t> stack;
  bool has_stack = false;
  std::size_t not_looked_at = 0;
};

std::string told(const alike& a) {
  const fiber_note& first = *a.members.front();
  const bool waits = first.state == fiber_state::waits;
  std::string text = "  fiber " + first.called + ": " + first.text;
  if (waits) text += ", since " + seconds(first.since) + " s";
  text += ", " + first.made + "\n";
  if (a.members.size() == 1) return text;
  std::uint64_t low = ~0ull, high = 0;
  double least = first.since;
  for (std::size_t i = 1; i < a.members.size(); ++i) {
    low = std::min(low, a.members[i]->id);
    high = std::max(high, a.members[i]->id);
    least = std::min(least, a.members[i]->since);
  }
  text +=
      "    and " + thousands(a.members.size() - 1) + " more like this: " +
      (low == high ? "fiber " + std::to_string(low) : "fibers " + std::to_string(low) + " to " + std::to_string(high));
  if (waits) text += ", since " + seconds(least) + " s or longer";
  if (a.not_looked_at) text += " (" + thousands(a.not_looked_at) + " of their stacks not looked at)";
  return text + "\n";
}

// It may have gone on while it was looked at.
bool still_waits(const fiber_note& n, const stopped_at& from) {
  const stopped_at now = where_suspended(*n.who);
  return n.who->id.load(std::memory_order_relaxed) == n.id && now.pc == from.pc && now.value == from.value;
}

std::vector<std::uintptr_t> stack_of(const fiber_note& n, stack_reader& reader) {
  const stopped_at from = where_suspended(*n.who);
  if (from.pc == 0) return {};
  auto stack = reader.walk(from);
  return still_waits(n, from) ? stack : std::vector<std::uintptr_t>{};
}

// Those of one situation, by their stacks.
std::vector<alike> by_stack(const std::vector<const fiber_note*>& group, fiber_report_limits& limits) {
  std::vector<alike> found;
  const bool suspended = group.front()->state == fiber_state::waits || group.front()->state == fiber_state::ready;
  if (!limits.stacks || !suspended) {
    found.push_back({group, {}, false, 0});
    return found;
  }
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (!found.empty() && (i >= looked_at_each || steady::now() > limits.until)) {
      found.front().members.push_back(group[i]);
      ++found.front().not_looked_at;
      continue;
    }
    const bool time = steady::now() <= limits.until;
    auto stack = time ? stack_of(*group[i], *limits.stacks) : std::vector<std::uintptr_t>{};
    const auto same = std::find_if(found.begin(), found.end(), [&](const alike& a) { return a.stack == stack; });
    if (same != found.end())
      same->members.push_back(group[i]);
    else
      found.push_back({{group[i]}, std::move(stack), time, 0});
  }
  return found;
}

double cpu_seconds(int thread) {
  // The kernel's way to name a thread's clock (clock_getcpuclockid wants a pthread_t, which may be
  // gone).
  const auto clock = static_cast<clockid_t>((~static_cast<unsigned>(thread) << 3) | 6u);
  timespec t{};
  if (thread <= 0 || clock_gettime(clock, &t) != 0) return -1;
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

std::string picture_of_workers(scheduler_core& c, const std::vector<fiber_note>& notes, const busy_watch* busy) {
  // What a fiber is called was found under the lock; by now it may be another.
  const auto called = [&](const fiber* f) {
    const auto n = std::find_if(notes.begin(), notes.end(), [f](const fiber_note& x) { return x.who == f; });
    return n == notes.end() ? std::string("that has just begun") : n->called;
  };
  std::string text;
  std::size_t asleep = 0;
  for (const auto& w : c.workers) {
    const fiber* f = w->running;
    if (!f && w->spot.is_parked()) {
      ++asleep;
      continue;
    }
    text += "  worker " + std::to_string(w->index);
    if (const double cpu = cpu_seconds(w->thread); cpu >= 0)
      text += " (thread " + std::to_string(w->thread) + ", " + seconds(cpu) + " s of CPU time)";
    const double since = busy ? busy->busy_for(*w) : -1;
    if (f)
      text += ": runs fiber " + called(f) + (since >= 0 ? " since " + seconds(since) + " s" : "") + "\n";
    else
      text += c.executor ? ": runs nothing\n" : ": looks for work, or is between two fibers\n";
  }
  if (asleep)
    text += asleep == c.workers.size() && asleep > 1
                ? "  all " + std::to_string(asleep) + " workers sleep\n"
                : "  " + std::to_string(asleep) + (asleep == 1 ? " worker sleeps\n" : " workers sleep\n");
  return text;
}

} // namespace

void busy_watch::begin() {
  before_.swap(now_);
  now_.clear();
  next_ = 0;
}

double busy_watch::look(scheduler_core& c) {
  double used = 0;
  const double now = steady_seconds();
  for (const auto& w : c.workers) {
    const fiber* f = w->running;
    seen s{w.get(), f, w->entered.load(std::memory_order_relaxed), now, std::max(0.0, cpu_seconds(w->thread))};
    // Mostly the same workers come in the same order.
    if (next_ < before_.size() && before_[next_].who != s.who)
      next_ = static_cast<std::size_t>(
          std::find_if(before_.begin(), before_.end(), [&](const seen& b) { return b.who == s.who; }) -
          before_.begin());
    if (next_ < before_.size()) {
      const seen& b = before_[next_++];
      if (f) used += s.cpu - b.cpu;
      if (f == b.in && s.entered == b.entered) s.since = b.since;
    }
    now_.push_back(s);
  }
  return used;
}

double busy_watch::busy_for(const worker& w) const noexcept {
  for (const seen& s : now_)
    if (s.who == &w)
      return s.in == w.running && s.entered == w.entered.load(std::memory_order_relaxed) ? steady_seconds() - s.since
                                                                                         : -1;
  return -1;
}

std::string report_fibers(scheduler_core& c, fiber_report_limits& limits) {
  std::vector<fiber_note> notes;
  const bool complete = note_fibers(c, notes, limits.lock);
  std::string text = picture_of_workers(c, notes, limits.busy);
  if (!complete)
    return text + "  (fibers: another thread holds the lock on the list of stacks)\n" +
           describe_extension(c, limits.lock);
  // Order: those that wait, by the longest wait; then what can run, runs, has ended.
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<const fiber_note*>> situations;
  for (const auto& n : notes)
    if (n.state != fiber_state::idle) situations[{n.kind, n.made, without_numbers(n.called)}].push_back(&n);
  std::vector<alike> all;
  for (auto& [key, group] : situations) {
    std::sort(group.begin(), group.end(),
              [](auto* a, auto* b) { return std::tuple(b->since, a->id) < std::tuple(a->since, b->id); });
    for (auto& one : by_stack(group, limits)) all.push_back(std::move(one));
  }
  std::sort(all.begin(), all.end(), [](const alike& a, const alike& b) {
    const fiber_note &x = *a.members.front(), &y = *b.members.front();
    return std::tuple(y.state, y.since, x.id) < std::tuple(x.state, x.since, y.id);
  });
  std::size_t left_out = 0;
  for (const auto& a : all) {
    text += told(a);
    if (!a.has_stack) continue;
    if (limits.shown == 0) {
      ++left_out;
    } else if (a.stack.empty()) {
      text += "      (its stack cannot be told)\n";
    } else {
      --limits.shown;
      text += limits.stacks->text(a.stack, true, "      ");
    }
  }
  if (left_out) text += "  (" + thousands(left_out) + " more stacks are left out)\n";
  const auto idle = std::count_if(notes.begin(), notes.end(), [](auto& n) { return n.state == fiber_state::idle; });
  if (idle) text += "  " + thousands(static_cast<std::size_t>(idle)) + " runners have no tasklets to run\n";
  if (notes.empty()) text += "  no fibers\n";
  return text + describe_extension(c, limits.lock);
}

} // namespace tern::detail
