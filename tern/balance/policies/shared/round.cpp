// SPDX-License-Identifier: Apache-2.0
/// \file
/// When rounds begin and end.
#include <tern/balance/policies/shared/round.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include <tern/base/error.hpp>

namespace tern::balance::detail {
namespace {

/// Work of about so long, compared with what is left, may be wasted on waiting for the next round.
constexpr double share_between = 0.02;
/// Rounds that move nothing come further and further apart: so many times as far at most, …
constexpr double most_backed_off = 64;
/// … but not so far that a large part of what is left to do is over before the next.
constexpr double most_share_between = 0.25;
/// A gain is measured by what is left to do, or by so many objects if that is more.
constexpr double objects_in_gain = 10;
/// What `caution` grows by; and work has come if all will end later than was said by this share of
/// what is left.
constexpr double more_cautious = 1.5, more_work = 0.05;
/// Phases in a row without a round at their end.
constexpr int most_skipped = 15;
/// Changes of load on a rank after which it looks whether it has become too full, without waiting
/// for the next period.
constexpr std::uint32_t changes_between_looks = 256;
/// How long rank 0 waits for the first round that does not end. Where ranks take no messages while
/// they compute, rounds last as long as some invocations.
constexpr double first_patience = 60;
/// An object is replaced by one with a load that differs by no more than this share.
constexpr float most_unlike = 0.25F;
/// A timer may come early by so much.
constexpr double clock_step = 1e-6;

} // namespace

tree_view view_tree(int rank, int size, int arity) {
  tree_view view;
  for (branch at{0, size};;) {
    const int below = at.last - at.first - 1, n = std::min(arity, below);
    const auto begin = [&](int child) {
      return at.first + 1 + static_cast<int>(static_cast<std::int64_t>(below) * child / n);
    };
    if (at.first == rank) {
      for (int i = 0; i < n; ++i) view.children.push_back({begin(i), begin(i + 1)});
      return view;
    }
    int child = 0;
    while (rank >= begin(child + 1)) ++child;
    view.parent = at.first;
    at = {begin(child), begin(child + 1)};
  }
}

std::size_t tree_view::place_of(int rank) const {
  for (std::size_t i = 0; i < children.size(); ++i)
    if (children[i].first == rank) return i + 1;
  throw error(errc::invalid_data, "rank " + std::to_string(rank) + " takes part in a round at the wrong place",
              "give all ranks the same option balance");
}

round_policy::round_policy(policy_context& h, parameters& p, counted by)
    : policy(h), counting_(h, by), tree_(view_tree(h.rank(), h.size(), p.count("arity", 8, 2, 64))),
      least_distance_(p.seconds("distance", 0.01)), gain_(p.number("gain", 0.005, 0, 1)),
      inside_(p.word("inside", "yes", "yes|no") == "yes"), patience_(first_patience) {
  on(&round_policy::take_wish);
  on(&round_policy::take_begin);
  on(&round_policy::take_end);
}

void round_policy::dist_balance(trigger why) {
  if (here.size() == 1) return;
  switch (why) {
  case trigger::start:
    ready_ = false;
    if (!root()) return;
    distance_ = 0;
    here.after(0, [this] { wish(); }); // when what can has begun to run
    return;
  case trigger::period:
    ready_ = false; // the next phase has begun, without a round
    if (worth_a_wish()) wish();
    return;
  case trigger::idle:
    if (!nothing_waits_) wish(); // else a rank that gets something new says so
    return;
  case trigger::phase:
    phases_ = ready_ = true;
    if (skipping& s = skips_[here.array_of_phase()]; root() && s.done++ >= s.due) {
      s.done = 0;
      open(true);
    } else if (begun_) {
      start();
    }
    return;
  }
}

void round_policy::notify(object_id) {
  ready_ = false;
  if (++changes_ < changes_between_looks) return;
  changes_ = 0;
  if (here.size() > 1 && worth_a_wish()) wish();
}

bool round_policy::worth_a_wish() const {
  const resource late = counting_.critical();
  if (!(counting_.of(late).waiting() > 0)) return false; // it has nothing to give away
  const double own = counting_.ahead(late);
  return here.now() + own > until_ + std::max(share_between * level_, 2 * least_distance_);
}

void round_policy::wish() {
  if ((phases_ && !inside_) || wished_ == number_ + 1) return;
  wished_ = number_ + 1;
  if (!root()) return send(tree_.parent, round_wish{number_});
  wanted_ = true;
  consider();
}

void round_policy::take_wish(int from, const round_wish& m) {
  tree_.place_of(from);
  if (m.after >= number_) wish(); // else the round that it has not heard of yet sees what it has
}

void round_policy::consider() {
  if (!wanted_) return;
  const double now = here.now(), from = open_ ? opened_ + patience_ : closed_ + distance_;
  if (now + clock_step >= from) {
    if (open_) patience_ *= 2;
    open(false);
  } else if (timer_ == 0 || from < timer_) { // that for a round which does not end is set for long
    timer_ = from;
    here.after(from - now, [this, from] {
      if (timer_ == from) timer_ = 0;
      consider();
    });
  }
}

void round_policy::open(bool at_phase) {
  wanted_ = false;
  open_ = true;
  gained_ = 0;
  opened_ = here.now();
  take_begin(0, {number_ + 1, at_phase});
}

void round_policy::take_begin(int from, const round_begin& m) {
  if (from != std::max(tree_.parent, 0) || m.number <= number_) return;
  number_ = m.number;
  at_phase_ = m.at_phase;
  send_down(m);
  begun_ = true;
  if (!at_phase_ || ready_) start();
}

void round_policy::start() {
  begun_ = false;
  if (at_phase_) ready_ = false;
  ends_.begin(tree_);
  begin();
}

movable_work round_policy::look(bool all) {
  movable_work work;
  const bool workers = counting_.counts(resource::worker), devices = counting_.counts(resource::device);
  const double pace = here.pace() > 0 ? here.pace() : 1;
  auto& [own, of_devices] = work.states;
  own.workers = here.workers();
  own.speed = here.workers() / pace;
  of_devices.workers = here.devices();
  of_devices.speed = of_devices.workers == 0  ? 0
                     : here.device_pace() > 0 ? of_devices.workers / here.device_pace()
                                              : -1;
  const auto stays = [&](resource r, double load) {
    if (!(load > 0)) return;
    work.states[static_cast<std::size_t>(r)].fixed += load;
    work.fixed[static_cast<std::size_t>(r)].push_back(static_cast<float>(load));
  };
  for (object_info& x : here.objects()) {
    if (!at_phase_ && x.pending == 0) x.load = 0;
    if (!at_phase_) x.load = std::max(x.load - x.ran / pace, 0.0);
    if (!workers) x.load = 0;
    if (!devices) x.device = 0;
    if (all || (x.movable && (x.load > 0 || x.device > 0))) {
      work.objects.push_back(x);
    } else if (!x.movable) {
      stays(resource::worker, x.load);
      stays(resource::device, x.device);
    }
  }
  for (std::vector<float>& parts : work.fixed) std::sort(parts.begin(), parts.end(), std::greater<>());
  return work;
}

void round_policy::replace_begun(std::vector<departure>& leaving, const std::vector<object_id>& free,
                                 resource of) const {
  if (at_phase_ || leaving.empty()) return; // nothing runs between phases
  std::vector<object_id> movable;
  std::vector<std::pair<float, object_id>> instead;
  for (const object_info& x : here.objects()) {
    if (!x.movable || x.pending == 0) continue;
    movable.push_back(x.id);
    if (std::binary_search(free.begin(), free.end(), x.id))
      instead.emplace_back(static_cast<float>(of == resource::device ? x.device : x.load), x.id);
  }
  std::sort(movable.begin(), movable.end());
  std::sort(instead.begin(), instead.end());
  for (departure& d : leaving) {
    if (instead.empty()) return;
    if (std::binary_search(movable.begin(), movable.end(), d.id)) continue;
    auto best = std::lower_bound(instead.begin(), instead.end(), std::pair(d.load, object_id()));
    if (best == instead.end() || (best != instead.begin() && d.load - (best - 1)->first < best->first - d.load)) --best;
    if (std::abs(best->first - d.load) > most_unlike * d.load) continue;
    d.id = best->second;
    instead.erase(best);
  }
}

double round_policy::least_gain(double level, double grain, double caution) const noexcept {
  return caution * gain_ * std::max(level, objects_in_gain * grain);
}

void round_policy::expect(double level, double own, double grain) {
  level_ = level;
  nothing_waits_ = !(grain > 0);
  if (grain > 0) grain_ = grain;
  if (here.now() + level > until_ + more_work * level) caution_ = 1;
  until_ = here.now() + std::max(level, own);
  changes_ = 0;
}

void round_policy::close_unchanged() { close(0); }

void round_policy::ended(std::uint32_t moved, std::uint32_t failed) { take_end(here.rank(), {number_, moved, failed}); }

void round_policy::take_end(int from, const round_end& m) {
  if (m.number != number_) return;
  if (!ends_.add(from == here.rank() ? 0 : tree_.place_of(from), m)) return;
  round_end all{number_, 0, 0};
  for (const auto& part : ends_.parts()) {
    all.moved += part->moved;
    all.failed += part->failed;
  }
  if (!root()) return send(tree_.parent, all);
  here.note("round moved", all.moved);
  here.note("round failed", all.failed);
  close(all.moved);
}

void round_policy::close(std::uint32_t moved) {
  open_ = false;
  closed_ = here.now();
  patience_ = std::max(first_patience, 4 * (closed_ - opened_));
  if (at_phase_) {
    const double cost = closed_ - opened_;
    int& due = skips_[here.array_of_phase()].due;
    if (level_ > 0) // else nothing is known yet of what objects do
      due = cost > share_between * level_ && cost > gained_ ? std::min(2 * due + 1, most_skipped) : 0;
  }
  caution_ = at_phase_ ? 1 : moved > 0 ? more_cautious * caution_ : caution_;
  backed_off_ = moved > 0 || at_phase_ ? 1 : std::min(2 * backed_off_, most_backed_off);
  distance_ = std::max({least_distance_ * backed_off_, closed_ - opened_,
                        level_ * std::min(share_between * backed_off_, most_share_between),
                        grain_ * std::min(share_between * backed_off_, most_share_between)});
  consider();
}

} // namespace tern::balance::detail
