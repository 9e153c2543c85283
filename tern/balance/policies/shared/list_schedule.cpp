// SPDX-License-Identifier: Apache-2.0
#include <tern/balance/policies/shared/list_schedule.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tern::balance::detail {
namespace {

// Of the workers that end early, the fullest one looks at so many before it gives up: the others
// are hardly emptier than it.
constexpr std::size_t most_partners = 8;

struct earlier {
  std::span<const double> ends;
  bool operator()(int a, int b) const noexcept {
    const double x = ends[static_cast<std::size_t>(a)], y = ends[static_cast<std::size_t>(b)];
    return x != y ? x < y : a < b;
  }
};

} // namespace

std::span<const int> lpt_scheduler::deal(std::span<const double> loads, std::span<double> ends) {
  worker_.assign(loads.size(), 0);
  if (lists_.size() < ends.size()) lists_.resize(ends.size());
  for (std::vector<std::size_t>& list : lists_) list.clear();
  first_come(loads, ends);
  std::iota(by_end_.begin(), by_end_.end(), 0);
  std::sort(by_end_.begin(), by_end_.end(), earlier{ends});
  const double mean = std::accumulate(ends.begin(), ends.end(), 0.0) / static_cast<double>(ends.size());
  for (std::size_t rounds = 8 * ends.size(); rounds > 0; --rounds)
    if (!improve(loads, ends, 0.001 * mean)) break;
  return worker_;
}

// Each to the worker that is free first; equal ones to that of the lower number.
void lpt_scheduler::first_come(std::span<const double> loads, std::span<double> ends) {
  const auto later = [before = earlier{ends}](int a, int b) { return before(b, a); };
  by_end_.resize(ends.size());
  std::iota(by_end_.begin(), by_end_.end(), 0);
  std::make_heap(by_end_.begin(), by_end_.end(), later);
  for (std::size_t i = 0; i < loads.size(); ++i) {
    std::pop_heap(by_end_.begin(), by_end_.end(), later);
    const int w = by_end_.back();
    worker_[i] = w;
    lists_[static_cast<std::size_t>(w)].push_back(i);
    ends[static_cast<std::size_t>(w)] += loads[i];
    std::push_heap(by_end_.begin(), by_end_.end(), later);
  }
}

// One exchange that lets the last worker end earlier. \param enough a gap that is not worth
// closing.
// \return false if there is none.
bool lpt_scheduler::improve(std::span<const double> loads, std::span<double> ends, double enough) {
  const auto at = [&](int w) { return ends[static_cast<std::size_t>(w)]; };
  const std::size_t partners = std::min(most_partners, by_end_.size() - 1);
  const int full = by_end_.back();
  exchange found;
  int with = -1;
  for (std::size_t p = 0; p < partners; ++p) {
    const double gap = at(full) - at(by_end_[p]);
    if (gap <= enough || gap / 2 <= found.gain) break; // nor are the next ones any emptier
    const exchange x = best(loads, full, by_end_[p], gap);
    if (x.gain <= found.gain) continue;
    found = x;
    with = by_end_[p];
    if (found.gain > gap / 4) break; // near enough to what is best, gap / 2
  }
  // An exchange that gains next to nothing would be followed by a thousand more.
  if (with < 0 || found.gain < enough / 100) return false;
  swap(loads, ends, full, with, found);
  return true;
}

// The pair with the difference nearest to half of the gap, or the one load.
lpt_scheduler::exchange lpt_scheduler::best(std::span<const double> loads, int full, int other, double gap) const {
  const auto& from = lists_[static_cast<std::size_t>(full)];
  const auto& to = lists_[static_cast<std::size_t>(other)];
  exchange found;
  const auto look = [&](std::size_t a, std::size_t b) {
    const double d = loads[from[a]] - (b < to.size() ? loads[to[b]] : 0);
    const double gain = std::min(d, gap - d);
    if (gain > found.gain) found = {gain, a, b};
  };
  // Both lists fall: so does what would fit as `b` while `a` goes on.
  std::size_t b = 0;
  for (std::size_t a = 0; a < from.size(); ++a) {
    const double fits = loads[from[a]] - gap / 2;
    while (b < to.size() && loads[to[b]] > fits) ++b;
    if (b > 0) look(a, b - 1);
    look(a, b);
  }
  return found;
}

void lpt_scheduler::swap(std::span<const double> loads, std::span<double> ends, int full, int other,
                         const exchange& x) {
  auto& from = lists_[static_cast<std::size_t>(full)];
  auto& to = lists_[static_cast<std::size_t>(other)];
  const auto pass = [&](std::vector<std::size_t>& a, std::size_t place, std::vector<std::size_t>& b, int whose) {
    const std::size_t load = a[place];
    a.erase(a.begin() + static_cast<std::ptrdiff_t>(place));
    b.insert(std::lower_bound(b.begin(), b.end(), load), load); // loads are numbered by weight
    worker_[load] = whose;
    return loads[load];
  };
  const bool back = x.to < to.size();
  const std::size_t returns = back ? to[x.to] : 0;
  double d = pass(from, x.from, to, other);
  if (back)
    d -= pass(to, static_cast<std::size_t>(std::lower_bound(to.begin(), to.end(), returns) - to.begin()), from, full);
  ends[static_cast<std::size_t>(full)] -= d;
  ends[static_cast<std::size_t>(other)] += d;
  // All but these two stand right: each takes a step or two.
  const auto place = [&](int w) { return std::find(by_end_.begin(), by_end_.end(), w); };
  const earlier before{ends};
  for (auto at = place(full); at != by_end_.begin() && before(*at, *std::prev(at)); --at)
    std::iter_swap(at, std::prev(at));
  for (auto at = place(other); std::next(at) != by_end_.end() && before(*std::next(at), *at); ++at)
    std::iter_swap(at, std::next(at));
}

} // namespace tern::balance::detail
