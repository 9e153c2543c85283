// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/schedule/policies/affinity_table.hpp>

#include <algorithm>

namespace tern::hetero::detail {

namespace {
// Of a link that no copy has shown yet: seconds, bytes a second.
constexpr double guessed_latency = 1e-5, guessed_bandwidth = 8e9;
} // namespace

double seconds_of_copy(const ready_task& t, std::size_t from, std::size_t to, std::int64_t bytes) {
  return t.expected_copy(static_cast<int>(from), static_cast<int>(to), bytes)
      .value_or(guessed_latency + static_cast<double>(bytes) / guessed_bandwidth);
}

std::optional<std::size_t> affinity_table::home(std::uint64_t key) const {
  const auto found = find_.find(key);
  return found == find_.end() ? std::nullopt : std::optional(found->second->home);
}

std::optional<std::size_t> affinity_table::home(std::uint64_t key, std::span<const device_load> devices) const {
  const auto d = home(key);
  return d && *d < devices.size() && !devices[*d].lost ? d : std::nullopt;
}

affinity_table::load& affinity_table::of_device(std::size_t d) {
  if (devices_.size() <= d) devices_.resize(d + 1);
  return devices_[d];
}

double affinity_table::in_seconds(const load& l) const noexcept {
  return l.seconds + l.unknown * (known_tasks_ > 0 ? known_seconds_ / known_tasks_ : 1);
}

double affinity_table::load_of(std::size_t device) const noexcept {
  return device < devices_.size() ? in_seconds(devices_[device]) : 0;
}

// The key's entry, first in the list.
affinity_table::entry& affinity_table::used(std::uint64_t key, std::size_t home) {
  if (const auto found = find_.find(key); found != find_.end()) {
    keys_.splice(keys_.begin(), keys_, found->second);
    return keys_.front();
  }
  if (keys_.size() >= keys_most) {
    of_device(keys_.back().home) -= keys_.back().tasks;
    find_.erase(keys_.back().key);
    keys_.splice(keys_.begin(), keys_, std::prev(keys_.end())); // its memory is used again
  } else {
    keys_.emplace_front();
  }
  keys_.front() = {};
  keys_.front().key = key;
  keys_.front().home = home;
  find_.emplace(key, keys_.begin());
  return keys_.front();
}

std::size_t affinity_table::settle(std::uint64_t key, std::span<const choice> all) {
  const choice* best = nullptr;
  double least = 0;
  for (const choice& c : all) {
    load after;
    if (c.device < devices_.size()) after = devices_[c.device];
    after += c.seconds >= 0 ? load{c.seconds, 0} : load{0, 1};
    const double over = in_seconds(after) / c.units;
    if (best && (over > least || (over == least && c.missing >= best->missing))) continue;
    best = &c;
    least = over;
  }
  entry& e = used(key, best->device);
  if (e.home != best->device) { // it has lost its home
    of_device(e.home) -= e.tasks;
    of_device(best->device) += e.tasks;
    e.home = best->device;
    e.left = 0;
    e.waiting = 0; // they come again
  }
  return e.home;
}

void affinity_table::came(std::uint64_t key, double seconds, std::span<const read_data> data) {
  entry& e = used(key, 0);
  const load one = seconds >= 0 ? load{seconds, 0} : load{0, 1};
  ++e.waiting;
  e.last = seconds;
  e.at = ++came_;
  e.tasks += one;
  of_device(e.home) += one;
  if (seconds >= 0) {
    known_seconds_ += seconds;
    known_tasks_ += 1;
  }
  for (const read_data& d : data) {
    const piece p{d.as_missing.piece, d.as_missing.bytes};
    const auto same =
        std::find_if(e.pieces.begin(), e.pieces.end(), [&](const piece& x) { return x.number == p.number; });
    if (same != e.pieces.end())
      *same = p;
    else if (e.pieces.size() < pieces_most)
      e.pieces.push_back(p);
    else
      e.pieces[e.next_piece++ % pieces_most] = p;
  }
  if (++tasks_ >= remembered) forget_half();
}

void affinity_table::forget_half() noexcept {
  tasks_ = 0;
  known_seconds_ /= 2;
  known_tasks_ /= 2;
  for (load& l : devices_) l = {}; // and not what rounding has left
  for (entry& e : keys_) {
    e.tasks.seconds /= 2;
    e.tasks.unknown /= 2;
    devices_[e.home] += e.tasks;
  }
}

bool affinity_table::went(std::uint64_t key, std::size_t device) {
  const auto found = find_.find(key);
  if (found == find_.end()) return false;
  entry& e = *found->second;
  if (e.home == device) {
    e.left = 0;
    return false;
  }
  if (++e.left < leaves_most) return false;
  of_device(e.home) -= e.tasks;
  of_device(device) += e.tasks;
  e.home = device;
  e.left = 0;
  return true;
}

std::int64_t affinity_table::bytes_of(std::uint64_t key) const {
  const auto found = find_.find(key);
  std::int64_t all = 0;
  if (found != find_.end())
    for (const piece& p : found->second->pieces) all += p.bytes;
  return all;
}

void affinity_table::ended(std::uint64_t key) noexcept {
  const auto found = find_.find(key);
  if (found != find_.end() && found->second->waiting > 0) --found->second->waiting;
}

double affinity_table::to_come(std::size_t device, std::uint64_t key) const noexcept {
  double all = 0;
  for (const entry& e : keys_) {
    const bool comes = e.waiting > 0 || came_ - e.at <= recent * keys_.size();
    if (comes && e.home == device && e.key != key) all += in_seconds(e.last >= 0 ? load{e.last, 0} : load{0, 1});
  }
  return all;
}

bool affinity_table::may_leave(const ready_task& t, std::uint64_t key, const expectation& home,
                               const expectation& elsewhere, double now) const {
  const auto found = find_.find(key);
  const double own = found == find_.end() ? 0 : static_cast<double>(found->second->waiting) * home.seconds;
  const double move = seconds_of_copy(t, home.device, elsewhere.device, bytes_of(key));
  double at_home = std::max(home.end - now - own, home.seconds), there = elsewhere.end - now;
  const auto much_later_at_home = [&] { return at_home > much_later * there && at_home - there > move; };
  if (!much_later_at_home()) return false;
  at_home += to_come(home.device, key);
  there += to_come(elsewhere.device, key);
  return much_later_at_home();
}

} // namespace tern::hetero::detail
