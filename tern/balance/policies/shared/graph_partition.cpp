// SPDX-License-Identifier: Apache-2.0
/// \file
/// The graph of objects that talk to each other, and METIS.
#include <tern/balance/policies/shared/graph_partition.hpp>

#include <algorithm>
#include <functional>
#include <limits>
#include <mutex>
#include <numeric>
#include <tuple>
#include <utility>

#include <metis.h>

namespace tern::balance::detail {
namespace {

// METIS adds up weights in its integers, which may have 32 bits: their sums stay below this.
constexpr double most_weight = 1 << 30;

/// For each part.
constexpr std::size_t least_objects = 4;

// The weight of an object that fills a part by itself, if those that are heavier count as no more
// than that: METIS looks for parts of the same weight until it complains on standard output.
// \return 0 if hardly any has a weight at all.
double fills_part(std::vector<float> weights, std::size_t parts) {
  std::sort(weights.begin(), weights.end(), std::greater<>());
  double left = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t heavier = 0; heavier < parts && heavier < weights.size(); ++heavier) {
    const double part = left / static_cast<double>(parts - heavier);
    if (weights[heavier] <= part) return part;
    left -= weights[heavier];
  }
  return 0;
}

// METIS's weights, in proportion, none above `most`, at least 1 each, because METIS has trouble
// with 0.
std::vector<idx_t> weights_of(const std::vector<float>& x, double most) {
  const auto capped = [&](double sum, float w) { return sum + std::min<double>(w, most); };
  const double all = std::accumulate(x.begin(), x.end(), 0.0, capped);
  const double scale = all > 0 ? std::max(0.0, most_weight - static_cast<double>(x.size())) / all : 0;
  std::vector<idx_t> weights(x.size());
  std::transform(x.begin(), x.end(), weights.begin(),
                 [&](float w) { return static_cast<idx_t>(std::max(1.0, capped(0, w) * scale)); });
  return weights;
}

// Parts are interchangeable if they are for ranks of about the same speed. The pair of part and
// rank that would have to move most otherwise comes first.
// \param part of each object; becomes its rank. \param takers ranks that the parts were made for,
// by part.
void give_parts(const assignment_problem& p, const std::vector<float>& cost, const std::vector<std::uint8_t>& stays,
                const std::vector<std::int32_t>& takers, std::vector<std::int32_t>& part) {
  constexpr float much_more = 16; // what cannot move counts as if it were so much larger
  struct overlap {
    std::int32_t part, rank;
    double bytes;
  };
  const std::vector<std::int32_t> now = p.now();
  std::vector<overlap> all(part.size());
  for (std::size_t i = 0; i < part.size(); ++i) all[i] = {part[i], now[i], (cost[i] + 1) * (stays[i] ? much_more : 1)};
  std::sort(all.begin(), all.end(),
            [](const overlap& a, const overlap& b) { return std::tie(a.part, a.rank) < std::tie(b.part, b.rank); });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (kept > 0 && all[kept - 1].part == all[i].part && all[kept - 1].rank == all[i].rank)
      all[kept - 1].bytes += all[i].bytes;
    else
      all[kept++] = all[i];
  }
  all.resize(kept);
  std::sort(all.begin(), all.end(), [](const overlap& a, const overlap& b) {
    return std::tie(b.bytes, a.part, a.rank) < std::tie(a.bytes, b.part, b.rank);
  });
  std::vector<std::int32_t> rank_of(takers.size(), -1);
  std::vector<std::uint8_t> taken(p.ranks());
  const auto speed = [&](std::int32_t r) { return p.speed[static_cast<std::size_t>(r)]; };
  for (const overlap& o : all) {
    const auto k = static_cast<std::size_t>(o.part), r = static_cast<std::size_t>(o.rank);
    if (rank_of[k] >= 0 || taken[r] || !(p.speed[r] > 0) || speed_class(speed(takers[k])) != speed_class(p.speed[r]))
      continue;
    rank_of[k] = o.rank;
    taken[r] = 1;
  }
  // The rest: within each class as many parts as ranks are left.
  std::vector<std::pair<int, std::int32_t>> left_ranks;
  std::vector<std::pair<int, std::size_t>> left_parts;
  for (const std::int32_t r : takers)
    if (!taken[static_cast<std::size_t>(r)]) left_ranks.emplace_back(speed_class(speed(r)), r);
  for (std::size_t k = 0; k < takers.size(); ++k)
    if (rank_of[k] < 0) left_parts.emplace_back(speed_class(speed(takers[k])), k);
  std::sort(left_ranks.begin(), left_ranks.end());
  std::sort(left_parts.begin(), left_parts.end());
  for (std::size_t i = 0; i < left_parts.size(); ++i) rank_of[left_parts[i].second] = left_ranks[i].second;
  for (std::int32_t& x : part) x = rank_of[static_cast<std::size_t>(x)];
}

// The objects that can move, as a problem of their own, evened out without a look at which talk to
// each other.
void refine_movable(const assignment_problem& p, const std::vector<std::uint8_t>& stays, double exact,
                    std::vector<std::int32_t>& where) {
  assignment_problem movable;
  std::vector<std::vector<float>> fixed_parts(p.ranks());
  std::vector<std::int32_t> part;
  std::vector<std::size_t> which;
  movable.fixed = p.fixed;
  movable.speed = p.speed;
  movable.workers = p.workers;
  movable.first.push_back(0);
  for (std::size_t r = 0; r < p.ranks(); ++r) {
    for (std::uint32_t i = p.first[r]; i < p.first[r + 1]; ++i) {
      if (stays[i]) {
        movable.fixed[r] += p.load[i];
        fixed_parts[r].push_back(p.load[i]);
      } else {
        movable.load.push_back(p.load[i]);
        part.push_back(where[i]);
        which.push_back(i);
      }
    }
    movable.first.push_back(static_cast<std::uint32_t>(movable.load.size()));
  }
  movable.first_fixed.push_back(0);
  for (const std::vector<float>& parts : fixed_parts) {
    movable.fixed_parts.insert(movable.fixed_parts.end(), parts.begin(), parts.end());
    movable.first_fixed.push_back(static_cast<std::uint32_t>(movable.fixed_parts.size()));
  }
  assign_refine(movable, exact, part);
  for (std::size_t k = 0; k < which.size(); ++k) where[which[k]] = part[k];
}

/// Moves along the graph, one object at a time.
class neighbour_moves {
public:
  neighbour_moves(const assignment_problem& p, const talk_graph& talk, const std::vector<std::uint8_t>& stays,
                  double exact, std::vector<std::int32_t>& where)
      : p_(p), talk_(talk), stays_(stays), where_(where), most_(level_of(p) * (1 + exact)), load_(p.fixed),
        shared_(p.ranks()) {
    for (std::size_t i = 0; i < where.size(); ++i) load_[static_cast<std::size_t>(where[i])] += p.load[i];
  }

  void run() {
    relieve();
    for (int pass = 0; pass < passes; ++pass)
      if (!save()) return;
  }

private:
  static constexpr int passes = 4;
  struct choice {
    std::int32_t to = -1;
    float saves = 0;
  };

  double room(std::size_t r) const { return most_ * p_.speed[r] - load_[r]; }

  // The rank of those it talks to that has room for it and to which it talks most.
  choice best_for(std::uint32_t i) {
    choice best;
    const std::int32_t own = where_[i];
    met_.clear();
    for (std::uint32_t e = talk_.first[i]; e < talk_.first[i + 1]; ++e) {
      const std::int32_t r = where_[talk_.with[e]];
      float& all = shared_[static_cast<std::size_t>(r)];
      if (all == 0) met_.push_back(r);
      all += talk_.seconds[e];
    }
    const float here = shared_[static_cast<std::size_t>(own)];
    for (const std::int32_t r : met_) {
      const auto q = static_cast<std::size_t>(r);
      const float saves = shared_[q] - here;
      if (r == own || room(q) < p_.load[i]) continue;
      if (best.to < 0 || saves > best.saves || (saves == best.saves && r < best.to)) best = {r, saves};
    }
    for (const std::int32_t r : met_) shared_[static_cast<std::size_t>(r)] = 0;
    return best;
  }

  void move(std::uint32_t i, std::int32_t to) {
    load_[static_cast<std::size_t>(where_[i])] -= p_.load[i];
    load_[static_cast<std::size_t>(to)] += p_.load[i];
    where_[i] = to;
  }

  // Ranks that have too much give what costs least.
  void relieve() {
    std::vector<std::vector<std::uint32_t>> on(p_.ranks());
    for (std::uint32_t i = 0; i < where_.size(); ++i) {
      const auto r = static_cast<std::size_t>(where_[i]);
      if (room(r) < 0 && !stays_[i] && p_.load[i] > 0) on[r].push_back(i);
    }
    for (std::size_t r = 0; r < p_.ranks(); ++r) {
      std::vector<std::pair<float, std::uint32_t>> order; // by what it costs
      for (const std::uint32_t i : on[r])
        if (const choice c = best_for(i); c.to >= 0) order.emplace_back(-c.saves, i);
      std::sort(order.begin(), order.end());
      for (const auto& [costs, i] : order) {
        if (room(r) >= 0) break;
        if (p_.load[i] > -2 * room(r)) continue; // another fits better
        if (const choice c = best_for(i); c.to >= 0) move(i, c.to);
      }
    }
  }

  bool save() {
    bool any = false;
    for (std::uint32_t i = 0; i < where_.size(); ++i) {
      if (stays_[i]) continue;
      const choice c = best_for(i);
      if (c.to < 0 || !(c.saves > 0)) continue;
      move(i, c.to);
      any = true;
    }
    return any;
  }

  const assignment_problem& p_;
  const talk_graph& talk_;
  const std::vector<std::uint8_t>& stays_;
  std::vector<std::int32_t>& where_;
  double most_;
  std::vector<double> load_;
  std::vector<float> shared_; // by rank: what the object at hand talks with those there
  std::vector<std::int32_t> met_;
};

} // namespace

talk_graph graph_of(const talk_report& talk, double byte, double message) {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> by_id;
  by_id.reserve(talk.ids.size());
  for (std::uint32_t i = 0; i < talk.ids.size(); ++i) by_id.emplace_back(talk.ids[i], i);
  std::sort(by_id.begin(), by_id.end());
  struct edge {
    std::uint32_t a, b;
    float seconds;
  };
  std::vector<edge> edges;
  edges.reserve(talk.with.size());
  for (std::size_t i = 0, c = 0; i < talk.ids.size(); ++i)
    for (const std::size_t end = c + talk.contacts[i]; c < end; ++c) {
      const auto other = std::lower_bound(by_id.begin(), by_id.end(), std::pair(talk.with[c], 0u));
      if (other == by_id.end() || other->first != talk.with[c] || other->second == i) continue;
      const double seconds = talk.bytes[c] * byte + talk.messages[c] * message;
      if (!(seconds > 0)) continue;
      const auto own = static_cast<std::uint32_t>(i);
      edges.push_back({std::min(own, other->second), std::max(own, other->second), static_cast<float>(seconds)});
    }
  // Both have counted all that the two have said, but perhaps not at the same moment.
  std::sort(edges.begin(), edges.end(),
            [](const edge& x, const edge& y) { return std::tie(x.a, x.b, y.seconds) < std::tie(y.a, y.b, x.seconds); });
  edges.erase(
      std::unique(edges.begin(), edges.end(), [](const edge& x, const edge& y) { return x.a == y.a && x.b == y.b; }),
      edges.end());
  talk_graph g;
  g.first.resize(talk.ids.size() + 1);
  for (const edge& e : edges) {
    ++g.first[e.a + 1];
    ++g.first[e.b + 1];
  }
  std::partial_sum(g.first.begin(), g.first.end(), g.first.begin());
  std::vector<std::uint32_t> next(g.first.begin(), g.first.end() - 1);
  g.with.resize(2 * edges.size());
  g.seconds.resize(2 * edges.size());
  for (const edge& e : edges)
    for (const auto& [from, to] : {std::pair(e.a, e.b), std::pair(e.b, e.a)}) {
      g.with[next[from]] = to;
      g.seconds[next[from]++] = e.seconds;
    }
  return g;
}

assignment_problem with_talk(const assignment_problem& p, const talk_graph& talk,
                             const std::vector<std::int32_t>& where) {
  assignment_problem all = p;
  for (std::size_t i = 0; i < where.size(); ++i)
    for (std::uint32_t e = talk.first[i]; e < talk.first[i + 1]; ++e)
      if (where[talk.with[e]] != where[i]) all.load[i] += talk.seconds[e] / 2; // the other half is the other's
  return all;
}

double talk_of(const assignment_problem& p, const talk_graph& talk, const std::vector<std::int32_t>& where) {
  double seconds = 0;
  for (std::size_t i = 0; i < where.size(); ++i)
    for (std::uint32_t e = talk.first[i]; e < talk.first[i + 1]; ++e)
      if (talk.with[e] > i && where[talk.with[e]] != where[i]) seconds += talk.seconds[e];
  const double workers = std::accumulate(p.workers.begin(), p.workers.end(), 0.0);
  return workers > 0 ? seconds / workers : 0;
}

std::vector<std::int32_t> cut(const assignment_problem& p, const talk_graph& talk, const std::vector<float>& cost,
                              const std::vector<std::uint8_t>& stays, std::uint64_t random) {
  std::vector<std::int32_t> takers;
  std::vector<real_t> shares;
  const double speed = std::accumulate(p.speed.begin(), p.speed.end(), 0.0);
  for (std::size_t r = 0; r < p.ranks(); ++r) {
    if (!(p.speed[r] > 0)) continue;
    takers.push_back(static_cast<std::int32_t>(r));
    shares.push_back(static_cast<real_t>(p.speed[r] / speed));
  }
  constexpr auto most = static_cast<std::size_t>(std::numeric_limits<idx_t>::max());
  // METIS divides by zero for one part, and complains on standard output if there is hardly
  // anything to cut.
  if (takers.size() < 2 || least_objects * takers.size() > p.load.size() || talk.with.empty() ||
      talk.with.size() > most / 2)
    return {};

  auto objects = static_cast<idx_t>(p.load.size()), parts = static_cast<idx_t>(takers.size()), constraints = idx_t{1};
  std::vector<idx_t> first(talk.first.begin(), talk.first.end()), with(talk.with.begin(), talk.with.end()),
      loads = weights_of(p.load, fills_part(p.load, takers.size())),
      seconds = weights_of(talk.seconds, std::numeric_limits<double>::infinity()), part(p.load.size());
  idx_t options[METIS_NOPTIONS];
  METIS_SetDefaultOptions(options);
  options[METIS_OPTION_SEED] = static_cast<idx_t>(random % (1u << 30));
  options[METIS_OPTION_UFACTOR] = 10; // no part more than 1 % too large, if that is possible
  options[METIS_OPTION_NUMBERING] = 0;
  idx_t cost_of_cut = 0;
  {
    // It uses `rand`, and catches signals while it runs.
    static std::mutex one_at_a_time;
    const std::lock_guard hold(one_at_a_time);
    if (METIS_PartGraphKway(&objects, &constraints, first.data(), with.data(), loads.data(), nullptr, seconds.data(),
                            &parts, shares.data(), nullptr, options, &cost_of_cut, part.data()) != METIS_OK)
      return {};
  }
  std::vector<std::int32_t> where(part.begin(), part.end());
  give_parts(p, cost, stays, takers, where);
  const std::vector<std::int32_t> now = p.now();
  for (std::size_t i = 0; i < where.size(); ++i)
    if (stays[i]) where[i] = now[i];
  return where;
}

void even_out(const assignment_problem& p, const talk_graph& talk, const std::vector<std::uint8_t>& stays, double exact,
              std::vector<std::int32_t>& where) {
  neighbour_moves(p, talk, stays, exact, where).run();
  refine_movable(with_talk(p, talk, where), stays, exact, where);
}

} // namespace tern::balance::detail
