// SPDX-License-Identifier: Apache-2.0
/// \file
/// Balance on levels: within groups of ranks, between groups, between groups of groups, and so on
/// to the whole system (as Zheng, Bhatelé, Meneses, Kalé: Periodic hierarchical load balancing for
/// large supercomputers, 2011, here without stopping the work). Each group's first rank is its
/// leader and knows what the members have ahead of them; it has those with too much give to those
/// with too little. What leaders do is cheap near the bottom, and done often; higher up it is
/// rarer, and only sums are known. Below all that, a rank's queue balances its workers.
///
/// Parameters: `group`, ranks in a group, and groups in one of the next level; `slower`: of so many
/// times that a leader has looked at its group the next one up hears once, unless a rank idles;
/// `slack`, the part of the average that is not worth a move; `batch`: what members tell within so
/// long is looked at together; `moves` and `hold`: an object that has moved so often stays where it
/// is so long; `by` (resources.hpp): in a group the fullest rank says whether workers or devices
/// are evened out.
#include <tern/balance/policy.hpp>

#include <algorithm>
#include <cmath>

#include <tern/balance/policies/shared/transfer_planner.hpp>
#include <tern/balance/policy/builtin.hpp>

namespace tern::balance {
namespace {

using detail::load_report;

/// How a rank stands. To the leader of its group.
struct report {
  load_report how;
  template <class A> void serialize(A& ar) { ar(how); }
};

/// What a group has, all ranks together. To the leader of the group of groups.
struct group_report {
  std::uint32_t level = 0; ///< of the group: 1 is one of ranks
  double load = 0, speed = 0;
  template <class A> void serialize(A& ar) { ar(level, load, speed); }
};

/// "Your group of this level gets so much from the group of the same level that this one leads."
struct fetch {
  std::uint32_t level = 0, from_level = 0;
  std::int32_t from = 0;
  double load = 0;
  template <class A> void serialize(A& ar) { ar(level, from_level, from, load); }
};

struct lack {
  std::int32_t rank = 0;
  double load = 0;
  template <class A> void serialize(A& ar) { ar(rank, load); }
};

/// "These ranks of another group get something from yours."
struct supply {
  std::uint32_t level = 0;
  std::vector<lack> lacks;
  template <class A> void serialize(A& ar) { ar(level, lacks); }
};

/// "Take so much from that rank." From a leader; -1: there is none that can give.
struct hint {
  std::int32_t giver = -1;
  double most = 0;
  load_report how;
  template <class A> void serialize(A& ar) { ar(giver, most, how); }
};

/// The hint has come to its end.
struct taken {
  std::int32_t giver = -1;
  bool some = false;
  load_report how;
  template <class A> void serialize(A& ar) { ar(giver, some, how); }
};

/// Answered by `settled`.
struct demand {
  std::uint32_t number = 0;
  double most = 0;
  load_report how;
  template <class A> void serialize(A& ar) { ar(number, most, how); }
};

class hierarchical final : public policy {
public:
  hierarchical(policy_context& h, parameters& p)
      : policy(h), group_(p.count("group", 32, 2, 1 << 20)), slower_(p.count("slower", 2, 1, 1000)),
        slack_(p.number("slack", 0.01, 0, 1)), batch_(p.seconds("batch", 0.01)),
        planner_(h, p.seconds("hold", 300), p.count("moves", 3, 1, 100), detail::by_parameter(p)) {
    on(&hierarchical::told);
    on(&hierarchical::told_of_group);
    on(&hierarchical::fetches);
    on(&hierarchical::supplies);
    on(&hierarchical::hinted);
    on(&hierarchical::demanded);
    on(&hierarchical::coming);
    on(&hierarchical::received);
    on(&hierarchical::has_taken);
    // The levels of which this rank leads a group.
    for (long long ranks = group_; here.rank() % (ranks / group_) == 0; ranks *= group_) {
      if (here.rank() % ranks == 0) led_.push_back(empty_group(led_.size() + 1));
      if (ranks >= here.size()) break;
    }
  }

  void dist_balance(trigger why) override {
    if (here.size() == 1) return;
    switch (why) {
    case trigger::start:
    case trigger::phase:
      // What leaders know is not forgotten: members that have come to this moment before may have
      // told more already.
      planner_.forget();
      told_at_ = -1;
      taking_ = false;
      hints_.clear();
      for (group& g : led_)
        for (part& p : g.parts) p.hints = 0;
      return;
    case trigger::idle:
      return tell(planner_.precisely());
    case trigger::period:
      return look();
    }
  }

  // A program may be over before the first period is.
  void notify(object_id) override {
    if (--look_in_ > 0 || here.size() == 1) return;
    look_in_ = std::clamp(static_cast<int>(here.ready() / 8), 4, 1000);
    if (told_at_ < 0) return tell(planner_.mine());
    const double expected = std::max(0.0, told_ - (here.now() - told_at_));
    const detail::resource late = planner_.counting().critical();
    const double ahead = planner_.counting().ahead(late), each = planner_.each() * planner_.counting().of(late).pace();
    if (std::abs(ahead - expected) > std::max(much_ * expected, each)) tell(planner_.mine());
  }

private:
  /// A rank, or a group of the level below.
  struct part {
    load_report how;                     ///< of a rank
    double load = 0, speed = 0, at = -1; ///< -1: nothing is known
    int hints = 0;                       ///< that concern it and have not come to an end
  };
  struct group {
    std::uint32_t level = 1;
    std::vector<part> parts;
    bool timer = false, urgent = false;
    int matches = 0;
  };

  long long size_of(std::uint32_t level) const {
    long long ranks = 1;
    for (; level > 0; --level) ranks *= group_;
    return ranks;
  }
  int leader_of(int rank, std::uint32_t level) const {
    return static_cast<int>(rank / size_of(level) * size_of(level));
  }
  group empty_group(std::size_t level) const {
    group g;
    g.level = static_cast<std::uint32_t>(level);
    const long long each = size_of(g.level - 1), left = here.size() - here.rank();
    g.parts.resize(static_cast<std::size_t>(std::min<long long>(group_, (left + each - 1) / each)));
    return g;
  }
  group* led(std::uint32_t level) { return level >= 1 && level <= led_.size() ? &led_[level - 1] : nullptr; }
  /// \return null if the rank is in no group that this one leads.
  part* part_of(group& g, int rank) {
    const long long n = rank < here.rank() ? -1 : (rank - here.rank()) / size_of(g.level - 1);
    return n >= 0 && n < static_cast<long long>(g.parts.size()) ? &g.parts[static_cast<std::size_t>(n)] : nullptr;
  }
  int rank_of(const group& g, std::size_t number) const {
    return here.rank() + static_cast<int>(static_cast<long long>(number) * size_of(g.level - 1));
  }

  // As time has gone on.
  double load_of(const part& p) const { return std::max(0.0, p.load - p.speed * (here.now() - p.at)); }
  load_report now(const part& p) const {
    load_report s = p.how;
    s.ahead = std::max(0.0, s.ahead - (here.now() - p.at));
    s.ends = std::max(s.ahead, s.ends - (here.now() - p.at));
    return s;
  }

  // --- As a member ---------------------------------------------------------------------------------------------------

  // The leader is told what it cannot know: that this rank does not do as much in a second as it
  // should, or has got something from elsewhere; and now and then, in case that what could not be
  // done then can be done now.
  void look() {
    const load_report mine = planner_.mine();
    load_report even = mine;
    even.ends = even.ahead;
    const double expected = std::max(0.0, told_ - (here.now() - told_at_));
    const bool changed = told_at_ < 0 || std::abs(mine.ahead - expected) > std::max(slack_ * expected, mine.each / 4);
    if (changed || detail::uneven(mine, even, slack_ * mine.ahead) || ++quiet_ >= most_quiet) tell(mine);
  }

  void tell(const load_report& mine) {
    quiet_ = 0;
    told_ = mine.ahead;
    told_at_ = here.now();
    send(leader_of(here.rank(), 1), report{mine});
  }

  void hinted(int from, const hint& h) {
    hints_.push_back({from, h});
    if (!taking_) follow();
  }

  void follow() {
    while (!hints_.empty()) {
      const hint& h = hints_.front().second;
      const load_report mine = planner_.precisely();
      if (h.giver >= 0) {
        const double most = planner_.worth_taking(h.how, mine, std::min(h.most, detail::evens_out(h.how, mine)));
        if (most > 0 || detail::uneven(h.how, mine, slack_ * h.how.ahead)) {
          taking_ = true;
          return send(h.giver, demand{++number_, most, mine});
        }
      }
      end_hint(false);
    }
  }

  void end_hint(bool some) {
    const auto [from, h] = hints_.front();
    hints_.erase(hints_.begin());
    const load_report mine = planner_.mine();
    const int leader = leader_of(here.rank(), 1);
    send(from, taken{h.giver, some, mine});
    if (from != leader) send(leader, taken{h.giver, some, mine});
    told_ = mine.ahead;
    told_at_ = here.now();
  }

  void demanded(int from, const demand& d) {
    const auto objects = planner_.choose(from, d.how, d.most);
    if (!objects.empty()) send(from, planner_.announce(objects));
    planner_.move(objects, from, d.number, [this, from](const detail::settled& s) {
      send(from, s);
      if (s.moved > 0) tell(s.giver);
    });
  }

  void coming(int, const detail::announced& what) { planner_.coming(what); }

  void received(int, const detail::settled& s) {
    if (!taking_ || s.number != number_) return;
    taking_ = false;
    end_hint(s.moved > 0);
    follow();
  }

  // --- As a leader of ranks ------------------------------------------------------------------------------------------

  void note(part& p, const load_report& how) {
    p.how = how;
    p.at = here.now();
    weigh(p);
  }

  // As it was when it was told.
  static void weigh(part& p) {
    p.speed = 1 / p.how.rate;
    p.load = p.how.ahead * p.speed;
  }

  // Loads are of one resource: that of the fullest rank.
  void count_alike(group& g) {
    const part* fullest = nullptr;
    for (const part& p : g.parts)
      if (p.at >= 0 && p.how.knows && (!fullest || p.how.ahead > fullest->how.ahead)) fullest = &p;
    if (!fullest) return;
    for (part& p : g.parts) {
      if (p.at < 0 || (p.how.of == fullest->how.of && p.how.knows)) continue;
      p.how = detail::in_terms_of(p.how, fullest->how);
      weigh(p);
    }
  }

  void told(int from, const report& r) {
    group* const g = led(1);
    part* const p = g ? part_of(*g, from) : nullptr;
    if (!p) return;
    note(*p, r.how);
    g->urgent = g->urgent || r.how.idle > 0;
    soon(1);
  }

  void has_taken(int from, const taken& t) {
    group* const g = led(1);
    if (!g) return;
    if (part* const p = part_of(*g, from)) {
      note(*p, t.how);
      p->hints = std::max(0, p->hints - 1);
    }
    if (t.giver >= 0)
      if (part* const p = part_of(*g, t.giver)) p->hints = std::max(0, p->hints - 1);
    if (t.some) soon(1);
  }

  // What many say at about the same time is looked at once.
  void soon(std::uint32_t level) {
    group& g = *led(level);
    if (g.timer) return;
    g.timer = true;
    here.after(batch_, [this, level] {
      group& then = *led(level);
      then.timer = false;
      level == 1 ? match_ranks(then) : match_groups(then);
      pass_up(then);
      ++then.matches;
    });
  }

  void pass_up(group& g) {
    if (size_of(g.level) >= here.size()) return;
    if (g.matches % slower_ != 0 && !g.urgent) return;
    g.urgent = false;
    group_report r{g.level, 0, 0};
    for (const part& p : g.parts) {
      if (p.at < 0) continue;
      // What cannot be divided any better here, others can perhaps.
      r.load += g.level == 1 ? now(p).ends * p.speed : load_of(p);
      r.speed += p.speed;
    }
    send(leader_of(here.rank(), g.level + 1), r);
  }

  /// The seconds that all parts would have ahead of them, if they shared.
  double level_of(const group& g, double more = 0) const {
    double load = more, speed = 0;
    for (const part& p : g.parts) {
      if (p.at < 0) continue;
      load += load_of(p);
      speed += p.speed;
    }
    return speed > 0 ? load / speed : 0;
  }

  struct share {
    double load; ///< too much, or too little
    std::size_t number;
    bool operator<(const share& other) const noexcept {
      return load != other.load ? load > other.load : number < other.number;
    }
  };

  // The parts with more than `level` says, the most first; and those with less.
  void compare(const group& g, double level, std::vector<share>& rich, std::vector<share>& poor) const {
    for (std::size_t i = 0; i < g.parts.size(); ++i) {
      const part& p = g.parts[i];
      if (p.at < 0 || p.hints > 0) continue;
      const double more = load_of(p) - level * p.speed;
      const bool counts = std::abs(more) > slack_ * level * p.speed;
      if (more > 0 && counts && (g.level > 1 || p.how.ready > 0)) rich.push_back({more, i});
      if (more < 0 && (counts || (g.level == 1 && p.how.idle > 0))) poor.push_back({-more, i});
    }
    std::sort(rich.begin(), rich.end());
    std::sort(poor.begin(), poor.end());
  }

  void give_hint(part& taker, int rank, part& giver, int giver_rank, double most) {
    ++taker.hints;
    ++giver.hints;
    send(rank, hint{giver_rank, most, now(giver)});
  }

  void match_ranks(group& g) {
    count_alike(g);
    const double level = level_of(g);
    if (level <= 0) return;
    // First: what others could get afterwards would only make those end later.
    even_out(g, level);
    std::vector<share> rich, poor;
    compare(g, level, rich, poor);
    auto giver = rich.begin();
    for (const share& taker : poor) {
      part& t = g.parts[taker.number];
      while (giver != rich.end() && giver->load * 2 < g.parts[giver->number].how.each * g.parts[giver->number].speed /
                                                          g.parts[giver->number].how.workers)
        ++giver;
      if (giver == rich.end()) break;
      part& from = g.parts[giver->number];
      const double most = t.how.idle > 0 ? detail::evens_out(now(from), now(t)) : std::min(giver->load, taker.load);
      giver->load -= most;
      give_hint(t, rank_of(g, taker.number), from, rank_of(g, giver->number), most);
    }
  }

  // Those that will end late although they have not much more pass some on to those that end first.
  void even_out(group& g, double level) {
    std::vector<std::pair<double, std::size_t>> late, early;
    for (std::size_t i = 0; i < g.parts.size(); ++i) {
      if (g.parts[i].at < 0 || g.parts[i].hints > 0) continue;
      const load_report s = now(g.parts[i]);
      if (s.ends > level && s.ends - s.ahead > slack_ * level)
        late.emplace_back(s.ends, i);
      else
        early.emplace_back(s.ends, i);
    }
    std::sort(late.rbegin(), late.rend());
    std::sort(early.begin(), early.end());
    for (std::size_t k = 0; k < std::min(late.size(), early.size()); ++k) {
      // Not always the same two: what one has no use for may suit another.
      const std::size_t taker = early[(k + static_cast<std::size_t>(g.matches)) % early.size()].second;
      part &from = g.parts[late[k].second], &to = g.parts[taker];
      if (detail::uneven(now(from), now(to), slack_ * level))
        give_hint(to, rank_of(g, taker), from, rank_of(g, late[k].second), 0);
    }
  }

  // --- As a leader of groups -----------------------------------------------------------------------------------------

  void told_of_group(int from, const group_report& r) {
    group* const g = led(r.level + 1);
    part* const p = g ? part_of(*g, from) : nullptr;
    if (!p) return;
    p->load = r.load;
    p->speed = r.speed;
    p->at = here.now();
    soon(r.level + 1);
  }

  void match_groups(group& g) {
    const double level = level_of(g);
    std::vector<share> rich, poor;
    compare(g, level, rich, poor);
    auto giver = rich.begin();
    for (share& taker : poor) {
      while (giver != rich.end() && taker.load > 0) {
        const double load = std::min(giver->load, taker.load);
        send(rank_of(g, taker.number), fetch{g.level - 1, g.level - 1, rank_of(g, giver->number), load});
        // Until they report again.
        g.parts[taker.number].load += load;
        g.parts[giver->number].load -= load;
        taker.load -= load;
        if ((giver->load -= load) <= 0) ++giver;
      }
    }
  }

  // The poorest parts get it.
  void fetches(int, const fetch& f) {
    group* const g = led(f.level);
    if (!g) return;
    const double level = level_of(*g, f.load);
    std::vector<share> poor;
    double all = 0;
    for (std::size_t i = 0; i < g->parts.size(); ++i) {
      const part& p = g->parts[i];
      const double lacks = p.at < 0 || p.hints > 0 ? 0 : level * p.speed - load_of(p);
      if (lacks <= 0) continue;
      poor.push_back({lacks, i});
      all += lacks;
    }
    if (all <= 0) return;
    supply s{f.from_level, {}};
    for (const share& taker : poor) {
      part& p = g->parts[taker.number];
      const double load = taker.load * std::min(1.0, f.load / all);
      const int rank = rank_of(*g, taker.number);
      if (g->level > 1) {
        send(rank, fetch{f.level - 1, f.from_level, f.from, load});
        p.load += load;
      } else {
        ++p.hints;
        s.lacks.push_back({rank, load});
      }
    }
    if (!s.lacks.empty()) send(f.from, s);
  }

  // Each gets it from the part that has most.
  void supplies(int, const supply& s) {
    group* const g = led(s.level);
    std::vector<double> loads;
    for (std::size_t i = 0; g && i < g->parts.size(); ++i) {
      const part& p = g->parts[i];
      loads.push_back(p.at < 0 || (g->level == 1 && p.how.ready == 0) ? 0 : load_of(p) / p.speed);
    }
    std::vector<supply> below(loads.size(), supply{s.level - 1, {}});
    for (const lack& l : s.lacks) {
      const auto most = std::max_element(loads.begin(), loads.end());
      if (most == loads.end() || *most <= 0) {
        send(l.rank, hint{});
        continue;
      }
      const auto number = static_cast<std::size_t>(most - loads.begin());
      part& p = g->parts[number];
      *most -= l.load / p.speed;
      if (g->level > 1) {
        below[number].lacks.push_back(l);
      } else {
        ++p.hints;
        send(l.rank, hint{rank_of(*g, number), l.load, now(p)});
      }
    }
    for (std::size_t i = 0; i < below.size(); ++i)
      if (!below[i].lacks.empty()) send(rank_of(*g, i), below[i]);
  }

  static constexpr int most_quiet = 8; // periods
  static constexpr double much_ = 0.1;

  const int group_, slower_;
  const double slack_, batch_;
  detail::transfer_planner planner_;

  double told_ = 0, told_at_ = -1;
  int quiet_ = 0, look_in_ = 0;
  bool taking_ = false;
  std::uint32_t number_ = 0;
  std::vector<std::pair<int, hint>> hints_; ///< and the ranks that have given them; the first is being followed

  std::vector<group> led_; ///< by level, from 1
};

} // namespace

namespace detail {
policy_kind hierarchical_kind() {
  return kind_of<hierarchical>("hierarchical", "leaders balance within groups of ranks, between groups, and so on up");
}
} // namespace detail

} // namespace tern::balance
