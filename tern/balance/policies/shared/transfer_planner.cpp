// SPDX-License-Identifier: Apache-2.0
#include <tern/balance/policies/shared/transfer_planner.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>

namespace tern::balance::detail {
namespace {

// With more objects for each worker all will end evenly whatever happens.
constexpr double many_for_each = 8;
// An object more is shared by all workers as long as they have so many others that these can be
// dealt out anew. Less and less so with fewer: then it makes one worker end later.
constexpr double enough_to_share = 4;

// For a rank that says it takes no time at all: others divide by it.
constexpr double least_pace = 1e-12;
// Less is not worth any move.
constexpr double least_gain = 0.01;

/// Would an object end earlier there? \param t the taker, which already gets what has been chosen.
bool helps(const load_report& giver, const load_report& t, double load) {
  const double alone_here = load * giver.rate * giver.workers, alone_there = load * t.rate * t.workers;
  if (t.idle > 0) return alone_there <= std::max(giver.ends, alone_here);
  return std::max(t.ahead + load * t.rate + disturbs(t, alone_there), alone_there) <=
         std::max({giver.ends, t.ends, alone_here});
}

void give(load_report& giver, load_report& taker, double load) {
  giver.ahead -= load * giver.rate;
  taker.ahead += load * taker.rate;
  taker.ends = std::max(taker.ends + load * taker.rate, load * taker.rate * taker.workers);
  if (taker.idle > 0)
    --taker.idle;
  else
    ++taker.ready;
}

} // namespace

double disturbs(const load_report& s, double takes) {
  if (s.idle > 0) return 0;
  if (s.more >= 0 && s.each > 0) return std::min(s.more / s.each, 1.0) * takes;
  return std::max(0.0, 1 - static_cast<double>(s.ready) / s.workers / enough_to_share) * takes;
}

bool uneven(const load_report& late, const load_report& other, double least) {
  return late.ready > 0 && late.ends - other.ends > std::max({least, late.each / 4, disturbs(other, late.each)});
}

load_report transfer_planner::mine() const {
  const resource late = counting_.critical(), rest = other(late);
  if (std::exchange(seen_, late) != late) {
    changed_ = true;
    each_ = 0;
  }
  load_report s = report(late);
  if (!counting_.counts(rest)) return s;
  const double pace = counting_.pace(rest);
  s.knows_other = pace > 0;
  s.other_workers = static_cast<std::uint32_t>(std::max(counting_.of(rest).workers(), 1));
  s.other_rate = std::max(pace, least_pace) / s.other_workers;
  return s;
}

load_report transfer_planner::report(resource of) const {
  const policy_context& seen = counting_.of(of);
  const double known = counting_.pace(of), pace = known > 0 ? std::max(known, least_pace) : 1;
  const int workers = std::max(seen.workers(), 1);
  load_report s;
  s.of = of;
  s.knows = known > 0 || of == resource::worker;
  s.rate = pace / workers;
  s.ahead = seen.load() * s.rate;
  s.each = each() * pace;
  s.workers = static_cast<std::uint32_t>(workers);
  s.ready = static_cast<std::uint32_t>(std::min<std::size_t>(seen.ready(), UINT32_MAX));
  if (s.ready == 0) {
    const std::vector<double> running = seen.running();
    s.idle = static_cast<std::uint32_t>(std::count(running.begin(), running.end(), 0.0));
  }
  s.ends = s.ready > many_for_each * workers ? s.ahead : look_ahead(s.ahead, of);
  return s;
}

std::vector<double> transfer_planner::waiting_loads(resource of) const {
  std::vector<double> loads;
  for (const object_info& x : counting_.of(of).objects())
    if (x.movable && x.pending > 0) loads.push_back(x.load);
  return loads;
}

// Looking at objects takes time, and ranks are often asked: as long as none has come or gone, the
// end is where it was. A queue that has planned this keeps to its plan, which may be better than
// what can be found with what it has left over.
double transfer_planner::look_ahead(double ahead, resource of) const {
  const std::size_t ready = here_.ready();
  const double waiting = counting_.of(of).waiting();
  const bool more = changed_ || ready > seen_ready_ || waiting > seen_waiting_;
  if (more || ready != seen_ready_ || waiting != seen_waiting_) {
    const double end = here_.now() + deal(waiting_loads(of), of);
    end_at_ = more ? end : std::min(end, end_at_);
    changed_ = false;
    seen_ready_ = ready;
    seen_waiting_ = waiting;
  }
  return std::max(ahead, end_at_ - here_.now());
}

load_report transfer_planner::precisely() const {
  load_report s = mine();
  if (s.each > 0) {
    const double load = s.each / (s.rate * s.workers);
    s.more = std::max(0.0, ends_with(load, load, s.of) - s.ends - s.each / s.workers);
  }
  return s;
}

double transfer_planner::ends_with(double each, double all, resource of) const {
  const load_report s = report(of);
  if (s.ready > many_for_each * s.workers) return s.ahead + all * s.rate;
  std::vector<double> loads = waiting_loads(of);
  const double count = all / each;
  const std::size_t more = count >= 1 && count < 1000 ? static_cast<std::size_t>(std::round(count)) : 1;
  const double load = all / static_cast<double>(more);
  loads.insert(std::upper_bound(loads.begin(), loads.end(), load, std::greater<>()), more, load);
  return deal(loads, of);
}

double transfer_planner::worth_taking(const load_report& giver, const load_report& mine, double most) const {
  if (giver.ready == 0 || most <= 0) return 0;
  if (mine.idle > 0) return most;
  const double each = giver.each / (giver.rate * giver.workers), until = std::max(giver.ends, mine.ends);
  // What is less than half an object cannot be evened out.
  for (int tries = 3; tries > 0 && most >= each / 2; --tries, most /= 2)
    if (ends_with(each, most, giver.of) <= until) return most;
  return 0;
}

// When all will have ended if these are dealt out as the queue "plan" would do it.
double transfer_planner::deal(const std::vector<double>& loads, resource of) const {
  std::vector<double> ends = counting_.of(of).running();
  if (ends.empty()) ends.resize(1);
  scheduler_.deal(loads, ends);
  return *std::max_element(ends.begin(), ends.end()) * counting_.pace(of);
}

double transfer_planner::each() const {
  const std::size_t ready = here_.ready();
  if (ready > 0) {
    const double now = counting_.seen().waiting() / static_cast<double>(ready);
    each_ = each_ > 0 ? each_ + 0.05 * (now - each_) : now;
  }
  return each_;
}

bool transfer_planner::short_of(double limit) const {
  const policy_context& seen = counting_.seen();
  const double slots = limit * std::max(seen.workers(), 1);
  return static_cast<double>(seen.ready()) < slots || seen.waiting() < slots * each();
}

bool transfer_planner::may_go(object_id id, int to) const {
  const history* const h = known(id);
  return !h || (h->left.size() < most_ && std::find(h->left.begin(), h->left.end(), to) == h->left.end());
}

std::vector<object_info> transfer_planner::choose(int to, const load_report& taker, double most) const {
  std::vector<object_info> chosen;
  load_report giver = mine(), t = in_terms_of(taker, giver);
  if (giver.ready == 0) return chosen;
  const double even = evens_out(giver, t);
  if (even <= 0 || most <= 0) {
    choose_remainder(to, giver, t, chosen);
    return chosen;
  }
  double rest = std::min(most, even), room = even;
  std::vector<object_info> fit[2]; // that have not moved lately; that have
  // A rank that has few has made sure that it can take some of usual weight.
  const bool few = t.idle == 0 && t.ready <= enough_to_share * t.workers;
  const double heaviest = few ? 1.25 * giver.each / (giver.rate * giver.workers) : HUGE_VAL;
  for (const object_info& x : counting_.of(giver.of).objects())
    if (x.movable && x.pending > 0 && x.load > 0 && x.load <= heaviest && may_go(x.id, to))
      fit[known(x.id) != nullptr].push_back(x);
  const auto take = [&](const object_info& x) {
    chosen.push_back(x);
    give(giver, t, x.load);
    rest -= x.load;
    room -= x.load;
  };
  // So that all have some of each: large ones can be evened out by small ones alone.
  if (t.each > giver.each)
    for (std::vector<object_info>& of : fit) std::reverse(of.begin(), of.end());
  const std::size_t there = giver.ready;
  for (std::vector<object_info>& of : fit) {
    const auto last = std::remove_if(of.begin(), of.end(), [&](const object_info& x) {
      if (x.load > rest || chosen.size() >= there || !helps(giver, t, x.load)) return false;
      take(x);
      return true;
    });
    of.erase(last, of.end());
  }
  // The lightest that is too much by less than what would be missing, but does not make this rank
  // the poorer one; or any that a worker can begin at once.
  for (const std::vector<object_info>& of : fit) {
    if (chosen.size() >= there) break;
    auto x = of.end();
    for (auto o = of.begin(); o != of.end(); ++o)
      if (o->load > rest && (x == of.end() || o->load < x->load)) x = o;
    if (x == of.end()) continue;
    const bool little = x->load < 2 * rest && x->load <= room, begins = chosen.empty() && t.idle > 0;
    if ((!little && !begins) || !helps(giver, t, x->load)) continue;
    take(*x);
    break;
  }
  if (chosen.empty()) choose_remainder(to, giver, t, chosen);
  return chosen;
}

// The loads are even, but some workers here will end late because what they have cannot be divided
// any better. Without some of the heaviest it can; what then is missing will come from elsewhere,
// in lighter ones.
void transfer_planner::choose_remainder(int to, const load_report& giver, load_report taker,
                                        std::vector<object_info>& chosen) const {
  if (!uneven(giver, taker, least_gain * giver.ahead)) return;
  std::vector<object_info> waiting = counting_.of(giver.of).objects();
  std::erase_if(waiting, [](const object_info& x) { return !x.movable || x.pending == 0; });
  std::vector<double> loads;
  for (const object_info& x : waiting) loads.push_back(x.load);
  const std::size_t most = std::min<std::size_t>(loads.size(), giver.workers);
  std::size_t best = 0;
  double best_end = giver.ends;
  for (std::size_t k = 1; k <= most; k += 1 + k / 4) {
    const double end =
        std::max(giver.ahead, deal({loads.begin() + static_cast<std::ptrdiff_t>(k), loads.end()}, giver.of));
    // Many more moves for a little less.
    if (end >= best_end - least_gain * giver.ahead) continue;
    best = k;
    best_end = end;
  }
  // Others may take what is left, so this one gets no more than lets it end before this rank will.
  load_report left = giver;
  const double until = (std::max(taker.ends, best_end) + giver.ends) / 2;
  for (const object_info& x : waiting) {
    if (chosen.size() >= best) return;
    const double alone = x.load * taker.rate * taker.workers;
    const double end = std::max(taker.ends + x.load * taker.rate + disturbs(taker, alone), alone);
    if (!may_go(x.id, to) || end > until) continue;
    give(left, taker, x.load);
    taker.ends = std::max(taker.ends, end);
    chosen.push_back(x);
  }
}

announced transfer_planner::announce(const std::vector<object_info>& objects) const {
  announced all;
  for (const object_info& x : objects) {
    const history* const h = known(x.id);
    all.objects.push_back({x.id, h ? h->left : std::vector<std::int32_t>{}});
    all.objects.back().left.push_back(here_.rank());
  }
  return all;
}

void transfer_planner::move(const std::vector<object_info>& objects, int to, std::uint32_t number,
                            std::function<void(const settled&)> then) {
  struct state {
    settled so_far;
    double load = 0;
    std::size_t left;
    std::function<void(const settled&)> then;
  };
  const auto all = std::make_shared<state>();
  all->so_far.number = number;
  all->left = objects.size();
  all->then = std::move(then);
  const auto end = [this](state& s) {
    s.so_far.giver = mine();
    s.then(s.so_far);
  };
  if (objects.empty()) return end(*all);
  here_.note("gives", static_cast<double>(objects.size()));
  changed_ = true;
  for (const object_info& x : objects) {
    here_.move(x.id, to, [this, all, end, id = x.id, load = x.load](bool arrived) {
      if (arrived) {
        ++all->so_far.moved;
        all->load += load;
        came_.erase(id);
      } else {
        ++all->so_far.failed;
        // It will not go next time either, most likely.
        came_[id] = {std::vector<std::int32_t>(most_, here_.rank()), here_.now() + hold_};
      }
      if (--all->left > 0) return;
      here_.note("given load", all->load);
      if (all->so_far.failed > 0) here_.note("failed moves", all->so_far.failed);
      end(*all);
    });
  }
}

void transfer_planner::coming(const announced& what) {
  const double until = here_.now() + hold_;
  changed_ = true;
  for (const migrating_object& t : what.objects) came_[t.id] = {t.left, until};
  if (came_.size() > sweep_at_) sweep();
}

void transfer_planner::forget() {
  came_.clear();
  changed_ = true;
}

const transfer_planner::history* transfer_planner::known(object_id id) const {
  const auto found = came_.find(id);
  return found == came_.end() || found->second.until < here_.now() ? nullptr : &found->second;
}

void transfer_planner::sweep() {
  std::erase_if(came_, [&](const auto& x) { return x.second.until < here_.now(); });
  sweep_at_ = std::max<std::size_t>(64, 2 * came_.size());
}

} // namespace tern::balance::detail
