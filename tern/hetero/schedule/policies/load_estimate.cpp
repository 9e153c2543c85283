// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/schedule/policies/load_estimate.hpp>

#include <algorithm>
#include <cmath>

namespace tern::hetero::detail {

load_estimate::load_estimate(int units, int most)
    : units_(std::clamp(units, 1, std::max(most, 1))), most_(std::max(most, 1)) {}

std::vector<load_estimate::line>::iterator load_estimate::line_of(int priority) noexcept {
  return std::find_if(queued_.begin(), queued_.end(), [priority](const line& l) { return l.priority <= priority; });
}

void load_estimate::queue(int priority, double seconds) {
  auto at = line_of(priority);
  if (at == queued_.end() || at->priority != priority) at = queued_.insert(at, {priority, 0, 0});
  at->seconds += std::max(seconds, 0.0);
  ++at->tasks;
}

void load_estimate::take_out(int priority, double seconds) noexcept {
  const auto at = line_of(priority);
  if (at == queued_.end() || at->priority != priority) return;
  at->seconds -= std::max(seconds, 0.0);
  if (--at->tasks > 0) return;
  at->seconds = 0;                 // and not what rounding has left
  constexpr std::size_t kept = 16; // lines without tasks: priorities come again
  if (queued_.size() > kept) queued_.erase(at);
}

void load_estimate::give(const ready_task& t, double seconds, double now) {
  given_.push_back({t, seconds, -1});
  if (count_ < 0 && has_more()) restart(now);
  begin_waiting(now);
}

void load_estimate::end(const ready_task& t, double now) {
  const auto at = std::find_if(given_.begin(), given_.end(), [&](const entry& e) { return e.task == t; });
  if (at == given_.end()) return;
  if (waits(*at)) { // another one than was thought has run: the last that was thought to waits
    entry* last = nullptr;
    for (entry& e : given_)
      if (!waits(e) && (!last || e.begin >= last->begin)) last = &e;
    if (last) last->begin = now;
  }
  const double seconds = at->seconds;
  given_.erase(at);
  measure(seconds, now);
  begin_waiting(now);
}

// As many as there are units run, the first ones.
void load_estimate::begin_waiting(double now) noexcept {
  int run = 0;
  for (entry& e : given_) {
    if (run == units_) break;
    if (waits(e)) e.begin = now;
    ++run;
  }
  changed_ = true;
}

void load_estimate::measure(double seconds, double now) noexcept {
  if (count_ < 0) return;
  if (seconds < 0 || !has_more()) {
    count_ = -1;
    return;
  }
  ended_ += seconds;
  if (++count_ < window) return;
  if (now > since_)
    units_ = std::clamp(static_cast<int>(std::lround(std::min(ended_ / (now - since_), 1e6))), 1, most_);
  restart(now);
}

bool load_estimate::has_more() const noexcept { return static_cast<int>(given_.size()) > units_; }

void load_estimate::restart(double now) noexcept {
  since_ = now;
  ended_ = 0;
  count_ = 0;
}

double load_estimate::when_given_are_over(double now) {
  ends_.assign(static_cast<std::size_t>(units_), now);
  const auto later = std::greater<>();
  for (const entry& e : given_) { // a heap: the unit that has time first is on top
    std::pop_heap(ends_.begin(), ends_.end(), later);
    double& unit = ends_.back();
    const double begin = waits(e) ? unit : e.begin;
    unit = std::max(now, begin + std::max(e.seconds, 0.0));
    std::push_heap(ends_.begin(), ends_.end(), later);
  }
  return ends_.front();
}

double load_estimate::running_until(double now) {
  if (changed_) free_ = when_given_are_over(now);
  changed_ = false;
  return std::max(free_, now);
}

double load_estimate::queued() const noexcept {
  double all = 0;
  for (const line& l : queued_) all += l.seconds;
  return std::max(all, 0.0);
}

double load_estimate::free_at(int priority, double now) {
  const double given = running_until(now);
  double queued = 0;
  for (const line& l : queued_) {
    if (l.priority < priority) break;
    queued += l.seconds;
  }
  return given + std::max(queued, 0.0) / units_;
}

} // namespace tern::hetero::detail
