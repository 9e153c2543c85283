// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/schedule/policies/by_time.hpp>

#include <algorithm>

#include <tern/hetero/schedule/policies/by_device.hpp>

namespace tern::hetero::detail {

namespace {
// Of a link that no copy has shown yet: seconds, bytes a second.
constexpr double guessed_latency = 1e-5, guessed_bandwidth = 8e9;
} // namespace

void by_time::know(std::span<const device_load> devices) {
  for (std::size_t d = devices_.size(); d < devices.size(); ++d) {
    const int slots = devices[d].free_slots + devices[d].tasks;
    const int units = d == 0 ? devices[d].info->compute_units : 1;
    devices_.push_back({.tasks = {}, .load = load_estimate(units, d == 0 ? units : slots), .slots = slots});
  }
}

void by_time::push(ready_task t, std::span<const device_load> devices) {
  know(devices);
  candidates_.clear();
  untried_.clear();
  std::size_t possible = 0, last = 0;
  bool never_known = false;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    if (!usable(t, devices, d)) continue;
    ++possible;
    last = d;
    ++devices_[d].possible;
    if (const auto seconds = t.expected_time(static_cast<int>(d)))
      candidates_.push_back({d, *seconds, 0, 0, 0});
    else if (const std::uint64_t size_class = t.size_class(static_cast<int>(d)))
      untried_.push_back({t, size_class, d});
    else
      never_known = true;
  }
  if (possible == 0) return unplaceable_.push(t);
  if (possible == 1) // nothing is left to choose
    return put(t, last, candidates_.empty() ? not_known : static_cast<float>(candidates_.front().seconds));
  if (!never_known)
    for (const attempt& a : untried_) {
      queue_of& q = devices_[a.device];
      const bool under_way = std::any_of(tries_.begin(), tries_.end(), [&](const attempt& other) {
        return other.size_class == a.size_class && other.device == a.device;
      });
      if (under_way || q.tries * tried_of >= q.possible) continue;
      ++q.tries;
      tries_.push_back(a);
      return put(t, a.device, not_known);
    }
  if (never_known || candidates_.empty()) return put(t, by_bytes(t, devices), not_known);
  const double now = t.now();
  for (candidate& c : candidates_) {
    c = look_at_copies(t, c.device, c.seconds, now);
    c.end = std::max(devices_[c.device].load.free_at(t.priority(), now), c.arrival) + c.seconds;
  }
  const candidate& best = choose(t, candidates_, devices, now);
  promise_data(t, best, now);
  put(t, best.device, static_cast<float>(best.seconds));
}

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
  t.find_missing(static_cast<int>(device), missing_);
  for (const missing_data& m : missing_) {
    const auto found = promises_.find(promised(m.piece, device));
    if (found != promises_.end() && found->second.until > now) {
      c.arrival = std::max(c.arrival, found->second.arrival);
      continue;
    }
    c.copies += t.expected_copy(m.from, static_cast<int>(device), m.bytes)
                    .value_or(guessed_latency + static_cast<double>(m.bytes) / guessed_bandwidth);
  }
  if (c.copies > 0) c.arrival = std::max({c.arrival, now + c.copies, devices_[device].link_free + c.copies});
  return c;
}

void by_time::promise_data(const ready_task& t, const candidate& c, double now) {
  if (c.copies <= 0) return;
  constexpr std::size_t many = 4096;
  if (promises_.size() >= many) std::erase_if(promises_, [now](const auto& one) { return one.second.until <= now; });
  t.find_missing(static_cast<int>(c.device), missing_);
  for (const missing_data& m : missing_) {
    promise& p = promises_[promised(m.piece, c.device)];
    if (p.until <= now) p = {c.arrival, c.end - c.seconds};
  }
  devices_[c.device].link_free = std::max(devices_[c.device].link_free, c.arrival);
}

void by_time::put(ready_task t, std::size_t d, float seconds) {
  t.set_note(seconds);
  devices_[d].tasks.push(t);
  devices_[d].load.queue(t.priority(), static_cast<double>(seconds));
  if (seconds < 0) ++devices_[d].unknown;
  ++queued_;
}

void by_time::taken_out(const ready_task& t, std::size_t d) noexcept {
  devices_[d].load.take_out(t.priority(), static_cast<double>(t.note()));
  if (t.note() < 0) --devices_[d].unknown;
  --queued_;
}

// The host is given no more tasks ahead than it has workers: until they begin they could still be
// overtaken by others.
bool by_time::takes_more(const device_load& l, std::size_t d) const noexcept {
  return d != 0 || devices_[0].slots - l.free_slots < devices_[0].load.units();
}

std::optional<ready_task> by_time::take(std::size_t d) {
  const auto t = devices_[d].tasks.take_least(
      looked_at, [d](const ready_task& x) { return x.bytes_missing(static_cast<int>(d)); });
  if (t) taken_out(*t, d);
  return t;
}

// As `locality` steals.
std::optional<ready_task> by_time::take_unknown(std::size_t d, std::span<const device_load> devices) {
  for (std::size_t v = 0; v < devices_.size(); ++v)
    if (v != d && devices[v].free_slots <= 0 && devices_[v].unknown > 0)
      if (const auto t =
              devices_[v].tasks.take([&](const ready_task& x) { return x.note() < 0 && usable(x, devices, d); })) {
        taken_out(*t, v);
        return t;
      }
  return std::nullopt;
}

std::optional<placement> by_time::pop(std::span<const device_load> devices) {
  if (queued_ == 0 && unplaceable_.empty()) return std::nullopt;
  know(devices);
  for (std::size_t d = 0; d < devices.size(); ++d) // those of a lost device are chosen for again
    while (devices[d].lost && !devices_[d].tasks.empty()) {
      const ready_task t = *take(d);
      std::erase_if(tries_, [&](const attempt& a) { return a.task == t; });
      push(t, devices);
    }
  if (const auto t = unplaceable_.take([](const ready_task&) { return true; })) return placement{*t, -1};
  by_load(devices, order_);
  std::erase_if(order_, [&](std::size_t d) { return !takes_more(devices[d], d); });
  const auto give = [&](ready_task t, std::size_t d) {
    devices_[d].load.give(t, static_cast<double>(t.note()), t.now());
    return placement{t, static_cast<int>(d)};
  };
  for (const std::size_t d : order_)
    if (const auto t = take(d)) return give(*t, d);
  for (const std::size_t d : order_) {
    fill(d, devices);
    if (const auto t = take(d)) return give(*t, d);
    if (const auto t = take_unknown(d, devices)) return give(*t, d);
  }
  return std::nullopt;
}

void by_time::ended(ready_task t, int device, std::span<const device_load>) {
  devices_[static_cast<std::size_t>(device)].load.end(t, t.now());
  std::erase_if(tries_, [&](const attempt& a) { return a.task == t; });
}

} // namespace tern::hetero::detail
