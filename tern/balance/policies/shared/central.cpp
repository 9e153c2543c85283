// SPDX-License-Identifier: Apache-2.0
/// \file
/// Reports to rank 0, and orders from there.
#include <tern/balance/policies/shared/central.hpp>

#include <algorithm>
#include <numeric>
#include <string>

#include <tern/balance/policies/shared/curve_order.hpp>
#include <tern/base/error.hpp>

namespace tern::balance::detail {
namespace {

/// Dealing out more objects takes milliseconds, in which the policy could take no messages.
constexpr std::size_t most_at_once = 4096;

template <class T> void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

void append(talk_report& to, const talk_report& from) {
  append(to.ids, from.ids);
  append(to.cost, from.cost);
  append(to.stays, from.stays);
  append(to.contacts, from.contacts);
  append(to.with, from.with);
  append(to.bytes, from.bytes);
  append(to.messages, from.messages);
}

central_report merge(std::vector<std::optional<central_report>>& parts) {
  central_report all = std::move(*parts[0]);
  auto& [workers, devices] = all.of;
  std::size_t loads = 0, ranks = 0;
  bool any_devices = false;
  for (const auto& part : parts) {
    ranks += part->ranks.size();
    loads += part->of[0].loads.size();
    any_devices = any_devices || !part->of[1].loads.empty();
  }
  all.ranks.reserve(ranks);
  workers.loads.reserve(loads);
  if (any_devices) devices.loads.resize(workers.loads.size());
  for (std::size_t i = 1; i < parts.size(); ++i) {
    append(all.ranks, parts[i]->ranks);
    append(workers.loads, parts[i]->of[0].loads);
    append(workers.fixed, parts[i]->of[0].fixed);
    append(devices.loads, parts[i]->of[1].loads);
    append(devices.fixed, parts[i]->of[1].fixed);
    if (any_devices) devices.loads.resize(workers.loads.size());
    append(all.along, parts[i]->along);
    append(all.talk, parts[i]->talk);
    parts[i].reset();
  }
  return all;
}

} // namespace

central_policy::central_policy(policy_context& h, parameters& p, counted by) : round_policy(h, p, by) {
  on(&central_policy::take_report);
  on(&central_policy::take_orders);
}

void central_policy::begin() {
  reports_.begin(tree());
  // Within a phase it is too late to bring objects together: it is for the next phases that this is
  // worth its while.
  const bool with_talk = wants_contacts() && !within_phase();
  movable_work work = look(with_talk);
  central_report own{number(), {}, {}, {}, {}};
  own_ = work.states;
  own.ranks.push_back(
      {own_,
       here.rank(),
       static_cast<std::uint32_t>(work.objects.size()),
       {static_cast<std::uint32_t>(work.fixed[0].size()), static_cast<std::uint32_t>(work.fixed[1].size())}});
  for (std::size_t r = 0; r < work.fixed.size(); ++r) own.of[r].fixed = std::move(work.fixed[r]);
  reported_.clear();
  for (std::vector<float>& loads : reported_load_) loads.clear();
  for (const object_info& x : work.objects) {
    reported_.push_back(x.id);
    reported_load_[0].push_back(static_cast<float>(x.load));
    reported_load_[1].push_back(static_cast<float>(x.device));
    if (wants_positions()) own.along.push_back(position_of(x.id));
  }
  own.of[0].loads = reported_load_[0];
  if (std::any_of(reported_load_[1].begin(), reported_load_[1].end(), [](float load) { return load > 0; }))
    own.of[1].loads = reported_load_[1];
  if (with_talk) describe_talk(work.objects, own.talk);
  take_report(here.rank(), own);
}

// Elements' places on the curve; then all else by home and number.
std::uint64_t central_policy::position_of(object_id object) const {
  if (const auto place = here.element(object)) return curve_position(*place);
  return std::uint64_t{1} << 63 | object.bits >> 1;
}

void central_policy::describe_talk(const std::vector<object_info>& objects, talk_report& talk) const {
  for (const object_info& x : objects) {
    talk.ids.push_back(x.id.bits);
    talk.cost.push_back(static_cast<float>(here.cost(x.id)));
    talk.stays.push_back(x.movable ? 0 : 1);
    const std::vector<contact> contacts = here.contacts(x.id);
    talk.contacts.push_back(static_cast<std::uint32_t>(contacts.size()));
    for (const contact& c : contacts) {
      talk.with.push_back(c.with.bits);
      talk.bytes.push_back(static_cast<float>(c.bytes));
      talk.messages.push_back(static_cast<float>(c.messages));
    }
  }
}

void central_policy::take_report(int from, const central_report& m) {
  if (m.number != number()) return;
  if (!reports_.add(from == here.rank() ? 0 : tree().place_of(from), m)) return;
  if (root()) return solve(reports_.parts());
  send(tree().parent, merge(reports_.parts()));
}

void central_policy::solve(std::vector<std::optional<central_report>>& parts) {
  central_report all = merge(parts);
  if (all.ranks.size() != static_cast<std::size_t>(here.size()))
    throw error(errc::invalid_data,
                "a round has reports of " + std::to_string(all.ranks.size()) + " ranks instead of " +
                    std::to_string(here.size()),
                "give all ranks the same options");
  const std::size_t reports = all.of[0].loads.size(); // of objects
  auto s = std::make_shared<solution>();
  s->number = number();
  s->known = {here.random(std::uint64_t{1} << 62), caution()};
  set_up(*s, all, resource::worker);
  set_up(*s, all, resource::device);
  s->talk = std::move(all.talk);
  if (reports <= most_at_once) {
    find(*s);
    return tell(*s);
  }
  here.fiber([this, s] {
    find(*s);
    here.enter([this, s] { tell(*s); });
  });
}

// Without objects if the resource has nothing to do.
void central_policy::set_up(solution& s, const central_report& all, resource of) {
  const auto which = static_cast<std::size_t>(of);
  assignment_problem& p = s.problems[which];
  const resource_report& given = all.of[which];
  double speed = 0, workers = 0;
  for (const central_rank& r : all.ranks) {
    if (r.states[which].speed <= 0) continue;
    speed += r.states[which].speed;
    workers += r.states[which].workers;
  }
  p.first.push_back(0);
  p.first_fixed.push_back(0);
  for (const central_rank& r : all.ranks) {
    rank_state state = r.states[which];
    guess_speed(state, speed, workers);
    p.fixed.push_back(state.fixed);
    p.speed.push_back(state.speed);
    p.workers.push_back(state.workers);
    p.first.push_back(p.first.back() + (given.loads.empty() ? 0 : r.objects));
    p.first_fixed.push_back(p.first_fixed.back() + r.fixed_parts[which]);
  }
  p.load = given.loads;
  p.fixed_parts = given.fixed;
  p.along = all.along;
}

namespace {

double last_end_of(const assignment_problem& p, std::span<const std::int32_t> where) {
  const std::vector<double> ends = ends_of(p, where);
  return *std::max_element(ends.begin(), ends.end());
}

/// Is there anything that can be evened out?
bool has_work(const assignment_problem& p) {
  return !p.load.empty() && std::any_of(p.speed.begin(), p.speed.end(), [](double speed) { return speed > 0; });
}

} // namespace

// Looks at nothing that changes.
void central_policy::find(solution& s) const {
  const auto& [workers, devices] = s.problems;
  const bool both = has_work(devices);
  double before = 0;
  if (both) {
    const double first = last_end_of(workers, workers.now()), second = last_end_of(devices, devices.now());
    before = std::max(first, second);
    if (second > first) s.by = resource::device;
  }
  const assignment_problem& p = s.problem();
  s.level = level_of(p);
  s.grain = grain_of(p);
  if (!(s.grain > 0)) return;
  s.is = decide(p, s.talk, s.known);
  if (!both || !(s.is.gain > 0)) return;
  const double sooner = before - std::max(last_end_of(workers, s.is.where), last_end_of(devices, s.is.where));
  s.is.gain = sooner > least_gain(s.level, s.grain, s.known.caution) ? std::min(s.is.gain, sooner) : 0;
}

central_policy::decision central_policy::judge(const assignment_problem& p, std::vector<std::int32_t> where,
                                               const hints& h) const {
  const std::vector<double> before = ends_of(p, p.now()), after = ends_of(p, where);
  const double sooner = *std::max_element(before.begin(), before.end()) - *std::max_element(after.begin(), after.end());
  return {std::move(where), sooner > least_gain(level_of(p), grain_of(p), h.caution) ? sooner : 0};
}

void central_policy::tell(const solution& s) {
  if (s.number != number()) return;
  central_orders orders{s.number, s.level, s.grain, false, s.by, {}};
  if (s.is.gain > 0) {
    const std::vector<std::uint32_t>& first = s.problem().first;
    for (std::int32_t r = 0; r < here.size(); ++r)
      for (std::uint32_t i = first[static_cast<std::size_t>(r)]; i < first[static_cast<std::size_t>(r) + 1]; ++i)
        if (s.is.where[i] != r) orders.orders.push_back({r, i - first[static_cast<std::size_t>(r)], s.is.where[i]});
  }
  orders.any = !orders.orders.empty();
  gains(s.is.gain);
  here.note("round level", s.level);
  here.note("round moves", static_cast<double>(orders.orders.size()));
  take_orders(0, orders);
}

void central_policy::take_orders(int from, const central_orders& m) {
  if (m.number != number() || from != std::max(tree().parent, 0)) return;
  const auto before = [](const central_order& o, int rank) { return o.from < rank; };
  for (const branch& b : tree().children) {
    const auto first = std::lower_bound(m.orders.begin(), m.orders.end(), b.first, before);
    const auto last = std::lower_bound(first, m.orders.end(), b.last, before);
    send(b.first, central_orders{m.number, m.level, m.grain, m.any, m.by, {first, last}});
  }
  const auto mine = std::lower_bound(m.orders.begin(), m.orders.end(), here.rank(), before);
  const auto end = std::lower_bound(mine, m.orders.end(), here.rank() + 1, before);
  by_ = m.by;
  const rank_state& own = own_[static_cast<std::size_t>(by_)];
  const std::vector<float>& loads = reported_load_[static_cast<std::size_t>(by_)];
  double load = own.fixed + std::accumulate(loads.begin(), loads.end(), 0.0);
  for (auto o = mine; o != end; ++o) {
    if (o->index >= reported_.size() || o->to < 0 || o->to >= here.size())
      throw error(errc::invalid_data, "rank " + std::to_string(here.rank()) + " is to move what it has not got",
                  "give all ranks the same option balance");
    load -= loads[o->index];
  }
  expect(m.level, own.speed > 0 ? load / own.speed : m.level, m.grain);
  if (m.any)
    carry_out({mine, end});
  else if (root())
    close_unchanged();
}

void central_policy::carry_out(std::span<const central_order> orders) {
  moved_ = failed_ = 0;
  moves_left_ = static_cast<std::uint32_t>(orders.size());
  if (orders.empty()) return ended(0, 0);
  std::vector<departure> leaving;
  std::vector<object_id> free = reported_;
  for (const central_order& o : orders) {
    leaving.push_back({reported_[o.index], reported_load_[static_cast<std::size_t>(by_)][o.index], o.to});
    free[o.index] = object_id();
  }
  std::sort(free.begin(), free.end());
  replace_begun(leaving, free, by_);
  for (const departure& d : leaving)
    here.move(d.id, d.to, [this, of = number()](bool arrived) {
      if (of != number()) return; // that round was given up
      ++(arrived ? moved_ : failed_);
      if (--moves_left_ == 0) ended(moved_, failed_);
    });
}

} // namespace tern::balance::detail
