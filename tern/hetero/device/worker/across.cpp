// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tasks that follow tasks of one device and run on another are put there behind these, before they
/// have ended, where the second device can wait for the first one's operations.
///
/// The first device's worker finds such a task (followers.hpp), and has it for itself. It makes the
/// ends of its predecessors known as events, and hands the task over with these, holding one of its
/// `pending`. The second one's worker puts its copies behind the events, and the task behind the
/// copies. Where devices do not reach each other, the copies' first half, to the host, is the first
/// worker's, and is handed over as an event, too.
///
/// What is behind something that was not done is not done either, in a chain over any number of
/// devices: so nothing has been overwritten when it is launched again. The copies are then made
/// again first, when all that they follow has been completed; each holds one of the task's
/// `pending`.
#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>

#include <tern/hetero/device/worker/device_worker.hpp>
#include <tern/hetero/record/failure.hpp>

namespace tern::hetero::detail {

namespace {
bool has_been_repeated(const task_record& t) noexcept {
  // relaxed: its completion is acquired first, or its own worker asks
  return (t.marks.load(std::memory_order_relaxed) & task_record::repeated) != 0;
}
} // namespace

bool device_worker::takes_across(const device_queue& from) const noexcept {
  return ahead_ > 0 && device_->waiting_stream_in() >= 0 && device_->waits_for(from.of());
}

// \pre the task is this worker's alone, and may not run here.
void device_worker::hand_over(task_record* t, const followers::successor& s) noexcept {
  constexpr unsigned other_way = task_record::commutes | task_record::order_only | task_record::pins |
                                 task_record::reduces | task_record::acquired | task_record::given;
  if (!(t->flags & task_record::placed) || (t->flags & other_way) || !t->sound() || !t->work || !t->work->describe)
    return;
  const device_table& all = home_.devices();
  device_queue* to = nullptr; // the only one
  for (std::size_t d = 0; d < all.count(); ++d) {
    if (!home_.placement().allowed(*t, static_cast<int>(d))) continue;
    if (to || d == 0 || !all.queue(d)->takes_across(*this)) return;
    to = all.queue(d);
  }
  if (!to) return;
  handed_task h;
  h.task = t;
  try {
    for (const followers::place& p : s.after) {
      const auto is_it = [&](const transfer::followed& f) { return f.task == p.task; };
      if (std::any_of(h.after.begin(), h.after.end(), is_it)) continue; // once, whatever its edges
      h.after.push_back({p.task, has_been_repeated(*p.task)});
      p.task->references.fetch_add(1, std::memory_order_relaxed);
    }
    for (const followers::place& p : s.after) {
      const auto is_later = [&](const followers::place& q) { return q.stream == p.stream && q.number > p.number; };
      if (std::any_of(s.after.begin(), s.after.end(), is_later)) continue; // streams keep their order
      if (event_ref e = device_->event(p.end)) h.events.push_back(std::move(e));
    }
    std::vector<transfer*> ways;
    home_.copies().each_way_home(*t, number_, [&ways](transfer& x) {
      if (std::find(ways.begin(), ways.end(), &x) == ways.end()) ways.push_back(&x);
    });
    for (transfer* x : ways)
      if (std::find(moving_.begin(), moving_.end(), x) != moving_.end() && !x->again)
        if (event_ref e = device_->event(x->running)) h.home.push_back({x, std::move(e)});
    t->pending.fetch_add(1, std::memory_order_relaxed); // this worker's alone: it is not zero
    t->marks.fetch_or(task_record::across, std::memory_order_relaxed);
  } catch (...) { // it goes there when it is ready
    for (const transfer::followed& f : h.after) unreference(f.task);
    if (is_loss(std::current_exception())) found_loss_ = std::current_exception();
    return;
  }
  to->arrive(std::move(h));
}

// \return whether it did something.
bool device_worker::launch_handed() noexcept {
  if (handed_.empty()) return false;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < handed_.size(); ++i) {
    if (!found_loss_ && take(handed_[i])) continue;
    if (kept != i) handed_[kept] = std::move(handed_[i]);
    ++kept;
  }
  const bool did = kept < handed_.size();
  handed_.resize(kept);
  if (found_loss_) handle_loss(std::exchange(found_loss_, nullptr));
  return did;
}

// \return false: not yet.
bool device_worker::take(handed_task& h) noexcept {
  task_record* const t = h.task;
  // acquire: the failure of what it follows
  if (lost_ || t->pending.load(std::memory_order_acquire) == 1 || !t->sound()) {
    let_go(h);
    return true;
  }
  if (!takes_more_behind()) return false;
  if (!home_.placement().follow(t, number_)) {
    let_go(h);
    return true;
  }
  t->device = number_;
  t->flags |= task_record::acquired | task_record::behind;
  over_limit_ = nullptr;
  transfer_chain behind;
  if (home_.copies().acquire_across(h, number_, behind) == coherence::acquired::no_memory) {
    t->flags &= static_cast<std::uint16_t>(~(task_record::acquired | task_record::behind));
    t->device = 0;
    home_.placement().does_not_follow(t, number_);
    let_go(h);
    return true;
  }
  ++preparing_;
  home_.copies().upcoming().follows(*t);
  after_.clear();
  std::vector<event_ref>& events = h.events;
  for (handed_task::way_home& w : h.home) events.push_back(w.end);
  behind.take_each([&](transfer* x) {
    for (const transfer::followed& f : h.after) {
      f.task->references.fetch_add(1, std::memory_order_relaxed);
      x->others.push_back(f);
    }
    begin(x, {}, events);
    if (!moving_.empty() && moving_.back() == x && x->running != 0) after_.push_back(x->running);
  });
  // Its copies come behind all that it follows.
  launch_behind(t, after_, after_.empty() ? std::span<const event_ref>(events) : std::span<const event_ref>(),
                next_stream());
  let_go(h);
  return true;
}

// It is given, or goes the usual way.
void device_worker::let_go(handed_task& h) noexcept {
  for (const transfer::followed& f : h.after) unreference(f.task);
  h.after.clear();
  h.events.clear();
  h.home.clear();
  home_.release_dependency(h.task);
}

// All that it was put behind on another device has been completed.
bool device_worker::may_be_over(transfer* x) noexcept {
  if (!x->follows.empty()) return false;
  if (x->others.empty()) return true;
  for (const transfer::followed& f : x->others)
    if (!f.task->is_done()) return false;
  if (!home_.copies().source_is_over(*x)) return false;
  for (const transfer::followed& f : x->others)
    if (has_been_repeated(*f.task) != f.had_been_repeated) x->again = true;
  forget_others(x);
  return true;
}

void device_worker::forget_others(transfer* x) noexcept {
  for (const transfer::followed& f : x->others) unreference(f.task);
  x->others.clear();
}

} // namespace tern::hetero::detail
