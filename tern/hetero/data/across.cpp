// SPDX-License-Identifier: Apache-2.0
/// \file
/// Data of tasks that are put behind tasks of another device, before these have ended.
///
/// All that such a task follows and has not ended is on one device, and its copies come behind all
/// of that. So they may read what is still to be written: what is valid in an instance is valid
/// when those are over. The task itself comes behind its copies, and what follows the task behind
/// it. So a copy that its task has passed need not be awaited by others that write there, and once
/// one of these has been launched, the copy's end makes nothing valid any more.
#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include <tern/hetero/data/coherence.hpp>
#include <tern/hetero/record/failure.hpp>

namespace tern::hetero::detail {

namespace {
transfer* way_home_of(const handed_task& t, const fragment& f) noexcept {
  for (transfer* x : f.coming)
    if (x->to == 0 &&
        std::any_of(t.home.begin(), t.home.end(), [x](const handed_task::way_home& h) { return h.copy == x; }))
      return x;
  return nullptr;
}
} // namespace

// An instance that device `d` can copy from straight; 0: the host's, or none.
std::uint8_t coherence::source_across(const object_state& o, const fragment& f, std::uint8_t d) const noexcept {
  for (std::size_t k = 1; k < o.instances.size(); ++k)
    if ((f.valid & bit(k)) && o.instances[k].exists && o.instances[k].space != 0 &&
        devices_.queue(d)->reaches(*devices_.queue(o.instances[k].space)))
      return static_cast<std::uint8_t>(k);
  return 0;
}

// Under the object's lock. What is just on its way there for another task, or is saved, is left for
// later.
bool coherence::can_come_across(const handed_task& t, use& u, std::uint8_t d) {
  object_state& o = *u.object;
  bool can = u.ordered && !o.paged && !o.other_layout_on(devices_.info(d).kind);
  o.each(u.part, [&](const fragment& f) {
    const transfer* const home = way_home_of(t, f);
    for (const transfer* x : f.coming)
      can = can && (x == home || (x->passed && writes(u.how)) || (!writes(u.how) && x->to != u.instance));
    if (!can || !reads(u.how) || (f.valid & bit(u.instance))) return;
    for (std::size_t k = 1; k < o.instances.size(); ++k) // within the device's memory: another stream's
      can = can && !((f.valid & bit(k)) && o.instances[k].exists && o.instances[k].space == d);
    can = can && (source_across(o, f, d) != 0 || (f.valid & 1) || (f.valid != 0 && home));
  });
  return can;
}

// Under the object's lock. \pre it can.
void coherence::come_across(const handed_task& t, use& u, std::uint8_t d, transfer_chain& behind) {
  object_state& o = *u.object;
  const auto one = [&](const box& part, std::uint8_t from, transfer* source) {
    transfer* const x = new_transfer(o, part, from, u.instance);
    if (source) {
      x->source = source;
      source->behind.push_back(x);
    }
    await(t.task, x, true);
    behind.push(x);
  };
  struct piece {
    box where;
    std::uint8_t from;
    transfer* source;
  };
  std::vector<piece> missing;
  std::int64_t total = 0;
  o.each(u.part, [&](const fragment& f) {
    if (f.valid & bit(u.instance)) return;
    const std::uint8_t from = source_across(o, f, d);
    missing.push_back({f.where, from, from != 0 || (f.valid & 1) ? nullptr : way_home_of(t, f)});
    total += f.where.size();
  });
  if (missing.empty()) return;
  const auto as_first = [&](const piece& p) {
    return p.from == missing.front().from && p.source == missing.front().source;
  };
  if (total == u.part.size() && std::all_of(missing.begin(), missing.end(), as_first)) // one copy instead of many
    return one(u.part, missing.front().from, missing.front().source);
  for (const piece& p : missing) one(p.where, p.from, p.source);
}

coherence::acquired coherence::acquire_across(const handed_task& h, std::uint8_t d, transfer_chain& behind) noexcept {
  task_record* const t = h.task;
  const std::uint8_t space = devices_.space_of(d);
  std::size_t got = 0;
  bool can = space != 0;
  try {
    for (; got < t->use_count && can; got += can ? 1 : 0) {
      use& u = t->use_at(got);
      const std::lock_guard hold(u.object->lock);
      can = find_instance(*u.object, u, *t, space);
    }
    for (std::size_t i = 0; i < got && can; ++i) {
      use& u = t->use_at(i);
      const std::lock_guard hold(u.object->lock);
      can = can_come_across(h, u, d);
    }
  } catch (...) { // the device is lost: that is said when its turn comes
    can = false;
  }
  if (!can) {
    while (got-- > 0) drop_use(t->use_at(got));
    return acquired::no_memory;
  }
  for (std::size_t i = 0; i < t->use_count && !t->has_failed(); ++i) {
    use& u = t->use_at(i);
    const std::lock_guard hold(u.object->lock);
    try {
      if (reads(u.how)) come_across(h, u, d, behind);
    } catch (...) { // the host has no memory
      fail(t, std::current_exception());
      break;
    }
    if (!writes(u.how)) continue;
    u.writing = true;
    u.object->each(u.part, [](fragment& f) { ++f.writing; });
  }
  return t->has_failed() ? acquired::failed : acquired::ready;
}

bool coherence::source_is_over(transfer& x) noexcept {
  const std::lock_guard hold(x.object->lock);
  if (x.source) return false;
  x.again = std::exchange(x.source_again, false) || x.again;
  return true;
}

void coherence::made_again(transfer& x) noexcept {
  const std::lock_guard hold(x.object->lock);
  for (transfer* y : x.behind) y->source_again = true;
}

void coherence::each_way_home(task_record& t, std::uint8_t d, const std::function<void(transfer&)>& f) {
  for (std::size_t i = 0; i < t.use_count; ++i) {
    const use& u = t.use_at(i);
    if (!reads(u.how)) continue;
    const std::lock_guard hold(u.object->lock);
    u.object->each(u.part, [&](const fragment& part) {
      for (transfer* x : part.coming)
        if (x->to == 0 && x->device == d) f(*x);
    });
  }
}

} // namespace tern::hetero::detail
