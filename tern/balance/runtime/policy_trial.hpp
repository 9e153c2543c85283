// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Whether a policy is worth its price on a rank. Internal; docs/decisions/0047.

#include <cstdint>

namespace tern::balance::detail {

/// Decides whether a policy acts on a rank or stands aside, from windows of time. Of each window it
/// is told the *share*: which part of its workers' time the rank spent in long invocations. All
/// that a policy costs (deciding, packing, moving, queueing) and all that it gains (less idleness)
/// changes this share, so the policy is of use if the share is larger with it than without.
///
/// The policy acts for a stretch of windows, which ends early if the shares of the ranks that it
/// talks to are alike. Then it stands aside for a few, which shows the share without it. If that is
/// smaller, the policy acts again, for twice as long as before. If not, it stays aside, at each
/// time for twice as many windows, and then is tried again. It is tried at once when the share
/// falls, or when the balancer calls `wake`. A rank from which others take objects does not judge:
/// the gain is theirs.
///
/// No clock, no chance: the same windows give the same decisions. One thread at a time.
class policy_trial {
public:
  struct window {
    double share = 0;
    std::uint32_t came = 0, went = 0; ///< objects that the policy has moved
    double least = -1, most = -1;     ///< of the recent shares of other ranks; negative: none has been heard of
  };

  bool acts() const noexcept { return phase_ == phase::acts; }
  /// The mean share of the last stretch with the policy, and of the last one without; negative: not
  /// known.
  double with() const noexcept { return with_; }
  double without() const noexcept { return without_; }
  /// Of the last windows, whatever the policy did; negative: not known.
  double recent() const noexcept { return recent_; }
  /// Has the share without the policy been seen, and was it no smaller?
  bool brings_nothing() const noexcept { return phase_ == phase::rests; }

  /// Another policy, or the same one begins again.
  void start() noexcept { *this = {}; }
  /// \return whether `acts` has changed.
  bool end_window(const window& w) noexcept;
  /// The load has become uneven. \return whether `acts` has changed.
  bool wake() noexcept;

  static constexpr double worse = 0.85; ///< a share that is smaller by so much shows another load

private:
  enum class phase : std::uint8_t {
    acts,
    probes, ///< stands aside until the share without the policy is known
    rests   ///< stands aside because the policy brings no gain
  };
  bool act(bool of_use) noexcept;
  void begin(phase p) noexcept;
  bool end_stretch() noexcept;
  bool is_even(const window& w) const noexcept;

  phase phase_ = phase::acts;
  bool was_even_ = false;                       ///< the load, when the policy stood aside
  std::uint32_t windows_ = 0, all_windows_ = 0; ///< of this phase; since `start`
  std::uint32_t came_ = 0, went_ = 0;
  std::uint32_t even_ = 0;      ///< windows in a row in which the ranks' shares were alike
  double early_ = 0, late_ = 0; ///< sums of shares in its first and its second half
  double with_ = -1, without_ = -1, recent_ = -1;
  std::uint32_t stretch_ = first_stretch, rest_ = first_rest;

  static constexpr std::uint32_t first_stretch = 8, longest_stretch = 128, enough_even = 3;
  static constexpr std::uint32_t probe = 9, first_rest = 16, longest_rest = 1024;
};

} // namespace tern::balance::detail
