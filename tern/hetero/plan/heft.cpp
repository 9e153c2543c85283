// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/plan/heft.hpp>

#include <algorithm>
#include <numeric>
#include <optional>

namespace tern::hetero::detail {

busy_times::slot busy_times::find(double earliest, double seconds) const {
  std::optional<slot> best;
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const std::vector<span>& all = units_[u];
    double begin = earliest;
    auto next = std::upper_bound(all.begin(), all.end(), earliest, [](double t, const span& s) { return t < s.end; });
    for (; next != all.end() && next->begin < begin + seconds; ++next) begin = std::max(begin, next->end);
    if (!best || begin < best->begin) best = {u, begin};
  }
  return *best;
}

void busy_times::take(const slot& at, double seconds) {
  std::vector<span>& all = units_[at.unit];
  const auto next =
      std::upper_bound(all.begin(), all.end(), at.begin, [](double t, const span& s) { return t < s.begin; });
  const auto before = next == all.begin() ? all.end() : next - 1;
  const bool joins = before != all.end() && before->end == at.begin; // one span for what has no gap between
  if (joins)
    before->end = at.begin + seconds;
  else
    all.insert(next, {at.begin, at.begin + seconds});
}

namespace {

double mean_time(const heft_problem::task& t) {
  double sum = 0;
  int possible = 0;
  for (const double s : t.seconds)
    if (s >= 0) {
      sum += s;
      ++possible;
    }
  return possible > 0 ? sum / possible : 0;
}

double mean_copy(const heft_problem::piece& p) {
  return p.copies.empty()
             ? 0
             : std::accumulate(p.copies.begin(), p.copies.end(), 0.0) / static_cast<double>(p.copies.size());
}

// What copies of the data cost that `t` takes over from `from`, in the mean.
double mean_transfer(const std::vector<double>& copies, const heft_problem::task& from, const heft_problem::task& t) {
  double sum = 0;
  for (const heft_problem::use& u : t.uses)
    if (u.reads && std::any_of(from.uses.begin(), from.uses.end(),
                               [&](const heft_problem::use& v) { return v.writes && v.piece == u.piece; }))
      sum += copies[u.piece];
  return sum;
}

std::vector<double> upward_ranks(const heft_problem& p) {
  std::vector<double> copies, rank(p.tasks.size(), 0);
  copies.reserve(p.pieces.size());
  for (const heft_problem::piece& x : p.pieces) copies.push_back(mean_copy(x));
  for (std::size_t n = p.tasks.size(); n-- > 0;) { // what follows it has given it its part already
    rank[n] += mean_time(p.tasks[n]);
    for (const std::uint32_t b : p.tasks[n].before)
      rank[b] = std::max(rank[b], rank[n] + mean_transfer(copies, p.tasks[b], p.tasks[n]));
  }
  return rank;
}

class scheduling {
public:
  explicit scheduling(const heft_problem& p)
      : p_(p), link_free_(p.devices(), 0), there_(p.pieces.size() * p.devices(), nowhere), end_(p.tasks.size(), 0) {
    for (const int n : p.units) busy_.emplace_back(n);
    for (std::size_t x = 0; x < p.pieces.size(); ++x)
      for (std::size_t d = 0; d < p.devices(); ++d)
        if (p.pieces[x].valid >> d & 1) there(x, d) = 0;
  }

  heft_schedule run() {
    heft_schedule s;
    s.rank = upward_ranks(p_);
    s.device.resize(p_.tasks.size());
    std::vector<std::uint32_t> order(p_.tasks.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(),
              [&](std::uint32_t a, std::uint32_t b) { return s.rank[a] != s.rank[b] ? s.rank[a] > s.rank[b] : a < b; });
    for (const std::uint32_t n : order) {
      s.device[n] = static_cast<std::uint8_t>(place(n));
      s.seconds = std::max(s.seconds, end_[n]);
    }
    return s;
  }

private:
  static constexpr double nowhere = std::numeric_limits<double>::infinity();
  double& there(std::size_t piece, std::size_t d) { return there_[piece * p_.devices() + d]; }

  struct arrival {
    double all = 0;       ///< when all data are there
    double link_free = 0; ///< and when the link is
  };
  /// \param each called with each piece that is copied, and when it arrives.
  template <class F> arrival bring(const heft_problem::task& t, std::size_t d, double earliest, F&& each) {
    arrival a{earliest, link_free_[d]};
    for (const heft_problem::use& u : t.uses) {
      if (!u.reads) continue;
      if (there(u.piece, d) != nowhere) {
        a.all = std::max(a.all, there(u.piece, d));
        continue;
      }
      double first = nowhere;
      std::size_t from = 0;
      const std::vector<double>& copies = p_.pieces[u.piece].copies;
      for (std::size_t s = 0; s < p_.devices(); ++s)
        if (s != d && there(u.piece, s) + copies[s * p_.devices() + d] < first) {
          first = there(u.piece, s) + copies[s * p_.devices() + d];
          from = s;
        }
      if (first == nowhere) continue; // it was never written: there is nothing to copy
      const double taken = copies[from * p_.devices() + d];
      a.link_free = std::max({a.link_free, there(u.piece, from), 0.0}) + taken;
      a.all = std::max(a.all, a.link_free);
      each(u.piece, a.link_free);
    }
    return a;
  }

  std::size_t place(std::uint32_t n) {
    const heft_problem::task& t = p_.tasks[n];
    double earliest = 0;
    for (const std::uint32_t b : t.before) earliest = std::max(earliest, end_[b]);
    std::size_t best = 0;
    busy_times::slot best_slot{};
    double least = nowhere;
    for (std::size_t d = 0; d < p_.devices(); ++d) {
      if (t.seconds[d] < 0) continue;
      const arrival a = bring(t, d, earliest, [](std::uint32_t, double) {});
      const busy_times::slot s = busy_[d].find(a.all, t.seconds[d]);
      if (s.begin + t.seconds[d] >= least) continue;
      least = s.begin + t.seconds[d];
      best = d;
      best_slot = s;
    }
    const arrival a = bring(t, best, earliest, [&](std::uint32_t piece, double at) { there(piece, best) = at; });
    link_free_[best] = a.link_free;
    busy_[best].take(best_slot, t.seconds[best]);
    end_[n] = least;
    for (const heft_problem::use& u : t.uses)
      if (u.writes) {
        for (std::size_t d = 0; d < p_.devices(); ++d) there(u.piece, d) = nowhere;
        there(u.piece, best) = least;
      }
    return best;
  }

  const heft_problem& p_;
  std::vector<busy_times> busy_;
  std::vector<double> link_free_;
  std::vector<double> there_; // when a piece is valid on a device
  std::vector<double> end_;
};

} // namespace

heft_schedule make_heft_schedule(const heft_problem& p) { return scheduling(p).run(); }

} // namespace tern::hetero::detail
