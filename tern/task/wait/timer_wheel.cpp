// SPDX-License-Identifier: Apache-2.0
#include <tern/task/wait/timer_wheel.hpp>

#include <algorithm>
#include <bit>
#include <utility>

namespace tern::detail {

void timer_wheel::list::append(timer& t) noexcept {
  t.next = nullptr;
  t.prev = tail;
  (tail ? tail->next : head) = &t;
  tail = &t;
}

void timer_wheel::list::append(list chain) noexcept {
  if (!chain.head) return;
  (tail ? tail->next : head) = chain.head;
  tail = chain.tail;
}

void timer_wheel::reserve() {
  for (auto& r : rows_)
    if (!r) r = std::make_unique<row>();
}

std::size_t timer_wheel::level_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const auto& r : rows_)
    if (r) bytes += sizeof *r;
  return bytes;
}

/// \pre the level has its memory, or is `levels`.
timer_wheel::list& timer_wheel::at(int level, int slot) noexcept {
  return level == levels ? past_ : (*rows_[static_cast<std::size_t>(level)])[static_cast<std::size_t>(slot)];
}

void timer_wheel::put(timer& t) noexcept {
  // A past deadline is not a place in the levels: it would be found a whole turn too late.
  int level = levels, slot = 0;
  if (t.deadline > now_) {
    auto deadline = static_cast<std::uint64_t>(t.deadline);
    level = (static_cast<int>(std::bit_width(deadline ^ static_cast<std::uint64_t>(now_))) - 1) / bits;
    slot = static_cast<int>(deadline >> (level * bits) & (slots - 1));
    const auto n = static_cast<std::size_t>(level);
    if (!rows_[n]) [[unlikely]]
      rows_[n] = std::make_unique<row>();
    used_levels_ |= 1u << level;
    used_[n] |= std::uint64_t{1} << slot;
  }
  t.level = static_cast<std::uint8_t>(level);
  t.slot = static_cast<std::uint8_t>(slot);
  at(level, slot).append(t);
}

void timer_wheel::add(timer& t) noexcept {
  t.armed = true;
  ++size_;
  put(t);
}

void timer_wheel::remove(timer& t) noexcept {
  if (!t.armed) return;
  t.armed = false;
  --size_;
  list& from = at(t.level, t.slot);
  (t.prev ? t.prev->next : from.head) = t.next;
  (t.next ? t.next->prev : from.tail) = t.prev;
  if (!from.head && t.level < levels) take(t.level, t.slot);
}

/// Empties a slot.
timer_wheel::list timer_wheel::take(int level, int slot) noexcept {
  const auto n = static_cast<std::size_t>(level);
  used_[n] &= ~(std::uint64_t{1} << slot);
  if (used_[n] == 0) used_levels_ &= ~(1u << level);
  return std::exchange(at(level, slot), {});
}

/// The first moment of a slot: as now_ above the level.
std::int64_t timer_wheel::start(int level, int slot) const noexcept {
  std::int64_t above = now_ >> (level * bits) & ~std::int64_t{slots - 1};
  return (above | slot) << (level * bits);
}

std::int64_t timer_wheel::next() const noexcept {
  if (past_.head) return now_;
  if (used_levels_ == 0) return never;
  // Any deadline in a level is before all those in the levels above.
  int level = std::countr_zero(used_levels_);
  const auto n = static_cast<std::size_t>(level);
  int slot = std::countr_zero(used_[n]);
  const list& first = (*rows_[n])[static_cast<std::size_t>(slot)];
  // One that is alone, as most are where a program sleeps long, need not wake it on the way down.
  return first.head == first.tail ? first.head->deadline : start(level, slot);
}

/// Those whose deadlines have passed, sorted; the others go back to the levels.
timer_wheel::list timer_wheel::expire(list taken) noexcept {
  list due;
  bool ordered = true;
  for (timer *t = taken.head, *after = nullptr; t; t = after) {
    after = t->next;
    if (t->deadline > now_) {
      put(*t);
      continue;
    }
    ordered = ordered && (!due.tail || due.tail->deadline <= t->deadline);
    due.append(*t);
    t->armed = false;
    --size_;
  }
  return ordered ? due : sorted(due);
}

/// A stable merge sort, without memory, of the runs that are in order already.
timer_wheel::list timer_wheel::sorted(list chain) noexcept {
  auto merge = [](list earlier, list later) {
    list all;
    while (earlier.head && later.head) {
      timer*& least = later.head->deadline < earlier.head->deadline ? later.head : earlier.head;
      timer* t = least;
      least = t->next;
      (all.tail ? all.tail->next : all.head) = t;
      all.tail = t;
    }
    all.append(earlier.head ? earlier : later);
    return all;
  };
  std::array<list, 64> merged; // the n-th is of 2^n runs, or empty; those of higher n were added earlier
  while (chain.head) {
    list run{chain.head, chain.head};
    while (run.tail->next && run.tail->deadline <= run.tail->next->deadline) run.tail = run.tail->next;
    chain.head = run.tail->next;
    run.tail->next = nullptr;
    std::size_t n = 0;
    for (; merged[n].head; ++n) {
      run = merge(merged[n], run);
      merged[n] = {};
    }
    merged[n] = run;
  }
  list all;
  for (list& part : merged)
    if (part.head) all = all.head ? merge(part, all) : part;
  return all;
}

timer* timer_wheel::advance(std::int64_t time) noexcept {
  list fired;
  if (past_.head) fired = expire(std::exchange(past_, {}));
  // The levels below that of the first slot are empty, so what comes down from it keeps its order,
  // and timers of the same deadline came down with it.
  while (used_levels_ != 0) {
    int level = std::countr_zero(used_levels_);
    int slot = std::countr_zero(used_[static_cast<std::size_t>(level)]);
    std::int64_t first = start(level, slot);
    if (first > time) break;
    now_ = std::min(first | ((std::int64_t{1} << (level * bits)) - 1), time);
    fired.append(expire(take(level, slot)));
  }
  now_ = std::max(now_, time);
  return fired.head;
}

} // namespace tern::detail
