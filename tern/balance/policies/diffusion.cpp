// SPDX-License-Identifier: Apache-2.0
/// \file
/// Diffusion: ranks even out what lies ahead of them within small neighbourhoods, until it is even
/// everywhere (Cybenko 1989). Mostly those that have less ask for more (PREMA's implicit load
/// balancing: Barker, Chernikov, Chrisochoides, Pingali 2004): a rank asks some others how they
/// stand, and takes from the richest one.
///
/// What a rank should have is what the ranks have on average; each estimates that from all that it
/// hears, and from what the others estimate. So an object goes at once from where there is too much
/// to where there is too little, instead of in steps.
///
/// Parameters: `limit`: with fewer objects for each worker (or less than so many average ones) a
/// rank looks for more at once, else every period, or every few while nothing is to be had;
/// `neighbours`, how many ranks it asks at a time: the next ones by number, then others at random;
/// `tries`: after so many neighbourhoods in vain it leaves word with the last one and rests, at
/// first for `rest`; `slack`, the part of the average that is not worth a move; `moves` and `hold`:
/// an object that has moved so often stays where it is so long; `by` (resources.hpp): if both
/// count, two ranks even out what the fuller one ends later by.
#include <tern/balance/policy.hpp>

#include <algorithm>
#include <cmath>

#include <tern/balance/policies/shared/load_trigger.hpp>
#include <tern/balance/policies/shared/transfer_planner.hpp>
#include <tern/balance/policy/builtin.hpp>

namespace tern::balance {
namespace {

using detail::load_report;

// Neighbourhoods that a rank asks before it believes its estimate.
constexpr int enough_learned = 3;

struct question {
  std::uint32_t round = 0;
  template <class A> void serialize(A& ar) { ar(round); }
};

struct answer {
  std::uint32_t round = 0;
  bool gives = false; ///< it would, if it has more
  double mean = 0;    ///< of all ranks, as this one estimates it
  load_report how;
  template <class A> void serialize(A& ar) { ar(round, gives, mean, how); }
};

/// A rank that has more tells one that has less. Needs no answer.
struct offer {
  double mean = 0;
  load_report how;
  template <class A> void serialize(A& ar) { ar(mean, how); }
};

/// "Give me up to so much." Answered by `settled`.
struct demand {
  std::uint32_t round = 0;
  double most = 0; ///< load
  double mean = 0; ///< as the asking rank estimates it
  load_report how;
  template <class A> void serialize(A& ar) { ar(round, most, mean, how); }
};

/// "I have asked in vain: think of me when you have more." Holds until an offer has been made.
struct wish {
  template <class A> void serialize(A&) {}
};

class diffusion final : public policy {
public:
  diffusion(policy_context& h, parameters& p)
      : policy(h), limit_(p.number("limit", 1, 0, 1000)), slack_(p.number("slack", 0.01, 0, 1)),
        neighbours_(p.count("neighbours", 4, 1, 1000)), tries_(p.count("tries", 3, 1, 1000)),
        backoff_(p.seconds("rest", 0.1)),
        planner_(h, p.seconds("hold", 300), p.count("moves", 3, 1, 100), detail::by_parameter(p)) {
    on(&diffusion::asked);
    on(&diffusion::answered);
    on(&diffusion::offered);
    on(&diffusion::demanded);
    on(&diffusion::coming);
    on(&diffusion::received);
    on(&diffusion::wished);
  }

  void dist_balance(trigger why) override {
    if (here.size() == 1) return;
    switch (why) {
    case trigger::phase:
      waiting_.clear();
      [[fallthrough]];
    case trigger::start:
      planner_.forget();
      mean_ = planner_.mine().ahead;
      mean_at_ = here.now();
      asking_ = 0;
      taking_ = false;
      ++round_;
      fruitless_ = learned_ = skip_ = skips_ = 0;
      near_ = true;
      trigger_.start();
      backoff_.start();
      return;
    case trigger::idle:
      fruitless_ = 0;
      return search();
    case trigger::period:
      serve();
      if (planner_.short_of(limit_)) return search();
      if (skip_-- <= 0) ask();
      return;
    }
  }

  void notify(object_id) override {
    switch (trigger_.changed(here, planner_)) {
    case detail::load_trigger::news::none:
      return;
    case detail::load_trigger::news::short_of_work:
      return search();
    case detail::load_trigger::news::enough:
      return serve(); // those that wait are told at once
    }
  }

private:
  /// What all ranks have ahead of them, on average, by now.
  double mean() const { return std::max(0.0, mean_ - (here.now() - mean_at_)); }

  // A rank's own estimate counts as much as what it hears, so that all estimates come together;
  // what ranks really have counts a little, so that they come together at what is true.
  void learn(double estimates, double ranks) {
    const double now = mean();
    mean_ = 0.8 * (now + estimates) / 2 + 0.2 * ranks;
    mean_at_ = here.now();
  }

  // This rank is short of work.
  void search() {
    if (asking_ > 0 || taking_ || backoff_.resting(here.now())) return;
    ask();
  }

  void ask() {
    if (asking_ > 0 || taking_) return;
    ++round_;
    answers_.clear();
    asked_.clear();
    const int n = std::min(neighbours_, here.size() - 1);
    if (near_ && learned_ >= enough_learned) {
      for (int k = 0; k < n; ++k) asked_.push_back(at_distance(k % 2 == 0 ? k / 2 + 1 : -(k / 2 + 1)));
    } else {
      while (static_cast<int>(asked_.size()) < n) {
        const int r = at_distance(1 + static_cast<int>(here.random(static_cast<std::uint64_t>(here.size() - 1))));
        if (std::find(asked_.begin(), asked_.end(), r) == asked_.end()) asked_.push_back(r);
      }
    }
    asking_ = n;
    for (const int r : asked_) send(r, question{round_});
  }

  int at_distance(int d) const { return ((here.rank() + d) % here.size() + here.size()) % here.size(); }

  void asked(int from, const question& q) { send(from, answer{q.round, !taking_, mean(), planner_.mine()}); }

  void answered(int from, const answer& a) {
    if (a.round != round_ || asking_ == 0) return;
    answers_.emplace_back(from, a);
    if (--asking_ > 0) return;
    double estimates = 0, ranks = planner_.mine().ahead;
    for (const auto& [r, x] : answers_) {
      estimates += x.mean;
      ranks += x.how.ahead;
    }
    const auto n = static_cast<double>(answers_.size());
    learn(estimates / n, ranks / (n + 1));
    if (++learned_ < enough_learned && planner_.mine().idle == 0) return ask();
    decide();
  }

  void decide() {
    const load_report mine = planner_.mine();
    const std::pair<int, answer>*richest = nullptr, *poorest = nullptr;
    for (const auto& x : answers_) {
      if (x.second.gives && (!richest || x.second.how.ahead > richest->second.how.ahead)) richest = &x;
      if (!poorest || x.second.how.ahead < poorest->second.how.ahead) poorest = &x;
    }
    if (richest && take_from(richest->first, richest->second.how, mine)) return;
    for (const auto& x : answers_)
      if (x.second.gives && uneven(x.second.how, mine) && take_from(x.first, x.second.how, mine)) return;
    if (poorest && ((lacks(poorest->second.how, mean()) && has_spare(mine)) || uneven(mine, poorest->second.how))) {
      send(poorest->first, offer{mean(), mine});
      return;
    }
    found(false);
  }

  static bool lacks(const load_report& s, double mean) { return s.idle > 0 || s.ahead < mean; }
  bool has_spare(const load_report& s) const {
    return s.ready > 0 && s.ahead - mean() > slack_ * mean() && s.ahead > s.each * s.rate;
  }

  bool uneven(const load_report& late, const load_report& other) const {
    return late.ends > mean() && detail::uneven(late, other, slack_ * mean());
  }

  // So much that the taker then has what all have on average, or the giver half of what it has too
  // much.
  double fair(const load_report& giver, const load_report& mine) const {
    const double even = detail::evens_out(giver, mine), level = mean(), rate = detail::in_terms_of(mine, giver).rate;
    if (mine.idle > 0) return even;
    if (level - mine.ahead > slack_ * level) return std::min(even, (level - mine.ahead) / rate);
    return giver.ahead - level > 2 * slack_ * level ? std::min(even, (giver.ahead - level) / giver.rate / 2) : 0;
  }

  bool take_from(int rank, const load_report& giver, const load_report& mine) {
    const double most = planner_.worth_taking(giver, mine, fair(giver, mine));
    if (most <= 0 && !uneven(giver, mine)) return false;
    taking_ = true;
    send(rank, demand{round_, most, mean(), mine});
    return true;
  }

  void offered(int from, const offer& o) {
    if (taking_ || asking_ > 0) return;
    learn(o.mean, (o.how.ahead + planner_.mine().ahead) / 2);
    ++round_;
    take_from(from, o.how, planner_.mine());
  }

  void demanded(int from, const demand& d) {
    // Several may ask for the same that is too much here.
    const load_report mine = planner_.mine();
    const double keeps = learned_ < enough_learned ? d.mean : mean();
    const double most = d.how.idle > 0 ? d.most : std::min(d.most, (mine.ahead - keeps) / mine.rate);
    const auto objects = taking_ ? std::vector<object_info>{} : planner_.choose(from, d.how, most);
    if (!objects.empty()) {
      send(from, planner_.announce(objects));
      skip_ = skips_ = 0;
    }
    planner_.move(objects, from, d.round, [this, from](const detail::settled& s) { send(from, s); });
  }

  void coming(int, const detail::announced& what) { planner_.coming(what); }

  void received(int from, const detail::settled& s) {
    if (!taking_ || s.number != round_) return;
    taking_ = false;
    if (s.moved == 0 && backoff_.resting(here.now()))
      return send(from, wish{}); // it has had an offer, but not for this rank
    found(s.moved > 0);
  }

  // A neighbourhood has been of use, or not.
  void found(bool something) {
    if (something) {
      fruitless_ = 0;
      skip_ = skips_ = 0;
      backoff_.start();
      return;
    }
    near_ = false;
    const bool hungry = planner_.short_of(limit_);
    if (!hungry) {
      skips_ = std::min(2 * skips_ + 1, 7);
      skip_ = skips_;
      return;
    }
    if (++fruitless_ < tries_) return ask();
    fruitless_ = 0;
    backoff_.rest(here.now());
    for (const int r : asked_) send(r, wish{});
  }

  void wished(int from, const wish&) { waiting_.add(from); }

  // Those that wait are told when there is something.
  void serve() {
    if (waiting_.empty() || taking_ || planner_.short_of(limit_)) return;
    const load_report mine = planner_.mine();
    waiting_.tell([&](int rank) { send(rank, offer{mean(), mine}); });
  }

  const double limit_, slack_;
  const int neighbours_, tries_;
  detail::load_trigger trigger_{limit_};
  detail::backoff backoff_;
  detail::transfer_planner planner_;
  detail::waiting_ranks waiting_;

  double mean_ = 0, mean_at_ = 0;
  std::uint32_t round_ = 0;
  int asking_ = 0; ///< that have not answered
  bool taking_ = false, near_ = true;
  std::vector<int> asked_;
  std::vector<std::pair<int, answer>> answers_;
  int learned_ = 0, fruitless_ = 0, skip_ = 0, skips_ = 0;
};

} // namespace

namespace detail {
policy_kind diffusion_kind() {
  return kind_of<diffusion>("diffusion", "ranks that have less than others ask some of them for more");
}
} // namespace detail

} // namespace tern::balance
