// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/schedule/policies/by_time.hpp>

#include <algorithm>

#include <tern/hetero/schedule/policies/by_device.hpp>

namespace tern::hetero::detail {

void by_time::add_devices(std::span<const device_load> devices) {
  for (std::size_t d = devices_.size(); d < devices.size(); ++d) {
    const int slots = devices[d].free_slots + devices[d].tasks;
    const int units = d == 0 ? devices[d].info->compute_units : 1;
    devices_.push_back({.tasks = {}, .load = load_estimate(units, d == 0 ? units : slots), .slots = slots});
  }
}

void by_time::push(ready_task t, std::span<const device_load> devices) {
  know(devices);
  if (is_alone() && usable(t, devices, 0)) return put(t, 0, not_known);
  candidates_.clear();
  untried_.clear();
  std::size_t possible = 0, last = 0;
  bool never_known = false;
  times_.resize(devices.size());
  t.expected_times(times_);
  now_is_new_ = false;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    if (!usable(t, devices, d)) continue;
    ++possible;
    last = d;
    ++devices_[d].possible;
    if (times_[d] >= 0)
      candidates_.push_back({d, times_[d], 0, 0, 0});
    else if (const std::uint64_t size_class = t.size_class(static_cast<int>(d)))
      untried_.push_back({t, size_class, d});
    else
      never_known = true;
  }
  if (possible == 0) return unplaceable_.push(t);
  plans_ = plans_ || t.is_planned();
  if (const auto key = t.affinity(); key && push_with_key(t, *key, devices)) return;
  if (possible == 1) // nothing is left to choose
    return put(t, last, candidates_.empty() ? never_moves : static_cast<float>(candidates_.front().seconds));
  if (!never_known)
    for (const attempt& a : untried_) {
      queue_of& q = devices_[a.device];
      const bool under_way = std::any_of(tries_.begin(), tries_.end(), [&](const attempt& other) {
        return other.size_class == a.size_class && other.device == a.device;
      });
      if (under_way || q.tries * tried_of >= q.possible) continue;
      if (a.device == 0 && q.tried_seconds * static_cast<double>(tried_of) > seconds_elsewhere_) continue;
      ++q.tries;
      tries_.push_back(a);
      return put(t, a.device, not_known);
    }
  if (never_known || candidates_.empty()) return put(t, by_bytes(t, devices), not_known);
  const double now = now_ = t.now();
  now_is_new_ = true;
  const candidate& best = best_of(t, devices, now);
  promise_data(t, best, now);
  put(t, best.device, static_cast<float>(best.seconds));
}

void by_time::expect_ends(const ready_task& t, double now) {
  look_at_data(t);
  for (candidate& c : candidates_) {
    c = look_at_copies(t, c.device, c.seconds, now);
    c.end = std::max(devices_[c.device].load.free_at(t.priority(), now), c.arrival) + c.seconds;
  }
}

const by_time::candidate& by_time::best_of(const ready_task& t, std::span<const device_load> devices, double now) {
  expect_ends(t, now);
  return choose(t, candidates_, devices, now);
}

// If it would be chosen for the device now, of which all times must be known; and if it could run
// on no other, unless that is a plan's choice: its data are to be there then, so that what the plan
// has before it goes first.
bool by_time::follow(ready_task t, int device, std::span<const device_load> devices) {
  know(devices);
  if (is_alone()) return false;
  bool elsewhere = t.affinity().has_value();
  for (std::size_t d = 0; d < devices.size() && !elsewhere; ++d)
    elsewhere = static_cast<int>(d) != device && usable(t, devices, d);
  if (!elsewhere && !t.is_planned()) {
    now_ = t.now();
    now_is_new_ = true;
    t.set_note(static_cast<float>(t.expected_time(device).value_or(never_moves)));
    devices_[static_cast<std::size_t>(device)].load.give(t, static_cast<double>(t.note()), now_);
    count_time_elsewhere(t, static_cast<std::size_t>(device));
    return true;
  }
  if (t.bytes_missing(device) > 0) return false;
  bool all_known = true;
  candidates_.clear();
  times_.resize(devices.size());
  t.expected_times(times_);
  for (std::size_t d = 0; d < devices.size(); ++d) {
    if (!usable(t, devices, d)) continue;
    if (times_[d] >= 0)
      candidates_.push_back({d, times_[d], 0, 0, 0});
    else
      all_known = false;
  }
  if (const auto key = t.affinity())
    if (const auto home = home_of(t, *key, devices)) return follow_home(t, *key, *home, device);
  if (!all_known || candidates_.empty()) return false;
  now_ = t.now();
  now_is_new_ = true;
  const candidate& best = best_of(t, devices, now_);
  if (best.device != static_cast<std::size_t>(device)) return false;
  t.set_note(static_cast<float>(best.seconds));
  devices_[best.device].load.give(t, best.seconds, now_);
  count_time_elsewhere(t, best.device);
  return true;
}

// Tasks with keys ------------------------------------------------------------------------------------------------------

// Where the task's key is at home, from now on if it is a new one. \pre `times_`. \return nothing
// if the task cannot run there.
std::optional<std::size_t> by_time::home_of(const ready_task& t, std::uint64_t key,
                                            std::span<const device_load> devices) {
  auto home = keys_.home(key, devices);
  if (!home) {
    choices_.clear();
    for (std::size_t d = 0; d < devices.size(); ++d)
      if (usable(t, devices, d))
        choices_.push_back({d, times_[d], t.bytes_missing(static_cast<int>(d)), devices_[d].load.units()});
    home = keys_.settle(key, choices_);
  }
  return usable(t, devices, *home) ? home : std::nullopt;
}

// \pre `candidates_`, home among them if its time is known.
const by_time::candidate* by_time::at_home_or_elsewhere(const ready_task& t, std::uint64_t key, std::size_t home) {
  const candidate *there = nullptr, *best = nullptr;
  if (times_[home] >= 0) {
    now_ = t.now();
    now_is_new_ = true;
    expect_ends(t, now_);
    for (const candidate& c : candidates_)
      if (c.device == home)
        there = &c;
      else if (!best || c.end < best->end)
        best = &c;
    if (!best || !may_leave(t, *there, *best, now_)) best = there;
  } else {
    look_at_data(t);
  }
  keys_.came(key, times_[home], data_);
  return best;
}

// \return false if it cannot run where its key is at home.
bool by_time::push_with_key(const ready_task& t, std::uint64_t key, std::span<const device_load> devices) {
  const auto home = home_of(t, key, devices);
  if (!home) return false;
  if (const candidate* const c = at_home_or_elsewhere(t, key, *home)) {
    promise_data(t, *c, now_);
    put(t, c->device, static_cast<float>(c->seconds));
  } else {
    put(t, *home, never_moves);
  }
  return true;
}

bool by_time::follow_home(ready_task t, std::uint64_t key, std::size_t home, int device) {
  if (home != static_cast<std::size_t>(device)) return false;
  const candidate* const c = at_home_or_elsewhere(t, key, home);
  if (c && c->device != home) return false;
  keys_.went(key, home);
  if (!c) now_ = t.now();
  now_is_new_ = true;
  t.set_note(c ? static_cast<float>(c->seconds) : never_moves);
  devices_[home].load.give(t, static_cast<double>(t.note()), now_);
  return true;
}

bool by_time::may_leave(const ready_task& t, const candidate& there, const candidate& here, double now) {
  const auto key = t.affinity();
  if (!key || keys_.home(*key) != there.device) return true;
  return keys_.may_leave(t, *key, {there.device, there.end, there.seconds}, {here.device, here.end, here.seconds},
                         now) &&
         moves(t, there.device, there.seconds, here.device, here.seconds);
}

// Of queues ------------------------------------------------------------------------------------------------------------

// As `locality` chooses.
std::size_t by_time::by_bytes(const ready_task& t, std::span<const device_load> devices) const {
  std::optional<std::size_t> best;
  std::int64_t missing = 0;
  std::size_t tasks = 0;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    if (!usable(t, devices, d)) continue;
    const std::int64_t m = t.bytes_missing(static_cast<int>(d));
    const std::size_t n = static_cast<std::size_t>(devices[d].tasks) + devices_[d].tasks.size();
    if (best && (m > missing || (m == missing && n >= tasks))) continue;
    best = d;
    missing = m;
    tasks = n;
  }
  return *best;
}

by_time::candidate by_time::look_at_copies(const ready_task& t, std::size_t device, double seconds, double now) {
  candidate c{device, seconds, 0, 0, 0};
  for (const read_data& one : data_) {
    if (!t.is_missing(one, static_cast<int>(device))) continue;
    const missing_data& m = one.as_missing;
    const auto found = promises_.find(promised(m.piece, device));
    if (found != promises_.end() && found->second.until > now) {
      c.arrival = std::max(c.arrival, found->second.arrival);
      continue;
    }
    c.copies += seconds_of_copy(t, static_cast<std::size_t>(m.from), device, m.bytes);
  }
  if (c.copies > 0) c.arrival = std::max({c.arrival, now + c.copies, devices_[device].link_free + c.copies});
  return c;
}

void by_time::promise_data(const ready_task& t, const candidate& c, double now) {
  if (c.copies <= 0) return;
  constexpr std::size_t many = 4096;
  if (promises_.size() >= many) std::erase_if(promises_, [now](const auto& one) { return one.second.until <= now; });
  for (const read_data& one : data_) {
    if (!t.is_missing(one, static_cast<int>(c.device))) continue;
    promise& p = promises_[promised(one.as_missing.piece, c.device)];
    if (p.until <= now) p = {c.arrival, c.end - c.seconds};
  }
  devices_[c.device].link_free = std::max(devices_[c.device].link_free, c.arrival);
}

void by_time::put(ready_task t, std::size_t d, float seconds) {
  t.set_note(seconds);
  devices_[d].tasks.push(t);
  devices_[d].helps = false;
  if (seconds == not_known) ++devices_[d].unknown;
  if (seconds >= 0) devices_[d].load.queue(t.priority(), static_cast<double>(seconds));
  ++queued_;
}

void by_time::taken_out(const ready_task& t, std::size_t d) noexcept {
  if (t.note() == not_known) --devices_[d].unknown;
  if (t.note() >= 0) devices_[d].load.take_out(t.priority(), static_cast<double>(t.note()));
  --queued_;
}

// The host is given no more tasks ahead than it has workers: until they begin they could still be
// overtaken by others.
bool by_time::takes_more(const device_load& l, std::size_t d) const noexcept {
  return d != 0 || is_alone() || devices_[0].slots - l.free_slots < devices_[0].load.units();
}

std::optional<ready_task> by_time::take(std::size_t d) {
  const auto t = devices_[d].tasks.take_least(
      looked_at, [d](const ready_task& x) { return x.bytes_missing(static_cast<int>(d)); });
  if (t) taken_out(*t, d);
  return t;
}

std::optional<ready_task> by_time::take_over(std::size_t d, std::span<const device_load> devices) {
  if (devices[d].tasks >= (d == 0 ? devices_[0].load.units() : 1)) return std::nullopt;
  for (std::size_t v = 0; v < devices_.size(); ++v) {
    queue_of& from = devices_[v];
    if (v == d || from.tasks.empty()) continue;
    const ready_task t = from.tasks.first();
    if (t.note() < 0 || !usable(t, devices, d)) continue;
    const auto here = t.expected_time(static_cast<int>(d)), there = t.expected_time(static_cast<int>(v));
    if (!here || !there) continue;
    if (moves(t, v, *there, d, *here) && take_from(v, t, *there, d, *here, t.now())) return t;
  }
  return std::nullopt;
}

bool by_time::take_from(std::size_t v, const ready_task& t, double there, std::size_t d, double here, double now) {
  look_at_data(t);
  candidate c = look_at_copies(t, d, here, now);
  c.end = std::max(now, c.arrival) + here;
  const candidate stays{v, there, 0, 0, devices_[v].load.running_until(now) + there};
  if (c.end >= stays.end || !may_leave(t, stays, c, now)) return false;
  devices_[v].tasks.take([](const ready_task&) { return true; });
  taken_out(t, v);
  promise_data(t, c, now);
  ready_task moved = t;
  moved.set_note(static_cast<float>(here));
  return true;
}

std::optional<ready_task> by_time::take_planned(std::size_t d, std::span<const device_load> devices) {
  constexpr double patience = 0.1; // of the task's time
  if (!plans_ || d == 0 || devices[d].tasks > 0) return std::nullopt;
  for (std::size_t v = 1; v < devices_.size(); ++v) {
    if (v == d || devices[v].model != devices[d].model || devices_[v].tasks.empty()) continue;
    ready_task t = devices_[v].tasks.first();
    const double seconds = t.note(), now = t.now();
    const bool waited = devices_[d].helps || now - devices_[d].idle_since > patience * seconds;
    if (!t.is_planned() || seconds < 0 || !waited || !take_from(v, t, seconds, d, seconds, now)) continue;
    devices_[d].helps = true;
    t.plan_for(static_cast<int>(d));
    return t;
  }
  return std::nullopt;
}

// As `locality` steals.
std::optional<ready_task> by_time::take_unknown(std::size_t d, std::span<const device_load> devices) {
  if (devices[d].lost) return std::nullopt;
  for (std::size_t v = 0; v < devices_.size(); ++v)
    if (v != d && devices[v].free_slots <= 0 && devices_[v].unknown > 0)
      if (const auto t = devices_[v].tasks.take_for(static_cast<int>(d),
                                                    [](const ready_task& x) { return x.note() == not_known; })) {
        taken_out(*t, v);
        return t;
      }
  return std::nullopt;
}

std::optional<placement> by_time::pop(std::span<const device_load> devices) {
  if (queued_ == 0 && unplaceable_.empty()) return std::nullopt;
  know(devices);
  std::size_t best = devices.size();
  bool could_take = false;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const device_load& l = devices[d];
    if (l.lost) {
      place_again(d, devices);
      continue;
    }
    if (l.free_slots <= 0 || !takes_more(l, d)) continue;
    could_take = true;
    if (!devices_[d].tasks.empty() && (best == devices.size() || l.tasks < devices[best].tasks)) best = d;
  }
  if (!unplaceable_.empty()) return placement{*unplaceable_.take([](const ready_task&) { return true; }), -1};
  if (best < devices.size()) return give(*take(best), best);
  return could_take ? pop_of_others(devices) : std::nullopt;
}

// Those of a lost device are chosen for again.
void by_time::place_again(std::size_t lost, std::span<const device_load> devices) {
  while (!devices_[lost].tasks.empty()) {
    const ready_task t = *take(lost);
    std::erase_if(tries_, [&](const attempt& a) { return a.task == t; });
    push(t, devices);
  }
}

// What devices have that can take more and have nothing of their own.
std::optional<placement> by_time::pop_of_others(std::span<const device_load> devices) {
  by_load(devices, order_);
  for (const std::size_t d : order_) {
    if (!takes_more(devices[d], d)) continue;
    fill(d, devices);
    if (const auto t = take(d)) return give(*t, d);
    if (const auto t = take_unknown(d, devices)) return give(*t, d);
    if (const auto t = take_over(d, devices)) return give(*t, d);
    if (const auto t = take_planned(d, devices)) return give(*t, d);
  }
  return std::nullopt;
}

placement by_time::give(ready_task t, std::size_t d) {
  if (is_alone()) return {t, static_cast<int>(d)}; // its end will be that of a task which is not known
  if (const auto key = t.affinity())
    if (const auto home = keys_.home(*key); home && t.may_run_on(static_cast<int>(*home))) keys_.went(*key, d);
  if (!now_is_new_) now_ = t.now();
  now_is_new_ = true;
  devices_[d].load.give(t, static_cast<double>(t.note()), now_);
  count_time_elsewhere(t, d);
  if (d == 0)
    for (attempt& a : tries_)
      if (a.task == t) a.began = now_;
  return {t, static_cast<int>(d)};
}

void by_time::ended(ready_task t, int device, std::span<const device_load>) {
  if (is_alone()) return;
  if (const auto key = t.affinity()) keys_.ended(*key);
  // Of tasks that take microseconds some at a time are taken to end at one moment.
  if (t.note() < 0 || t.note() >= brief || ++brief_ends_ >= brief_most) {
    now_ = t.now();
    brief_ends_ = 0;
  }
  now_is_new_ = true;
  queue_of& q = devices_[static_cast<std::size_t>(device)];
  q.load.end(t, now_);
  if (q.load.given() == 0) q.idle_since = now_;
  std::erase_if(tries_, [&](const attempt& a) {
    if (a.task != t) return false;
    if (device == 0 && a.began >= 0) q.tried_seconds += now_ - a.began;
    return true;
  });
}

void by_time::count_time_elsewhere(const ready_task& t, std::size_t d) noexcept {
  if (d != 0 && t.note() > 0) seconds_elsewhere_ += static_cast<double>(t.note());
}

} // namespace tern::hetero::detail
