// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/eviction/upcoming_uses.hpp>

#include <algorithm>
#include <mutex>
#include <new>

namespace tern::hetero::detail {

void upcoming_uses::start(std::uint64_t before) noexcept {
  const std::lock_guard hold(lock_);
  if (on()) return;
  unknown_ = before;
  on_.store(true, std::memory_order_relaxed);
}

void upcoming_uses::note(task_record& t) noexcept {
  const std::lock_guard hold(lock_);
  if (tasks_ == most_tasks || t.use_count == 0) return;
  std::size_t put = 0;
  try {
    std::uint64_t level = level_now_;
    ++number_;
    for (std::size_t i = 0; i < t.use_count; ++i) {
      const use& u = t.use_at(i);
      const auto found = objects_.find(u.object);
      if (found == objects_.end()) continue;
      level = std::max(level, (writes(u.how) ? found->second.used : found->second.written) + 1);
    }
    uses_of_object* chain = nullptr;
    for (std::size_t i = 0; i < t.use_count && !chain; ++i)
      if (const use& u = t.use_at(i); writes(u.how)) chain = &objects_[u.object];
    const std::uint64_t link = chain ? chain->links++ : 0;
    const std::int64_t devices = t.flags & task_record::extended ? t.device_mask : -1;
    for (; put < t.use_count; ++put) {
      const use& u = t.use_at(put);
      uses_of_object& o = objects_[u.object];
      o.all.push_back({&t, level, number_, u.part, devices, chain, link});
      ++o.left;
      o.used = std::max(o.used, level);
      if (writes(u.how)) o.written = std::max(o.written, level);
    }
  } catch (const std::bad_alloc&) { // no forecast for it
    while (put-- > 0) {
      uses_of_object& o = objects_.find(t.use_at(put).object)->second;
      o.all.pop_back();
      --o.left;
    }
    return;
  }
  ++tasks_;
  for (std::size_t i = 0; i < t.use_count; ++i) t.use_at(i).noted = true;
}

bool upcoming_uses::are_noted(task_record& t) noexcept { return t.use_count > 0 && t.use_at(0).noted; }

void upcoming_uses::ended(task_record& t) noexcept {
  const std::lock_guard hold(lock_);
  if (unknown_ > 0) --unknown_;
  if (!are_noted(t)) return;
  --tasks_;
  for (std::size_t i = 0; i < t.use_count; ++i) {
    t.use_at(i).noted = false;
    const auto found = objects_.find(t.use_at(i).object);
    if (found == objects_.end()) continue; // by several uses of one object
    uses_of_object& o = found->second;
    std::size_t k = std::max(o.ended, o.first);
    for (std::size_t n = o.first; n < o.all.size(); ++n, ++k) {
      if (k >= o.all.size()) k = o.first;
      if (o.all[k].task != &t) continue;
      o.all[k].task = nullptr;
      level_now_ = std::max(level_now_, o.all[k].level);
      if (o.all[k].chain == &o) {
        if (o.turn != 0 && o.began == o.all[k].link) turn_now_ = std::max(turn_now_, o.turn);
        o.head = std::max(o.head, o.all[k].link + 1);
      }
      --o.left;
      o.ended = k + 1;
      break;
    }
    if (o.left == 0) {
      objects_.erase(found);
      continue;
    }
    while (!o.all[o.first].task) ++o.first;
    if (o.first > o.all.size() / 2) { // so that each is moved once or so
      o.all.erase(o.all.begin(), o.all.begin() + static_cast<std::ptrdiff_t>(o.first));
      o.ended = 0;
      o.first = 0;
    }
  }
}

// It is among the first of its chain that have not ended, so that it is found soon.
void upcoming_uses::has_turn(task_record& t, bool of_its_own) noexcept {
  constexpr double forgets = 1.0 / 16;
  const std::lock_guard hold(lock_);
  for (std::size_t i = 0; i < t.use_count; ++i) {
    if (!writes(t.use_at(i).how)) continue;
    const auto found = objects_.find(t.use_at(i).object);
    if (found == objects_.end()) return;
    uses_of_object& c = found->second;
    std::size_t k = c.first;
    while (k < c.all.size() && c.all[k].task != &t) ++k;
    if (k == c.all.size()) return;
    const std::uint64_t link = c.all[k].link;
    c.known = link;
    if (!of_its_own) return;
    // A run that goes to the chain's end says nothing of how long it might have been.
    if (c.turn != 0 && link > c.began) run_ += (static_cast<double>(link - c.began) - run_) * forgets;
    c.began = link;
    c.turn = ++last_turn_;
    return;
  }
}

use_order upcoming_uses::expected(const upcoming& u) const noexcept {
  const std::uint64_t queue = last_turn_ - turn_now_;
  const std::uint64_t by_level = u.level << 32 | u.number;
  if (!u.chain) return {last_turn_ + 1, by_level};
  const uses_of_object& c = *u.chain;
  const std::uint64_t before = u.link - std::min(c.head, u.link); // of its chain, and have not ended
  const std::uint64_t rounds = static_cast<std::uint64_t>(static_cast<double>(before) / run_) * queue;
  const bool has_turn = c.turn != 0 && c.known >= c.head; // the first of them has
  return has_turn ? use_order{c.turn + rounds, before} : use_order{last_turn_ + 1 + rounds, by_level};
}

bool upcoming_uses::complete() const noexcept {
  const std::lock_guard hold(lock_);
  return on() && unknown_ == 0;
}

std::optional<use_order> upcoming_uses::next(const object_state& object, const box& part,
                                             std::uint8_t d) const noexcept {
  const std::lock_guard hold(lock_);
  const auto found = objects_.find(&object);
  if (found == objects_.end()) return std::nullopt;
  std::optional<use_order> soonest;
  std::size_t looked_at = 0;
  for (std::size_t k = found->second.first; k < found->second.all.size(); ++k) {
    const upcoming& u = found->second.all[k];
    if (!u.task || (d != any_device && (u.devices >> d & 1) == 0) || !u.part.meets(part)) continue;
    const use_order order = d == any_device ? use_order{u.level, u.number} : expected(u);
    if (!soonest || order < *soonest) soonest = order;
    if (++looked_at == most_looked_at) break;
  }
  return soonest;
}

std::size_t upcoming_uses::tasks() const noexcept {
  const std::lock_guard hold(lock_);
  return tasks_;
}

std::size_t upcoming_uses::objects() const noexcept {
  const std::lock_guard hold(lock_);
  return objects_.size();
}

} // namespace tern::hetero::detail
