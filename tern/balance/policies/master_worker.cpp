// SPDX-License-Identifier: Apache-2.0
/// \file
/// Rank 0 knows how all others stand, because they tell it when that changes much, and when they
/// run short. It tells the richest ranks to give those something. Simple, quick on some hundred
/// ranks, and the yardstick for all that does without a master.
///
/// Parameters: `threshold`: with fewer objects for each worker a rank says that it needs more;
/// `change`: a rank tells rank 0 when what it has is off by this part from what rank 0 must think;
/// `batch`: what ranks tell within so long is looked at together; `moves` and `hold`: an object
/// that has moved so often stays where it is so long.
#include <tern/balance/policy.hpp>

#include <algorithm>
#include <cmath>
#include <memory>

#include <tern/balance/policies/shared/load_trigger.hpp>
#include <tern/balance/policies/shared/transfer_planner.hpp>
#include <tern/balance/policy/builtin.hpp>

namespace tern::balance {
namespace {

using detail::load_report;

/// How a rank stands. To the master.
struct report {
  load_report how;
  bool needs = false;        ///< it is short of work
  std::uint32_t answers = 0; ///< how many orders it has carried out as giver
  std::uint32_t got = 0;     ///< how many have been carried out for it
  std::uint8_t refuses = 0;  ///< what it had for those of the last order was nothing; 2: not even for idle ones
  template <class A> void serialize(A& ar) { ar(how, needs, answers, got, refuses); }
};

/// "Give these ranks so much." From the master.
struct order {
  struct part {
    std::int32_t to = 0;
    double most = 0; ///< load
    load_report how;
    template <class A> void serialize(A& ar) { ar(to, most, how); }
  };
  std::vector<part> parts;
  template <class A> void serialize(A& ar) { ar(parts); }
};

class master_worker final : public policy {
public:
  master_worker(policy_context& h, parameters& p)
      : policy(h), threshold_(p.number("threshold", 6, 0, 1000)), change_(p.number("change", 0.1, 0, 1)),
        batch_(p.seconds("batch", 1e-3)), planner_(h, p.seconds("hold", 300), p.count("moves", 3, 1, 100)) {
    on(&master_worker::told);
    on(&master_worker::ordered);
    on(&master_worker::coming);
    on(&master_worker::received);
  }

  void dist_balance(trigger why) override {
    if (here.size() == 1) return;
    switch (why) {
    case trigger::start:
      members_.clear();
      answers_ = got_ = 0;
      [[fallthrough]];
    case trigger::phase:
      planner_.forget();
      told_at_ = -1;
      needs_ = false;
      refuses_ = 0;
      return;
    case trigger::idle:
      return look();
    case trigger::period:
      // What was not to be had then may be now.
      if (needs_ || refuses_ > 0 || ends_late()) told_at_ = -1;
      return look();
    }
  }

  void notify(object_id) override {
    if (trigger_.due(here)) look();
  }

private:
  bool ends_late() const {
    const load_report mine = planner_.mine();
    return mine.ready > 0 && mine.ends > 1.02 * mine.ahead;
  }

  /// What the master knows of a rank.
  struct member {
    load_report how;
    double at = -1; ///< when; -1: nothing is known
    bool needs = false;
    std::uint8_t refuses = 0;
    std::uint32_t gives = 0, gets = 0; ///< orders for it, of either kind, that have not been carried out
    std::uint32_t ordered = 0, sent = 0;
  };

  // The master is told when this rank stands otherwise than it must think, or is short of work for
  // the first time.
  void look() {
    const load_report mine = planner_.mine();
    const bool needs = mine.idle > 0 || planner_.short_of(threshold_);
    const double expected = std::max(0.0, told_ - (here.now() - told_at_));
    const bool changed = told_at_ < 0 || std::abs(mine.ahead - expected) > std::max(change_ * expected, mine.each / 2);
    if (changed) refuses_ = 0;
    if (!changed && needs == needs_ && (!needs || mine.idle <= told_idle_)) return;
    tell(mine, needs);
  }

  void tell(const load_report& mine, bool needs) {
    needs_ = needs;
    told_ = mine.ahead;
    told_at_ = here.now();
    told_idle_ = mine.idle;
    send(0, report{needs ? planner_.precisely() : mine, needs, answers_, got_, refuses_});
  }

  void told(int from, const report& r) {
    if (members_.empty()) members_.resize(static_cast<std::size_t>(here.size()));
    member& m = members_[static_cast<std::size_t>(from)];
    m.how = r.how;
    m.at = here.now();
    m.needs = r.needs;
    m.refuses = r.refuses;
    m.gives = m.ordered - r.answers;
    m.gets = m.sent - r.got;
    if (timer_) return;
    timer_ = true;
    here.after(batch_, [this] {
      timer_ = false;
      match();
    });
  }

  // As time has gone on.
  load_report now(const member& m) const {
    load_report s = m.how;
    const double gone = here.now() - m.at;
    s.ahead = std::max(0.0, s.ahead - gone);
    s.ends = std::max(s.ahead, s.ends - gone);
    return s;
  }

  using ranks = std::vector<std::pair<double, int>>; ///< by what is ahead of them

  void match() {
    double load = 0, speed = 0;
    for (const member& m : members_) {
      if (m.at < 0) continue;
      const load_report s = now(m);
      load += s.ahead / s.rate;
      speed += 1 / s.rate;
    }
    if (load <= 0) return;
    const double mean = load / speed;
    ranks needy, rich;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      const member& m = members_[i];
      if (m.at < 0 || m.gives > 0 || m.gets > 0) continue;
      const load_report s = now(m);
      // A rank of few heavy objects may be short of objects, but not of work.
      if (s.ahead < mean && m.needs) needy.emplace_back(s.ahead, static_cast<int>(i));
      if (s.ahead > mean && m.refuses < 2 && s.ready > 0) rich.emplace_back(s.ahead, static_cast<int>(i));
    }
    std::sort(needy.begin(), needy.end());
    std::sort(rich.begin(), rich.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
    if (!needy.empty() && !rich.empty()) feed(needy, rich, mean);
    even_out(mean);
  }

  member& at(int rank) { return members_[static_cast<std::size_t>(rank)]; }

  void send_order(int giver, const order& o) {
    ++at(giver).gives;
    ++at(giver).ordered;
    for (const order::part& p : o.parts) {
      ++at(p.to).gets;
      ++at(p.to).sent;
    }
    send(giver, o);
  }

  // Those that need something get what they lack of the mean from the richest, which keep the mean.
  void feed(const ranks& needy, const ranks& rich, double mean) {
    auto giver = rich.begin();
    order all;
    double given = 0;
    const auto next = [&] {
      if (!all.parts.empty()) send_order(giver->second, all);
      all.parts.clear();
      given = 0;
      ++giver;
    };
    for (const auto& [ahead, who] : needy) {
      const load_report t = now(at(who));
      for (; giver != rich.end(); next()) {
        const load_report g = now(at(giver->second));
        const double even = detail::evens_out(g, t), spare = std::max((g.ahead - mean) / g.rate, even) - given;
        const double gets = std::min({spare, even, t.idle > 0 ? even : (mean - t.ahead) / t.rate});
        // Not what is less than half an object, unless it can begin at once.
        const bool worth = gets > 0 && (t.idle > 0 || gets * g.rate * g.workers > g.each / 2);
        if (!worth || (t.idle == 0 && at(giver->second).refuses > 0)) continue;
        all.parts.push_back({who, gets, t});
        given += gets;
        break;
      }
      if (giver == rich.end()) return;
    }
    next();
  }

  // Those that will end late although they have not much more pass some on to those that end first.
  void even_out(double mean) {
    ranks early, late;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      const member& m = members_[i];
      if (m.at < 0 || m.gets > 0 || m.gives > 0) continue;
      const load_report s = now(m);
      early.emplace_back(s.ends, static_cast<int>(i));
      if (s.ends > mean && m.refuses == 0 && s.ready > 0) late.emplace_back(s.ends, static_cast<int>(i));
    }
    std::sort(early.begin(), early.end());
    std::sort(late.rbegin(), late.rend());
    auto taker = early.begin();
    for (const auto& [ends, who] : late) {
      const load_report t = now(at(taker->second)), g = now(at(who));
      if (!detail::uneven(g, t, 0.01 * mean)) return;
      send_order(who, {{{taker->second, 0, t}}});
      ++taker;
    }
  }

  void ordered(int, const order& o) {
    const auto left = std::make_shared<std::pair<std::size_t, std::uint8_t>>(o.parts.size() + 1, 1);
    const auto end = [this, left] {
      if (--left->first > 0) return;
      ++answers_;
      refuses_ = left->second;
      tell(planner_.mine(), planner_.short_of(threshold_));
    };
    for (const order::part& part : o.parts) {
      const auto objects = planner_.choose(part.to, part.how, part.most);
      if (objects.empty()) {
        if (part.how.idle > 0 && left->second == 1) left->second = 2;
      } else {
        left->second = 0;
        send(part.to, planner_.announce(objects));
      }
      planner_.move(objects, part.to, 0, [this, end, to = part.to](const detail::settled& s) {
        send(to, s);
        end();
      });
    }
    end();
  }

  void coming(int, const detail::announced& what) { planner_.coming(what); }

  void received(int, const detail::settled& s) {
    ++got_;
    if (s.moved > 0) refuses_ = 0;
    const load_report mine = planner_.mine();
    tell(mine, mine.idle > 0 || planner_.short_of(threshold_));
  }

  const double threshold_, change_, batch_;
  detail::load_trigger trigger_{threshold_};
  detail::transfer_planner planner_;

  double told_ = 0, told_at_ = -1;
  std::uint32_t told_idle_ = 0;
  bool needs_ = false;
  std::uint8_t refuses_ = 0; ///< since it was last looked at anew
  std::uint32_t answers_ = 0, got_ = 0;

  // Rank 0 alone.
  std::vector<member> members_;
  bool timer_ = false;
};

} // namespace

namespace detail {
policy_kind master_worker_kind() {
  return kind_of<master_worker>("master-worker",
                                "ranks that run short tell rank 0, which has the richest give to them");
}
} // namespace detail

} // namespace tern::balance
