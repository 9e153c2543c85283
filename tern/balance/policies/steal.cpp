// SPDX-License-Identifier: Apache-2.0
/// \file
/// Random stealing of objects, with the invocations that wait for them, and lifelines (Saraswat,
/// Kambadur, Kodali, Grove, Krishnamoorthy: Lifeline-based global load balancing, PPoPP 2011). A
/// rank that runs short tries some others at random; if none has anything, it tells a few fixed
/// ones and rests: a rank that has something later remembers it.
///
/// Parameters: `early`: with fewer objects for each worker a rank begins to steal; `victims`: after
/// so many in vain it rests, at first for `rest`, or for a 64th of the last phase if that is less;
/// `lifelines`: how many ranks remember it, at most;
/// `share` of its waiting load that a victim gives, at most; `slack`: the part of a victim's load
/// that is no reason to give to a thief that is not idle; `moves` and `hold`: an object that has
/// moved so often stays where it is so long.
#include <tern/balance/policy.hpp>

#include <algorithm>
#include <utility>

#include <tern/balance/policies/shared/load_trigger.hpp>
#include <tern/balance/policies/shared/transfer_planner.hpp>
#include <tern/balance/policy/builtin.hpp>

namespace tern::balance {
namespace {

using detail::load_report;

/// Answered by `settled`.
struct steal_request {
  std::uint32_t number = 0;
  load_report how;
  template <class A> void serialize(A& ar) { ar(number, how); }
};

/// "I rest: think of me when you have something." Holds until an offer has been made.
struct lifeline {
  template <class A> void serialize(A&) {}
};

/// "There is something for you here."
struct offer {
  template <class A> void serialize(A&) {}
};

class steal final : public policy {
public:
  steal(policy_context& h, parameters& p)
      : policy(h), early_(p.number("early", 6, 0, 1000)), share_(p.number("share", 0.5, 0, 1)),
        slack_(p.number("slack", 0.02, 0, 1)), victims_(p.count("victims", 4, 1, 1000)),
        lifelines_(p.count("lifelines", 32, 1, 32)), backoff_(p.seconds("rest", 0.1)),
        planner_(h, p.seconds("hold", 300), p.count("moves", 4, 1, 100)) {
    on(&steal::stolen_from);
    on(&steal::coming);
    on(&steal::received);
    on(&steal::rests);
    on(&steal::offered);
  }

  void dist_balance(trigger why) override {
    if (here.size() == 1) return;
    switch (why) {
    case trigger::phase: {
      waiting_.clear();
      // In a step of parts, in the first of which there is nothing to have, a rest must not outlast
      // the others.
      const double now = here.now();
      backoff_.limit((now - std::exchange(phase_began_, now)) / rests_a_phase);
    }
      [[fallthrough]];
    case trigger::start:
      planner_.forget();
      ++number_;
      stealing_ = false;
      tries_ = 0;
      trigger_.start();
      backoff_.start();
      return;
    case trigger::idle:
      return look();
    case trigger::period:
      serve();
      if (planner_.short_of(early_)) look();
      return;
    }
  }

  void notify(object_id) override {
    switch (trigger_.changed(here, planner_)) {
    case detail::load_trigger::news::none:
      return;
    case detail::load_trigger::news::short_of_work:
      return look();
    case detail::load_trigger::news::enough:
      return serve();
    }
  }

private:
  void look() {
    if (stealing_ || backoff_.resting(here.now())) return;
    tries_ = 0;
    try_another();
  }

  void try_another() {
    const auto other = static_cast<int>(here.random(static_cast<std::uint64_t>(here.size() - 1)));
    steal_from(other < here.rank() ? other : other + 1);
  }

  void steal_from(int victim) {
    stealing_ = true;
    send(victim, steal_request{++number_, planner_.precisely()});
  }

  void stolen_from(int thief, const steal_request& t) {
    std::vector<object_info> objects;
    const load_report mine = planner_.mine();
    // A thief that still has some gets nothing for a small difference: it may be the victim that
    // asks next.
    const bool differ = std::max(mine.ahead - t.how.ahead, mine.ends - t.how.ends) > slack_ * mine.ahead;
    if (t.how.idle > 0 || (!stealing_ && differ)) objects = planner_.choose(thief, t.how, share_ * here.waiting());
    if (!objects.empty()) send(thief, planner_.announce(objects));
    planner_.move(objects, thief, t.number, [this, thief](const detail::settled& s) { send(thief, s); });
  }

  void coming(int, const detail::announced& what) { planner_.coming(what); }

  void received(int victim, const detail::settled& s) {
    if (!stealing_ || s.number != number_) return;
    stealing_ = false;
    if (s.moved > 0) {
      backoff_.start();
      if (planner_.short_of(early_)) look();
      return;
    }
    if (backoff_.resting(here.now())) return send(victim, lifeline{}); // it has had an offer, but not for this rank
    if (++tries_ < victims_) return try_another();
    backoff_.rest(here.now());
    // At distances of powers of two: so all ranks are near, by few lifelines of each.
    int k = 0;
    for (int d = 1; d < here.size() && k < lifelines_; d *= 2, ++k) send((here.rank() + d) % here.size(), lifeline{});
  }

  void rests(int from, const lifeline&) { waiting_.add(from); }

  void serve() {
    if (waiting_.empty() || planner_.short_of(early_)) return;
    waiting_.tell([&](int rank) { send(rank, offer{}); });
  }

  void offered(int from, const offer&) {
    if (!stealing_ && planner_.short_of(early_)) steal_from(from);
  }

  static constexpr double rests_a_phase = 64;
  const double early_, share_, slack_;
  const int victims_, lifelines_;
  detail::load_trigger trigger_{early_};
  detail::backoff backoff_;
  detail::transfer_planner planner_;
  detail::waiting_ranks waiting_;

  std::uint32_t number_ = 0; ///< of the last steal_request
  bool stealing_ = false;
  double phase_began_ = 0;
  int tries_ = 0;
};

} // namespace

namespace detail {
policy_kind steal_kind() {
  return kind_of<steal>("steal", "ranks that run short take half of what random others have, or wait at lifelines");
}
} // namespace detail

} // namespace tern::balance
