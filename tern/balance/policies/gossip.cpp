// SPDX-License-Identifier: Apache-2.0
/// \file
/// The policy `gossip`: ranks hear by rumour which have little to do, and those that have too much
/// give it to them, with no rank that knows all (Menon and Kalé, SC 2013: "A distributed dynamic
/// load balancer for iterative applications", Grapevine). As in TemperedLB (Lifflander et al. 2021,
/// "Optimizing distributed load balancing for workloads with time-varying imbalance") nothing moves
/// until several tries have shown the best: until then objects are handed from rank to rank in
/// thought only, and one may go to a rank that it makes fuller than the mean, if the giver was
/// fuller still.
///
/// A try goes: the mean comes down the tree; rumours are passed on several times; a rank that has
/// too much asks others to take some, all of which answer; how full the fullest is goes up the
/// tree. Rumours go to ranks at random distances that are the same for all, so that each rank knows
/// how many it must wait for, and no one need find out when they have ended.
///
/// If workers and devices both count, those are evened out of which the last rank ends later; how
/// full a rank is says the other of the two, if that is more.
///
/// Parameters, besides `by` and those of all policies that work in rounds: `fanout`, to how many
/// others rumours go in each of `rounds` steps (0: as many as are needed); `known`, how many ranks
/// one remembers; `tries`, at most; `tolerance`: how full the fullest may be, compared with the
/// mean, to be content.
#include <tern/balance/policies/shared/assignment.hpp>
#include <tern/balance/policies/shared/random.hpp>
#include <tern/balance/policies/shared/round.hpp>
#include <tern/balance/policy/builtin.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include <tern/base/error.hpp>

namespace tern::balance {
namespace {

/// An object, in thought: it is on the rank that holds this.
struct item {
  std::int32_t home = 0;   ///< where it really is
  std::uint32_t index = 0; ///< which of those that `home` has reported
  float load = 0;
  float other = 0; ///< of the resource that is not evened out
};

/// What is known of a rank that has less than the mean.
struct rumour {
  double load = 0, speed = 0;
  std::int32_t rank = 0;
  std::int32_t unused = 0; // all bytes have a value
  double time() const { return load / speed; }
};

struct sums {
  double load = 0, speed = 0, most = 0;
  double workers = 0; ///< of ranks that know their speed
  double seconds = 0; ///< of objects that may move,
  double objects = 0; ///< which are so many
  double longest = 0; ///< that one object takes, so that all cannot end before
  void add(const sums& s) {
    load += s.load;
    speed += s.speed;
    most = std::max(most, s.most);
    workers += s.workers;
    seconds += s.seconds;
    objects += s.objects;
    longest = std::max(longest, s.longest);
  }
  template <class A> void serialize(A& ar) { ar(load, speed, most, workers, seconds, objects, longest); }
};

/// Up the tree: before the first try the sums of both resources; after each try, of that which is
/// evened out, how full the fullest was when it began, which no rank knows before, because ranks go
/// on taking when they have given.
struct tally {
  std::uint32_t number = 0, tried = 0;
  std::array<sums, 2> of; ///< by resource
  template <class A> void serialize(A& ar) { ar(number, tried, of); }
};

/// Down the tree: another try, or the end.
struct next_try {
  std::uint32_t number = 0, tried = 0;
  bool start_was_best = false; ///< keep what the last try has begun with
  bool finished = false;       ///< what was best is carried out
  bool any = false;            ///< and that is not what there was before
  double level = 0;            ///< the mean time
  double grain = 0;            ///< see round_policy::expect
  double speed = 0;            ///< of one worker, or device, on average
  std::uint64_t random = 0;
  detail::resource by = detail::resource::worker; ///< which is evened out
  template <class A> void serialize(A& ar) {
    ar(number, tried, start_was_best, finished, any, level, grain, speed, random, by);
  }
};

struct rumours {
  std::uint32_t number = 0, tried = 0, step = 0;
  std::vector<rumour> known;
  template <class A> void serialize(A& ar) { ar(number, tried, step, known); }
};

/// Will you take these?
struct request {
  std::uint32_t number = 0, tried = 0;
  double load = 0, speed = 0; ///< of the giver, with them
  std::vector<item> items;
  template <class A> void serialize(A& ar) { ar(number, tried, load, speed, items); }
};
struct answer {
  std::uint32_t number = 0, tried = 0;
  std::vector<std::uint8_t> taken;
  template <class A> void serialize(A& ar) { ar(number, tried, taken); }
};

/// In the end: send me these of yours.
struct fetch {
  std::uint32_t number = 0;
  std::vector<std::uint32_t> indices;
  template <class A> void serialize(A& ar) { ar(number, indices); }
};
struct fetched {
  std::uint32_t number = 0, moved = 0, failed = 0;
  template <class A> void serialize(A& ar) { ar(number, moved, failed); }
};

} // namespace
} // namespace tern::balance

template <> inline constexpr bool tern::is_bitwise<tern::balance::item> = true;
template <> inline constexpr bool tern::is_bitwise<tern::balance::rumour> = true;

namespace tern::balance {
namespace {

class gossip final : public detail::round_policy {
public:
  gossip(policy_context& h, parameters& p)
      : round_policy(h, p, detail::by_parameter(p)),
        fanout_(std::min(p.count("fanout", 4, 1, 64), std::max(h.size() - 1, 0))), steps_(p.count("rounds", 0, 0, 64)),
        tries_(p.count("tries", 8, 1, 1000)), most_known_(static_cast<std::size_t>(p.count("known", 64, 1, 1 << 20))),
        target_(p.number("tolerance", 1.01, 1, 100)) {
    on(&gossip::take_tally);
    on(&gossip::take_next);
    on(&gossip::take_rumours);
    on(&gossip::take_request);
    on(&gossip::take_answer);
    on(&gossip::take_fetch);
    on(&gossip::take_fetched);
    if (steps_ > 0 || h.size() == 1) return;
    // Until each could know as many as it may remember, if half of them have rumours to spread.
    const std::size_t enough = std::min(static_cast<std::size_t>(h.size()), 2 * most_known_);
    for (std::size_t reached = 1; reached < enough; reached *= static_cast<std::size_t>(fanout_) + 1) ++steps_;
  }

private:
  // A try ------------------------------------------------------------------------------------------------------------

  void begin() override {
    detail::movable_work work = look();
    own_ = work.states;
    fixed_parts_ = std::move(work.fixed);
    reported_.clear();
    for (std::vector<float>& loads : reported_load_) loads.clear();
    early_fetches_.clear();
    for (const object_info& x : work.objects) {
      reported_.push_back(x.id);
      reported_load_[0].push_back(static_cast<float>(x.load));
      reported_load_[1].push_back(static_cast<float>(x.device));
    }
    tried_ = 0;
    level_ = 0;
    is_set_up_ = false;
    tallies_.begin(tree());
    tally first{number(), 0, {}};
    for (std::size_t r = 0; r < first.of.size(); ++r) first.of[r] = sums_of(r);
    count(first, 0);
  }

  sums sums_of(std::size_t r) const {
    const detail::rank_state& own = own_[r];
    std::vector<double> loads;
    for (const float load : reported_load_[r])
      if (load > 0) loads.push_back(load);
    std::sort(loads.begin(), loads.end(), std::greater<>());
    sums s;
    s.load = own.fixed + std::accumulate(loads.begin(), loads.end(), 0.0);
    if (own.speed < 0) return s;
    const double each = own.speed > 0 ? own.workers / own.speed : 0;
    const std::vector<float>& stays = fixed_parts_[r];
    s.speed = own.speed;
    s.workers = own.workers;
    s.most = detail::plan_rank(stays, loads, own.workers, own.speed).ends;
    s.seconds = (s.load - own.fixed) * each;
    s.objects = static_cast<double>(loads.size());
    s.longest = std::max(loads.empty() ? 0.0 : loads[0], stays.empty() ? 0.0 : static_cast<double>(stays[0])) * each;
    return s;
  }

  // This rank has learned which resource is evened out.
  void set_up(const next_try& m) {
    is_set_up_ = true;
    by_ = m.by;
    const auto by = static_cast<std::size_t>(by_), rest = static_cast<std::size_t>(detail::other(by_));
    state_ = own_[by];
    detail::guess_speed(state_, m.speed, 1);
    load_ = state_.fixed;
    other_load_ = own_[rest].fixed + std::accumulate(reported_load_[rest].begin(), reported_load_[rest].end(), 0.0);
    mine_.clear();
    for (std::size_t i = 0; i < reported_.size(); ++i) {
      if (!(reported_load_[by][i] > 0)) continue;
      mine_.push_back({here.rank(), static_cast<std::uint32_t>(i), reported_load_[by][i], reported_load_[rest][i]});
      load_ += reported_load_[by][i];
    }
    judge();
  }

  void take_next(int from, const next_try& m) {
    if (m.number != number() || from != std::max(tree().parent, 0)) return;
    send_down(m);
    if (!is_set_up_) set_up(m);
    if (m.start_was_best) best_.swap(start_);
    level_ = m.level;
    if (m.finished) return finish(m);
    tried_ = m.tried;
    tallies_.begin(tree());
    start_ = mine_;
    start_ends_ = judge();
    unanswered_ = 0;
    step_ = 0;
    shifts_ = detail::random_numbers(m.random);
    known_.clear();
    if (speed_ > 0 && time() < level_) known_.push_back({load_, speed_, here.rank(), 0});
    heard_.erase(heard_.begin(), heard_.lower_bound({number(), tried_, 0}));
    spread();
    std::vector<std::pair<int, request>> early;
    early.swap(early_);
    for (const auto& [rank, r] : early) take_request(rank, r);
  }

  // When this rank ends. One that ends late only because its objects do not go well together counts
  // as slower.
  double judge() {
    std::vector<double> loads;
    for (const item& x : mine_) loads.push_back(x.load);
    std::sort(loads.begin(), loads.end(), std::greater<>());
    const std::vector<float>& stays = fixed_parts_[static_cast<std::size_t>(by_)];
    const double ends = detail::plan_rank(stays, loads, state_.workers, state_.speed).ends;
    const bool full = loads.size() + stays.size() > static_cast<std::size_t>(state_.workers);
    speed_ = full && std::isfinite(ends) ? load_ / ends : state_.speed;
    const detail::rank_state& rest = own_[static_cast<std::size_t>(detail::other(by_))];
    return rest.speed > 0 ? std::max(ends, other_load_ / rest.speed) : ends;
  }

  double time() const { return load_ > 0 ? load_ / std::max(speed_, 1e-300) : 0; }

  // What this rank knows to some others, and those that are as far away on the other side tell this
  // one.
  void spread() {
    const auto size = static_cast<std::uint64_t>(here.size());
    const rumours m{number(), tried_, step_, known_};
    std::vector<std::uint64_t> shifts;
    while (shifts.size() < static_cast<std::size_t>(fanout_)) {
      const std::uint64_t shift = 1 + shifts_.below(size - 1);
      if (std::find(shifts.begin(), shifts.end(), shift) != shifts.end()) continue;
      shifts.push_back(shift);
      send(static_cast<int>((static_cast<std::uint64_t>(here.rank()) + shift) % size), m);
    }
    listen();
  }

  void take_rumours(int, const rumours& m) {
    if (std::tie(m.number, m.tried) < std::make_tuple(number(), tried_)) return;
    hearsay& all = heard_[{m.number, m.tried, m.step}];
    ++all.messages;
    all.known.insert(all.known.end(), m.known.begin(), m.known.end());
    if (m.number == number() && m.tried == tried_) listen();
  }

  void listen() {
    const auto all = heard_.find({number(), tried_, step_});
    if (all == heard_.end() || all->second.messages < fanout_) return;
    remember(all->second.known);
    heard_.erase(all);
    if (++step_ < static_cast<std::uint32_t>(steps_)) return spread();
    hand_out();
  }

  void remember(const std::vector<rumour>& more) {
    known_.insert(known_.end(), more.begin(), more.end());
    const auto rank = [](const rumour& a, const rumour& b) { return a.rank < b.rank; };
    std::sort(known_.begin(), known_.end(), rank);
    const auto same = [](const rumour& a, const rumour& b) { return a.rank == b.rank; };
    known_.erase(std::unique(known_.begin(), known_.end(), same), known_.end());
    if (known_.size() <= most_known_) return;
    // By chance, so that not all know of the same.
    for (std::size_t i = 0; i < most_known_; ++i)
      std::swap(known_[i], known_[i + static_cast<std::size_t>(here.random(known_.size() - i))]);
    known_.resize(most_known_);
  }

  // Handing over, in thought -----------------------------------------------------------------------------------------

  // Which rank to ask, by chance: the emptier the likelier.
  std::size_t choose(const std::vector<rumour>& others) {
    double top = level_, all = 0;
    for (const rumour& o : others) top = std::max(top, o.time());
    for (const rumour& o : others) all += (top - o.time()) * o.speed;
    if (!(all > 0)) return others.size();
    double at = all * (static_cast<double>(here.random(std::uint64_t{1} << 53)) * 0x1p-53);
    std::size_t last = others.size();
    for (std::size_t i = 0; i < others.size(); ++i) {
      const double share = (top - others[i].time()) * others[i].speed;
      if (share <= 0) continue;
      last = i;
      if ((at -= share) < 0) break;
    }
    return last;
  }

  void hand_out() {
    std::vector<rumour> others = known_;
    std::erase_if(others, [this](const rumour& o) { return o.rank == here.rank(); });
    std::map<std::int32_t, request> requests;
    double rest = load_;
    std::sort(mine_.begin(), mine_.end(), [](const item& a, const item& b) {
      return std::tie(b.load, a.home, a.index) < std::tie(a.load, b.home, b.index);
    });
    const auto offer = [&](const item& x) {
      const std::size_t i = choose(others);
      if (i == others.size() || (others[i].load + x.load) / others[i].speed >= rest / std::max(speed_, 1e-300)) return;
      others[i].load += x.load;
      rest -= x.load;
      requests[others[i].rank].items.push_back(x);
    };
    const double fair = level_ * speed_;
    // The heaviest that are not too heavy, which are the fewest; if all are, one of the lightest.
    for (const item& x : mine_)
      if (x.load <= rest - fair) offer(x);
    if (rest > fair * target_ && !mine_.empty() && rest == load_) offer(mine_.back());
    asked_.clear();
    unanswered_ = requests.size();
    for (auto& [to, r] : requests) {
      r.number = number();
      r.tried = tried_;
      r.speed = speed_;
      r.load = rest;
      for (const item& x : r.items) r.load += x.load;
      send(to, r);
      asked_[to] = std::move(r.items);
    }
    if (unanswered_ == 0) tried();
  }

  void take_request(int from, const request& m) {
    const auto theirs = std::tie(m.number, m.tried);
    const auto mine = std::make_tuple(number(), tried_);
    if (theirs > mine) early_.emplace_back(from, m); // this rank is yet to hear of that try
    if (theirs != mine) return;
    answer reply{number(), tried_, {}};
    double giver = m.load;
    for (const item& x : m.items) {
      const double then = (load_ + x.load) / std::max(speed_, 1e-300);
      const bool take = then <= level_ || then < giver / std::max(m.speed, 1e-300);
      reply.taken.push_back(take ? 1 : 0);
      if (!take) continue;
      giver -= x.load;
      load_ += x.load;
      other_load_ += x.other;
      mine_.push_back(x);
    }
    send(from, reply);
  }

  void take_answer(int from, const answer& m) {
    if (m.number != number() || m.tried != tried_) return;
    const std::vector<item>& asked = asked_[from];
    if (m.taken.size() != asked.size())
      throw error(errc::invalid_data,
                  "rank " + std::to_string(from) + " has answered what rank " + std::to_string(here.rank()) +
                      " has not asked",
                  "give all ranks the same option balance");
    std::vector<std::pair<std::int32_t, std::uint32_t>> gone;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      if (!m.taken[i]) continue;
      load_ -= asked[i].load;
      other_load_ -= asked[i].other;
      gone.emplace_back(asked[i].home, asked[i].index);
    }
    std::sort(gone.begin(), gone.end());
    std::erase_if(mine_, [&](const item& x) {
      return std::binary_search(gone.begin(), gone.end(), std::make_pair(x.home, x.index));
    });
    if (--unanswered_ == 0) tried();
  }

  void tried() {
    judge();
    tally now{number(), tried_, {}};
    sums& mine = now.of[static_cast<std::size_t>(by_)];
    mine.load = load_;
    mine.speed = speed_;
    mine.most = start_ends_;
    count(now, 0);
  }

  // All together -----------------------------------------------------------------------------------------------------

  void take_tally(int from, const tally& m) {
    if (m.number == number() && m.tried == tried_) count(m, tree().place_of(from));
  }

  void count(const tally& m, std::size_t place) {
    if (!tallies_.add(place, m)) return;
    tally all{number(), tried_, {}};
    for (const auto& part : tallies_.parts())
      for (std::size_t r = 0; r < all.of.size(); ++r) all.of[r].add(part->of[r]);
    if (root())
      go_on(all);
    else
      send(tree().parent, all);
  }

  // On rank 0.
  void go_on(const tally& told) {
    next_try next{number(), tried_ + 1};
    next.by = by_;
    if (tried_ == 0)
      next.by = told.of[1].most > told.of[0].most && told.of[1].speed > 0 ? detail::resource::device
                                                                          : detail::resource::worker;
    const sums& all = told.of[static_cast<std::size_t>(next.by)];
    next.speed = all.workers > 0 ? all.speed / all.workers : 0;
    // Of all, since what is on its way from one to another in thought may be counted twice or not
    // at all.
    if (tried_ == 0) {
      all_load_ = all.load;
      mean_ = all.speed > 0 ? all.load / all.speed : 0;
      grain_ = all.objects > 0 ? all.seconds / all.objects : 0;
      soonest_ = std::max(mean_, all.longest);
      first_most_ = all.most;
      in_vain_ = 0;
    }
    next.start_was_best = tried_ > 0 && (tried_ == 1 || all.most < best_most_ - mean_ / 1000);
    if (tried_ == 0 || next.start_was_best) best_most_ = all.most;
    in_vain_ = tried_ <= 1 || next.start_was_best ? 0 : in_vain_ + 1;
    const double least = least_gain(mean_, grain_, caution());
    next.finished = static_cast<int>(tried_) > tries_ || (tried_ > 1 && lasts() > most_time * mean_) ||
                    in_vain_ >= most_in_vain || best_most_ <= soonest_ * target_ || first_most_ - soonest_ <= least ||
                    !(grain_ > 0);
    next.any = first_most_ - best_most_ > least;
    gains(next.any ? first_most_ - best_most_ : 0);
    next.level = all.speed > 0 ? std::max(mean_, all_load_ / all.speed) : 0;
    next.grain = grain_;
    next.random = here.random(std::uint64_t{1} << 62);
    if (next.finished) {
      here.note("round level", mean_);
      here.note("round tries", tried_);
    }
    take_next(0, next);
  }

  void finish(const next_try& m) {
    if (!m.any) {
      expect(level_, time(), m.grain);
      if (root()) close_unchanged();
      return;
    }
    mine_ = best_;
    load_ = state_.fixed;
    std::map<std::int32_t, std::vector<std::uint32_t>> elsewhere;
    staying_.clear();
    for (const item& x : mine_) {
      load_ += x.load;
      if (x.home == here.rank())
        staying_.push_back(reported_[x.index]);
      else
        elsewhere[x.home].push_back(x.index);
    }
    std::sort(staying_.begin(), staying_.end());
    expect(level_, time(), m.grain);
    moved_ = failed_ = 0;
    unanswered_ = elsewhere.size();
    for (auto& [home, indices] : elsewhere) send(home, fetch{number(), std::move(indices)});
    finished_ = number();
    for (const auto& [rank, f] : std::exchange(early_fetches_, {})) take_fetch(rank, f);
    if (unanswered_ == 0) ended(0, 0);
  }

  void take_fetch(int from, const fetch& m) {
    if (m.number != number()) return;
    if (finished_ != number()) { // this rank is yet to hear what stays
      early_fetches_.emplace_back(from, m);
      return;
    }
    std::vector<detail::departure> leaving;
    for (const std::uint32_t index : m.indices) {
      if (index >= reported_.size())
        throw error(errc::invalid_data,
                    "rank " + std::to_string(from) + " fetches from rank " + std::to_string(here.rank()) +
                        " what it has not got",
                    "give all ranks the same option balance");
      leaving.push_back({reported_[index], reported_load_[static_cast<std::size_t>(by_)][index], from});
    }
    replace_begun(leaving, staying_, by_);
    struct outcome {
      std::size_t left;
      fetched reply;
    };
    const auto all = std::make_shared<outcome>(outcome{leaving.size(), {m.number, 0, 0}});
    for (const detail::departure& d : leaving) {
      if (const auto at = std::lower_bound(staying_.begin(), staying_.end(), d.id); at != staying_.end() && *at == d.id)
        staying_.erase(at);
      here.move(d.id, from, [this, from, all](bool arrived) {
        ++(arrived ? all->reply.moved : all->reply.failed);
        if (--all->left == 0) send(from, all->reply);
      });
    }
  }

  void take_fetched(int, const fetched& m) {
    if (m.number != number()) return;
    moved_ += m.moved;
    failed_ += m.failed;
    if (--unanswered_ == 0) ended(moved_, failed_);
  }

  static constexpr int most_in_vain = 3;    // tries in a row, after which there is no other
  static constexpr double most_time = 0.05; // of what there is to do, that may be spent on tries

  struct hearsay {
    int messages = 0;
    std::vector<rumour> known;
  };

  int fanout_, steps_, tries_;
  std::size_t most_known_;
  double target_;

  std::vector<object_id> reported_, staying_;
  std::array<std::vector<float>, 2> reported_load_; // by resource
  std::vector<item> mine_, start_, best_;           // in thought: now, when this try began, and at the best time
  std::array<detail::rank_state, 2> own_;           // by resource
  std::array<std::vector<float>, 2> fixed_parts_;   // likewise
  detail::resource by_ = detail::resource::worker;  // which this round evens out, once
  bool is_set_up_ = false;                          // this is known
  detail::rank_state state_;                        // of it
  double other_load_ = 0;                           // in thought, of the other one
  double speed_ = 0, load_ = 0, level_ = 0, start_ends_ = 0;

  std::uint32_t tried_ = 0, step_ = 0, finished_ = 0;
  detail::random_numbers shifts_{0}; // the same on all ranks
  std::vector<rumour> known_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, hearsay> heard_; // by round, try and step
  std::map<int, std::vector<item>> asked_;                                           // by rank
  std::vector<std::pair<int, request>> early_;
  std::vector<std::pair<int, fetch>> early_fetches_;
  std::size_t unanswered_ = 0;
  std::uint32_t moved_ = 0, failed_ = 0;
  detail::gathering<tally> tallies_;

  // Rank 0 alone.
  double all_load_ = 0, mean_ = 0, soonest_ = 0, grain_ = 0, first_most_ = 0, best_most_ = 0;
  int in_vain_ = 0;
};

} // namespace

namespace detail {
policy_kind gossip_kind() {
  return kind_of<gossip>("gossip", "full ranks give to those that rumours call empty; no rank knows all");
}
} // namespace detail

} // namespace tern::balance
