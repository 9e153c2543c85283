// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Parts of the policies in which a rank that runs short of work asks others: it notices in time,
/// pauses after a request in vain, and remembers which other ranks wait for work. Internal.

#include <algorithm>
#include <utility>
#include <vector>

#include <tern/balance/policies/shared/transfer_planner.hpp>
#include <tern/balance/policy.hpp>

namespace tern::balance::detail {

/// Notices, as objects become ready and are taken, that a rank runs short of them, or no longer is.
/// Counting calls makes it cheap: each is one object more or fewer. One thread at a time.
class load_trigger {
public:
  /// \param limit objects for each worker below which a rank is short.
  explicit load_trigger(double limit) : limit_(limit) {}

  enum class news {
    none,
    short_of_work, ///< told again and again
    enough         ///< told once
  };
  /// One object has become ready, or has been taken.
  news changed(const policy_context& here, const transfer_planner& what) {
    if (!due(here)) return news::none;
    const bool before = std::exchange(was_short_, what.short_of(limit_));
    return was_short_ ? news::short_of_work : before ? news::enough : news::none;
  }
  /// As `changed`, for a caller that looks itself: is it time to?
  bool due(const policy_context& here) {
    if (--look_in_ > 0) return false;
    // The rank cannot be short of them before.
    const double spare = static_cast<double>(here.ready()) - limit_ * here.workers();
    look_in_ = std::clamp(static_cast<int>(spare / 2), 4, 1000);
    return here.size() > 1;
  }
  void start() { was_short_ = false; }

private:
  double limit_;
  int look_in_ = 0;
  bool was_short_ = false;
};

/// Pauses between attempts: each twice as long as the one before, up to a hundred times the first.
class backoff {
public:
  explicit backoff(double first) : first_(first), next_(first) {}
  bool resting(double now) const { return now < until_; }
  void rest(double now) {
    until_ = now + next_;
    next_ = std::min(2 * next_, 100 * first_);
  }
  /// An attempt has been of use, or things are new.
  void start() {
    until_ = 0;
    next_ = std::min(first_, most_);
  }
  /// What the first pause takes at most, from the next `start` on: where all is new that often, a
  /// longer one would be for nothing.
  void limit(double most) { most_ = most; }

private:
  double first_, next_, until_ = 0, most_ = first_;
};

/// Ranks that wait to be told of work: each once, in order, so that runs repeat themselves.
class waiting_ranks {
public:
  void add(int rank) {
    const auto at = std::lower_bound(ranks_.begin(), ranks_.end(), rank);
    if (at == ranks_.end() || *at != rank) ranks_.insert(at, rank);
  }
  bool empty() const { return ranks_.empty(); }
  void clear() { ranks_.clear(); }
  /// Tells all, and forgets them.
  template <class F> void tell(F&& to) {
    for (const int r : std::exchange(ranks_, {})) to(r);
  }

private:
  std::vector<int> ranks_;
};

} // namespace tern::balance::detail
