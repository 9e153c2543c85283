// SPDX-License-Identifier: Apache-2.0
#include <tern/balance/runtime/policy_trial.hpp>

#include <algorithm>

namespace tern::balance::detail {
namespace {

constexpr double better = 1.08;       // what is more than chance
constexpr double last_window = 0.125; // its weight in the recent share
constexpr double much_worse = 0.8;    // in one window
constexpr std::uint32_t mostly = 3;   // times as many objects go as come: others take them

} // namespace

void policy_trial::begin(phase p) noexcept {
  phase_ = p;
  windows_ = came_ = went_ = even_ = 0;
  early_ = late_ = 0;
}

// \return true: it stood aside.
bool policy_trial::act(bool of_use) noexcept {
  stretch_ = of_use ? std::min(2 * stretch_, longest_stretch) : first_stretch;
  if (of_use) rest_ = first_rest;
  without_ = -1;
  begin(phase::acts);
  return true;
}

bool policy_trial::wake() noexcept {
  if (acts()) return false;
  return act(phase_ == phase::probes); // while it probes, it is the policy that is missing
}

bool policy_trial::end_window(const window& w) noexcept {
  recent_ += std::max(last_window, 1.0 / ++all_windows_) * (w.share - recent_);
  ++windows_;
  switch (phase_) {
  case phase::acts:
    came_ += w.came;
    went_ += w.went;
    (windows_ <= stretch_ / 2 ? early_ : late_) += w.share;
    even_ = is_even(w) ? even_ + 1 : 0;
    // What is even cannot be made more so; but it may be the policy that makes it.
    if (even_ >= enough_even && stretch_ == first_stretch) {
      with_ = recent_;
      was_even_ = true;
      begin(phase::probes);
      return true;
    }
    return windows_ >= stretch_ && end_stretch();
  case phase::probes:
    if (windows_ == 1) { // what had begun before ends in it
      recent_ = with_;
      return false;
    }
    late_ += w.share;
    if (windows_ < probe && w.share >= much_worse * with_) return false;
    without_ = late_ / (windows_ - 1);
    if (was_even_ ? without_ < worse * with_ : with_ > better * without_) return act(true);
    begin(phase::rests);
    return false;
  case phase::rests:
    if (recent_ < worse * without_) return act(false);
    if (windows_ < rest_) return false;
    rest_ = std::min(2 * rest_, longest_rest);
    stretch_ = first_stretch;
    begin(phase::acts);
    return true;
  }
  return false;
}

bool policy_trial::is_even(const window& w) const noexcept {
  if (w.least < 0) return true; // it talks to none
  return std::min(recent_, w.least) >= worse * std::max(recent_, w.most);
}

// Of a phase in which the policy acts. \return whether it stands aside now.
bool policy_trial::end_stretch() noexcept {
  const std::uint32_t half = stretch_ / 2;
  const double before = early_ / half;
  with_ = late_ / (stretch_ - half);
  const bool gives = went_ > mostly * came_, improves = came_ > 0 && with_ > better * before;
  const bool of_use = without_ >= 0 && with_ > better * without_;
  if (of_use) {
    act(true);
    return false;
  }
  if (gives || improves) {
    begin(phase::acts);
    return false;
  }
  was_even_ = false;
  begin(phase::probes);
  return true;
}

} // namespace tern::balance::detail
