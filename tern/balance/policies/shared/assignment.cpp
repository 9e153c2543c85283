// SPDX-License-Identifier: Apache-2.0
/// \file
/// The arithmetic of the central policies.
#include <tern/balance/policies/shared/assignment.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include <tern/balance/policies/shared/list_schedule.hpp>

namespace tern::balance::detail {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Of so many it does not matter how they are dealt out.
constexpr std::size_t many_for_worker = 64;
/// Limit of the repetitions for ranks that end late although they have no more than others.
constexpr int attempts = 6;

double time_of(double load, double speed) { return load <= 0 ? 0 : speed > 0 ? load / speed : infinity; }

} // namespace

winner_tree::winner_tree(std::size_t size) {
  while (leaves_ < size) leaves_ *= 2;
  values_.assign(leaves_, -infinity);
  winner_.resize(2 * leaves_);
  for (std::size_t i = 0; i < leaves_; ++i) winner_[leaves_ + i] = static_cast<std::uint32_t>(i);
  for (std::size_t i = leaves_ - 1; i > 0; --i) winner_[i] = winner_[2 * i];
}

void winner_tree::set(std::size_t place, double value) {
  values_[place] = value;
  for (std::size_t i = (leaves_ + place) / 2; i > 0; i /= 2) {
    const std::uint32_t left = winner_[2 * i], right = winner_[2 * i + 1];
    winner_[i] = values_[right] > values_[left] ? right : left;
  }
}

std::vector<std::int32_t> assignment_problem::now() const {
  std::vector<std::int32_t> where(load.size());
  for (std::size_t r = 0; r < ranks(); ++r)
    std::fill(where.begin() + first[r], where.begin() + first[r + 1], static_cast<std::int32_t>(r));
  return where;
}

double level_of(const assignment_problem& p) {
  std::vector<std::uint32_t> order(p.ranks());
  std::iota(order.begin(), order.end(), 0u);
  const auto alone = [&](std::uint32_t r) { return time_of(p.fixed[r], p.speed[r]); };
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return alone(a) > alone(b); });
  double load = std::accumulate(p.load.begin(), p.load.end(), 0.0), speed = 0;
  for (std::size_t r = 0; r < p.ranks(); ++r) {
    load += p.speed[r] > 0 ? p.fixed[r] : 0;
    speed += p.speed[r];
  }
  for (const std::uint32_t r : order) {
    if (p.speed[r] <= 0) continue;
    if (alone(r) <= load / speed || speed <= p.speed[r]) break;
    load -= p.fixed[r];
    speed -= p.speed[r];
  }
  return time_of(load, speed);
}

int speed_class(double speed) {
  int octave = 0;
  const double within = std::frexp(speed, &octave); // exact everywhere, which logarithms are not
  return octave * 16 + static_cast<int>((within - 0.5) * 32);
}

double grain_of(const assignment_problem& p) {
  double seconds = 0, objects = 0;
  for (std::size_t r = 0; r < p.ranks(); ++r) {
    double load = 0;
    for (std::uint32_t i = p.first[r]; i < p.first[r + 1]; ++i) {
      load += p.load[i];
      objects += p.load[i] > 0;
    }
    if (p.speed[r] > 0) seconds += load * p.workers[r] / p.speed[r];
  }
  return objects > 0 ? seconds / objects : 0;
}

rank_plan plan_rank(std::span<const float> fixed_parts, std::span<const double> loads, int workers, double speed) {
  rank_plan plan;
  const auto n = static_cast<std::size_t>(std::max(workers, 1));
  const double all =
      std::accumulate(fixed_parts.begin(), fixed_parts.end(), std::accumulate(loads.begin(), loads.end(), 0.0));
  plan.ends = time_of(all, speed);
  if (!(speed > 0) || loads.size() + fixed_parts.size() > many_for_worker * n) return plan;
  plan.workers.assign(n, 0);
  // Most of what stays runs already: each on a worker, which then goes on with something else.
  std::vector<double> stays(fixed_parts.begin(), fixed_parts.end());
  std::sort(stays.begin(), stays.end(), std::greater<>());
  lpt_scheduler deal;
  deal.deal(stays, plan.workers);
  deal.deal(loads, plan.workers);
  for (double& ends : plan.workers) ends *= static_cast<double>(n) / speed;
  plan.ends = *std::max_element(plan.workers.begin(), plan.workers.end());
  return plan;
}

namespace {

std::span<const float> fixed_parts_of(const assignment_problem& p, std::size_t r) {
  return std::span(p.fixed_parts).subspan(p.first_fixed[r], p.first_fixed[r + 1] - p.first_fixed[r]);
}

} // namespace

std::vector<double> ends_of(const assignment_problem& p, std::span<const std::int32_t> where) {
  std::vector<std::uint32_t> begin(p.ranks() + 1);
  for (const std::int32_t r : where) ++begin[static_cast<std::size_t>(r) + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<double> loads(where.size()), ends(p.ranks());
  std::vector<std::uint32_t> next(begin.begin(), begin.end() - 1);
  for (std::size_t i = 0; i < where.size(); ++i) loads[next[static_cast<std::size_t>(where[i])]++] = p.load[i];
  for (std::size_t r = 0; r < p.ranks(); ++r) {
    const std::span<double> here(loads.data() + begin[r], begin[r + 1] - begin[r]);
    std::sort(here.begin(), here.end(), std::greater<>());
    ends[r] = plan_rank(fixed_parts_of(p, r), here, p.workers[r], p.speed[r]).ends;
  }
  return ends;
}

// Greedy --------------------------------------------------------------------------------------------------------------

namespace {

// Workers of about the same speed: of those the one that ends soonest without an object also does
// with it.
struct equals {
  std::vector<std::uint32_t> rank; // by worker
  winner_tree soonest{1};          // of minus the times at which they end
};

class greedy_dealer {
public:
  greedy_dealer(const assignment_problem& p, double keep)
      : p_(p), keep_(keep), level_(level_of(p)), places_(p.ranks()) {
    std::vector<std::uint32_t> order;
    for (std::uint32_t r = 0; r < p.ranks(); ++r)
      if (p.speed[r] > 0) order.push_back(r);
    const auto speed = [&](std::uint32_t r) { return speed_class(each(r)); };
    std::sort(order.begin(), order.end(),
              [&](std::uint32_t a, std::uint32_t b) { return std::pair(speed(a), a) < std::pair(speed(b), b); });
    for (const std::uint32_t r : order) {
      if (classes_.empty() || speed(classes_.back().rank[0]) != speed(r)) classes_.emplace_back();
      equals& c = classes_.back();
      places_[r] = {classes_.size() - 1, c.rank.size()};
      c.rank.insert(c.rank.end(), count(r), r);
    }
    for (equals& c : classes_) {
      c.soonest = winner_tree(c.rank.size());
      rank_plan plan;
      for (std::size_t w = 0; w < c.rank.size(); ++w) {
        const std::uint32_t r = c.rank[w];
        if (w == places_[r].worker) plan = plan_rank(fixed_parts_of(p, r), {}, p.workers[r], p.speed[r]);
        c.soonest.set(w, plan.workers.empty() ? -plan.ends : -plan.workers[w - places_[r].worker]);
      }
    }
  }

  std::vector<std::int32_t> deal() {
    std::vector<std::int32_t> where = p_.now();
    if (classes_.empty()) return where;
    std::vector<std::uint32_t> order(p_.load.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return p_.load[a] != p_.load[b] ? p_.load[a] > p_.load[b] : a < b;
    });
    for (const std::uint32_t i : order) {
      const place to = choose(p_.load[i], static_cast<std::uint32_t>(where[i]));
      winner_tree& t = classes_[to.of].soonest;
      const std::uint32_t r = classes_[to.of].rank[to.worker];
      t.set(to.worker, t.value(to.worker) - p_.load[i] / each(r));
      where[i] = static_cast<std::int32_t>(r);
    }
    return where;
  }

private:
  struct place {
    std::size_t of = 0, worker = 0; // which class, and which of its workers
  };

  std::size_t count(std::uint32_t r) const { return static_cast<std::size_t>(std::max(p_.workers[r], 1)); }
  double each(std::uint32_t r) const { return p_.speed[r] / static_cast<double>(count(r)); }
  double ends(const place& x) const { return -classes_[x.of].soonest.value(x.worker); }

  place choose(double load, std::uint32_t own) const {
    place best;
    double then = infinity;
    for (std::size_t c = 0; c < classes_.size(); ++c) {
      const place x{c, classes_[c].soonest.top()};
      const double with = ends(x) + load / each(classes_[c].rank[x.worker]);
      if (with >= then) continue;
      then = with;
      best = x;
    }
    if (p_.speed[own] <= 0) return best;
    place here = places_[own];
    for (std::size_t w = 1; w < count(own); ++w)
      if (const place x{here.of, places_[own].worker + w}; ends(x) < ends(here)) here = x;
    return ends(here) + load / each(own) <= then + keep_ * std::max(0.0, level_ - ends(best)) ? here : best;
  }

  const assignment_problem& p_;
  double keep_, level_;
  std::vector<equals> classes_;
  std::vector<place> places_; // of each rank's first worker
};

} // namespace

std::vector<std::int32_t> assign_greedy(const assignment_problem& p, double keep) {
  return greedy_dealer(p, keep).deal();
}

// Refine --------------------------------------------------------------------------------------------------------------

namespace {

class refiner {
public:
  refiner(const assignment_problem& p, double exact, std::vector<std::int32_t>& where)
      : p_(p), where_(where), exact_(exact), load_(p.fixed), on_(p.ranks()), settled_(p.ranks()), fullest_(p.ranks()),
        emptiest_(p.ranks()) {
    std::vector<std::uint32_t> count(p.ranks());
    for (const std::int32_t r : where) ++count[static_cast<std::size_t>(r)];
    for (std::size_t r = 0; r < p.ranks(); ++r) on_[r].reserve(count[r] + count[r] / 4 + 4);
    for (std::uint32_t i = 0; i < where.size(); ++i) {
      const auto r = static_cast<std::size_t>(where[i]);
      load_[r] += p.load[i];
      if (p.load[i] > 0) on_[r].push_back({p.load[i], i});
    }
    for (std::vector<piece>& x : on_) std::sort(x.begin(), x.end());
    aim(level_of(p));
  }

  /// Evens out loads among those that are not settled.
  void run() {
    if (!(level_ > 0) || !std::isfinite(level_)) return;
    for (std::size_t r = 0; r < p_.ranks(); ++r)
      while (p_.speed[r] <= 0 && !on_[r].empty()) make(r, {emptiest_.top(), 0, on_[r].size() - 1, nowhere, 0});
    // Each step makes the later of two ranks' ends earlier by a share of the level, so it comes to
    // an end; but no bound that follows from this is of any use.
    for (std::size_t steps = 4 * p_.load.size() + 64 * p_.ranks(); steps > 0; --steps) {
      const std::size_t r = fullest_.top();
      if (!(fullest_.value(r) > enough_)) return;
      const transfer best = best_from(r);
      if (best.to == nowhere)
        fullest_.set(r, -infinity); // no rank can help it
      else
        make(r, best);
    }
  }

  /// Ranks that end late although they have no more than others: their workers give away what each
  /// has beyond the level, take what fits into the gaps that this leaves, and are settled.
  /// \return whether there was any.
  bool settle(const std::vector<double>& ends) {
    // The worst ones first, so that there are others to give to.
    double worst = 0;
    for (std::size_t r = 0; r < p_.ranks(); ++r)
      if (may_settle(r, ends[r])) worst = std::max(worst, ends[r]);
    bool any = false;
    for (std::size_t r = 0; r < p_.ranks(); ++r) {
      if (!may_settle(r, ends[r]) || ends[r] < (level_ + worst) / 2) continue;
      any = true;
      settled_[r] = 1;
      enter(r);
      for (int times = 0; times < attempts && give_excess(r); ++times) {
      }
      fill_gaps(r);
    }
    double load = 0, speed = 0;
    for (std::size_t r = 0; r < p_.ranks(); ++r) {
      if (settled_[r]) continue;
      load += load_[r];
      speed += p_.speed[r];
    }
    if (any && speed > 0) aim(std::max(level_, load / speed));
    return any;
  }

private:
  static constexpr std::size_t nowhere = static_cast<std::size_t>(-1);
  static constexpr int candidates = 8; // of receivers, if the first does not fit well
  struct piece {
    float load;
    std::uint32_t object;
    auto operator<=>(const piece&) const = default;
  };
  struct transfer {
    std::size_t to = nowhere;
    double ends = infinity;     // the later of the two, afterwards; the level if both are below it
    std::size_t given = 0;      // which of the giver's
    std::size_t back = nowhere; // which of the receiver's, in exchange
    double load = 0;            // what the giver is rid of
  };

  double time(std::size_t r) const { return time_of(load_[r], p_.speed[r]); }
  double room(std::size_t r) const { return level_ * p_.speed[r] - load_[r]; }

  void aim(double level) {
    level_ = level;
    enough_ = level * (1 + exact_);
    least_ = level * exact_ / 16;
    for (std::size_t r = 0; r < p_.ranks(); ++r) enter(r);
  }

  void enter(std::size_t r) {
    fullest_.set(r, on_[r].empty() || settled_[r] ? -infinity : time(r));
    emptiest_.set(r, p_.speed[r] > 0 && !settled_[r] ? room(r) : -infinity);
  }

  bool may_settle(std::size_t r, double ends) const {
    return !settled_[r] && ends > enough_ + level_ * exact_ && std::isfinite(ends) && !on_[r].empty();
  }

  rank_plan plan(std::size_t r) const {
    std::vector<double> loads;
    for (auto x = on_[r].rbegin(); x != on_[r].rend(); ++x) loads.push_back(x->load);
    return plan_rank(fixed_parts_of(p_, r), loads, p_.workers[r], p_.speed[r]);
  }

  // \return whether it has given anything, so that all is to be dealt out anew.
  bool give_excess(std::size_t r) {
    const rank_plan now = plan(r);
    const double each = p_.speed[r] / static_cast<double>(now.workers.size());
    bool any = false;
    for (const double ends : now.workers) {
      const std::size_t to = emptiest_.top();
      if (ends <= enough_ || on_[r].empty() || !std::isfinite(emptiest_.value(to))) continue;
      // The lightest that is enough.
      auto x = std::lower_bound(on_[r].begin(), on_[r].end(), (ends - level_) * each,
                                [](const piece& a, double load) { return a.load < load; });
      if (x == on_[r].end()) --x;
      hand_over(r, static_cast<std::size_t>(x - on_[r].begin()), to);
      enter(to);
      any = true;
    }
    return any;
  }

  void fill_gaps(std::size_t r) {
    const rank_plan now = plan(r);
    const double each = p_.speed[r] / static_cast<double>(now.workers.size());
    for (const double ends : now.workers)
      for (double gap = (level_ - ends) * each; gap > 0;) {
        const std::size_t from = fullest_.top();
        if (!(fullest_.value(from) > 0)) return;
        const auto above = std::upper_bound(on_[from].begin(), on_[from].end(), gap,
                                            [](double g, const piece& x) { return g < x.load; });
        if (above == on_[from].begin()) break;
        gap -= (above - 1)->load;
        hand_over(from, static_cast<std::size_t>(above - 1 - on_[from].begin()), r);
        enter(from);
      }
  }

  void consider(transfer& best, std::size_t r, double load, std::size_t given, std::size_t back) const {
    if (load <= 0) return;
    const std::size_t q = best.to;
    const double ends =
        std::max({time_of(load_[r] - load, p_.speed[r]), time_of(load_[q] + load, p_.speed[q]), level_});
    if (ends < best.ends) best = {q, ends, given, back, load};
  }

  // One object, or an exchange if that is better by far: it moves two.
  transfer best_to(std::size_t r, std::size_t q) const {
    const std::vector<piece>&mine = on_[r], &theirs = on_[q];
    const double want = std::min(-room(r), room(q)), was = time(r);
    const auto above = static_cast<std::size_t>(
        std::upper_bound(mine.begin(), mine.end(), want, [](double w, const piece& x) { return w < x.load; }) -
        mine.begin());
    transfer one{q};
    if (above > 0) consider(one, r, mine[above - 1].load, above - 1, nowhere);
    if (above < mine.size()) consider(one, r, mine[above].load, above, nowhere);
    // No exchange gives as much at once as the heaviest object.
    if (one.ends <= enough_ || (one.ends < was && 2 * one.load >= mine.back().load)) return one;
    transfer two{q};
    for (std::size_t a = 0, b = 0; a < mine.size(); ++a) { // the heavier mine, the heavier what fits of theirs
      while (b < theirs.size() && mine[a].load - theirs[b].load > want) ++b;
      if (b > 0) consider(two, r, mine[a].load - theirs[b - 1].load, a, b - 1);
      if (b < theirs.size()) consider(two, r, mine[a].load - theirs[b].load, a, b);
    }
    return was - two.ends > 2 * std::max(was - one.ends, 0.0) ? two : one;
  }

  transfer best_from(std::size_t r) {
    const double was = time(r), heaviest = on_[r].back().load;
    transfer best;
    std::size_t looked[candidates];
    int n = 0;
    while (n < candidates) {
      const std::size_t q = emptiest_.top();
      if (!(emptiest_.value(q) > 0)) break;
      const transfer t = best_to(r, q);
      if (t.ends < best.ends) best = t;
      const double want = std::min(-room(r), room(q));
      looked[n++] = q;
      emptiest_.set(q, -infinity);
      if (best.ends <= enough_ || (best.ends < was && 2 * best.load >= std::min(want, heaviest))) break;
    }
    for (int i = 0; i < n; ++i) emptiest_.set(looked[i], room(looked[i]));
    if (!(was - best.ends > least_)) best.to = nowhere;
    return best;
  }

  void hand_over(std::size_t from, std::size_t place, std::size_t to) {
    const piece x = on_[from][place];
    on_[from].erase(on_[from].begin() + static_cast<std::ptrdiff_t>(place));
    on_[to].insert(std::upper_bound(on_[to].begin(), on_[to].end(), x), x);
    load_[from] -= x.load;
    load_[to] += x.load;
    where_[x.object] = static_cast<std::int32_t>(to);
  }

  void make(std::size_t r, const transfer& t) {
    if (t.back == nowhere) {
      hand_over(r, t.given, t.to);
    } else {
      const piece back = on_[t.to][t.back];
      hand_over(r, t.given, t.to);
      const auto at = std::lower_bound(on_[t.to].begin(), on_[t.to].end(), back) - on_[t.to].begin();
      hand_over(t.to, static_cast<std::size_t>(at), r);
    }
    enter(r);
    enter(t.to);
  }

  const assignment_problem& p_;
  std::vector<std::int32_t>& where_;
  double exact_, level_ = 0, enough_ = 0, least_ = 0;
  std::vector<double> load_;
  std::vector<std::vector<piece>> on_; // by rank, the lightest first
  std::vector<std::uint8_t> settled_;
  winner_tree fullest_, emptiest_; // by when they end, and by what they lack to the level
};

} // namespace

void assign_refine(const assignment_problem& p, double exact, std::vector<std::int32_t>& where) {
  std::vector<std::int32_t> tried = where;
  std::vector<double> ends = ends_of(p, where);
  double best = *std::max_element(ends.begin(), ends.end());
  refiner refine(p, exact, tried);
  for (int attempt = 0; attempt < attempts; ++attempt) {
    refine.run();
    ends = ends_of(p, tried);
    const double latest = *std::max_element(ends.begin(), ends.end());
    if (latest < best) {
      best = latest;
      where = tried;
    }
    if (!refine.settle(ends)) return;
  }
}

} // namespace tern::balance::detail
