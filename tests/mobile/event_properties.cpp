// SPDX-License-Identifier: Apache-2.0
// What events promise, against a plain model: each round fires once, after all of its signals, with
// the values that were taken, in the order of the numbers; while objects move and go to disk, and
// signals are early, late, doubled, or lost for a while.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <tern/mobile/event.hpp>
#include <tern/mobile/together.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/epoch.hpp>
#include <tern/net/job/settings.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>

#include "property.hpp"
#include "travellers.hpp"

namespace event_properties {

using namespace tern::property;
using tern::event;
using tern::rank;
using tern::size;
using tern::property::travellers::any_rank;
using tern::property::travellers::text;

// The model ----------------------------------------------------------------------------------------------------------

struct signal_state {
  bool sent = false;   // a rank is about to give it, or has
  int taken_from = -1; // as far as its givers know
};
using place = std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>; // target, number, round
struct model {
  std::map<place, std::vector<signal_state>> rounds;
  std::map<place, int> fired;
  std::vector<event> events; // in their first round
  std::vector<std::int64_t> last_round;
  std::int64_t made = 0, dropped = 0, bare = 0;
  double failures = 0;
};
per_case<model> all;

place place_of(const event& e) { return {e.target().bits, e.number(), e.round()}; }
std::string text_of(const event& e) {
  return "round " + text(e.round()) + " of event " + text(e.number()) + " of object " +
         tern::mobile::to_string(e.target());
}
std::string value_of(const event& e, std::int64_t i, int from) {
  return text(e.number()) + "/" + text(e.round()) + "/" + text(i) + "/" + text(from);
}
bool brings_value(const event& e, std::int64_t i) { return (i + e.round() + e.number()) % 2 == 0; }

class target {
public:
  target() { ++all->made; }
  target(const target&) = delete;
  target& operator=(const target&) = delete;
  ~target() { ++all->dropped; }
  template <class A> void save(A& ar) const {
    if (rolls().chance(all->failures)) throw tern::error(tern::errc::io, "packing fails by chance");
    ar(fired_);
  }
  template <class A> void load(A& ar) {
    if (rolls().chance(all->failures)) throw tern::error(tern::errc::io, "unpacking fails by chance");
    ar(fired_);
    take_time();
  }

  void go(const tern::signals& in) {
    const event& e = in.of();
    const auto& round = all->rounds[place_of(e)];
    TERN_HOLDS(in.size() == round.size(), text_of(e) + " fired with " + text(static_cast<std::int64_t>(in.size())));
    TERN_HOLDS(++all->fired[place_of(e)] == 1, text_of(e) + " fired twice");
    for (std::uint32_t before = 0; before < e.round(); ++before)
      TERN_HOLDS((all->fired[{e.target().bits, e.number(), before}]) == 1,
                 text_of(e) + " fired before round " + text(before));
    for (std::size_t i = 0; i < in.size(); ++i) {
      const auto n = static_cast<std::int64_t>(i);
      TERN_HOLDS(round[i].sent, text_of(e) + " fired before signal " + text(n) + " was given");
      TERN_HOLDS(round[i].taken_from < 0 || round[i].taken_from == in.rank(i),
                 "signal " + text(n) + " of " + text_of(e) + " is another than the one that was taken");
      TERN_HOLDS(in.has_value(i) == brings_value(e, n) &&
                     (!in.has_value(i) || in.get<std::string>(i) == value_of(e, n, in.rank(i))),
                 "signal " + text(n) + " of " + text_of(e) + " has another value than was given");
    }
    ++fired_;
    if (rolls().chance(0.3)) take_time();
    if (e.round() < last_of(e)) tern::rearm(e);
  }
  void bare() { ++all->bare; }
  std::int64_t fired() const { return fired_; }

private:
  static std::int64_t last_of(const event& e) {
    for (std::size_t n = 0; n < all->events.size(); ++n)
      if (all->events[n].target() == e.target() && all->events[n].number() == e.number()) return all->last_round[n];
    return 0;
  }
  std::int64_t fired_ = 0;
};

/// \return whether it was taken.
bool give(const event& e, std::int64_t i, bool known) {
  signal_state& s = all->rounds[place_of(e)][static_cast<std::size_t>(i)];
  s.sent = true;
  const std::string value = value_of(e, i, rank());
  if (!known && rolls().chance(0.5)) {
    if (brings_value(e, i))
      tern::signal(e, i, value);
    else
      tern::signal(e, i);
    return true;
  }
  try {
    if (brings_value(e, i))
      tern::call_signal(e, i, value).get();
    else
      tern::call_signal(e, i).get();
  } catch (const tern::error& x) {
    TERN_HOLDS(x.code() == tern::errc::already_exists, std::string("unexpected: ") + x.what());
    return false;
  }
  all->rounds[place_of(e)][static_cast<std::size_t>(i)].taken_from = rank();
  return true;
}

TERN_PROPERTY(events_fire_once_with_all_signals,
              "ranks=1..8 workers=1..3 faults=delay:reorder:slow:pause network=any room=0..8 aggregate=0..2 "
              "known=0..100 objects=1..4 events=1..6 signals=1..7 rounds=1..4 moves=0..8 debug=0..3 memory=0..3 "
              "failing=0..3") {
  std::vector<tern::mobile_ptr<target>> objects;
  auto plan = common();
  for (std::int64_t n = 0; n < knob("objects"); ++n) {
    const int home = static_cast<int>(plan.below(size()));
    objects.push_back(tern::broadcast(rank() == home ? tern::create<target>() : tern::mobile_ptr<target>(), home));
  }
  if (rank() == 0) {
    if (knob("debug") == 0 && knob("memory") == 0) all->failures = 0.1 * static_cast<double>(knob("failing"));
    afterwards([](const ending&) {
      TERN_HOLDS(all->made == all->dropped,
                 text(all->made) + " copies were made and " + text(all->dropped) + " destroyed");
    });
  }
  for (std::int64_t n = 0; n < knob("events"); ++n) {
    const auto of = objects[static_cast<std::size_t>(plan.below(knob("objects")))];
    const int maker = static_cast<int>(plan.below(size()));
    const std::int64_t signals = plan.between(1, knob("signals")), rounds = plan.between(1, knob("rounds"));
    if (rank() == maker) {
      event e = tern::make_event<&target::go>(of, signals);
      all->events.push_back(e);
      all->last_round.push_back(rounds - 1);
      for (std::int64_t r = 0; r < rounds; ++r, e = e.next_round())
        all->rounds[place_of(e)].resize(static_cast<std::size_t>(signals));
    }
    tern::barrier();
  }
  const auto bare = tern::broadcast(rank() == 0 ? tern::make_event<&target::bare>(objects[0], size()) : event());

  // Who gives what: as all ranks have drawn it.
  struct job {
    event of;
    std::int64_t index;
    bool late, twice;
  };
  std::vector<job> mine, late;
  std::int64_t lost = 0;
  for (std::size_t n = 0; n < all->events.size(); ++n) {
    event e = all->events[n];
    for (std::int64_t r = 0; r <= all->last_round[n]; ++r, e = e.next_round())
      for (std::int64_t i = 0; i < e.size(); ++i) {
        const int giver = static_cast<int>(plan.below(size())), other = static_cast<int>(plan.below(size()));
        const bool is_late = plan.chance(0.1), twice = plan.chance(0.1);
        lost += is_late;
        if (giver == rank()) (is_late ? late : mine).push_back({e, i, is_late, twice});
        if (twice && other != giver && other == rank() && !is_late) mine.push_back({e, i, false, true});
      }
  }
  for (std::size_t n = mine.size(); n > 1; --n)
    std::swap(mine[n - 1], mine[static_cast<std::size_t>(rolls().below(static_cast<std::int64_t>(n)))]);

  std::vector<tern::future<void>> open;
  const auto disturb = [&] {
    if (rolls().chance(0.3)) take_time();
    const auto& o = objects[static_cast<std::size_t>(rolls().below(knob("objects")))];
    if (rolls().chance(0.08 * static_cast<double>(knob("moves")))) open.push_back(tern::migrate(o, any_rank()));
    if (all->failures == 0 && rolls().chance(0.05)) open.push_back(tern::swap_out(o)); // else it could not come back
  };
  std::vector<tern::future<void>> epochs;
  const auto do_all = [&](const std::vector<job>& jobs) {
    for (const job& one : jobs) {
      disturb();
      if (!one.twice && one.index == 0 && rolls().chance(0.3)) { // an epoch that is over when the event has fired
        epochs.push_back(tern::async([one] {
          tern::finish([&] { give(one.of, one.index, false); });
          TERN_HOLDS((all->fired[place_of(one.of)]) == 1, "an epoch was over before " + text_of(one.of) + " had fired");
        }));
        continue;
      }
      if (!one.twice) {
        TERN_HOLDS(give(one.of, one.index, false), "a signal was refused that had not been given");
      } else if (give(one.of, one.index, true) && rolls().chance(0.5)) {
        TERN_HOLDS(!give(one.of, one.index, true),
                   "signal " + text(one.index) + " of " + text_of(one.of) + " was taken twice");
      }
    }
  };
  do_all(mine);
  tern::signal(bare, rank());
  tern::barrier();
  if (lost > 0) {
    for (int i = 0; i < 5; ++i) disturb();
    for (const auto& one : late)
      TERN_HOLDS((all->fired[place_of(one.of)]) == 0, text_of(one.of) + " fired without signal " + text(one.index));
    tern::barrier();
    do_all(late);
  }
  for (auto& one : open) {
    try {
      one.get();
    } catch (const tern::error& x) {
      TERN_HOLDS(x.code() == tern::errc::io, std::string("unexpected: ") + x.what());
    }
  }
  for (auto& one : epochs) one.get();
  tern::quiesce();
  for (const auto& [at, signals] : all->rounds)
    TERN_HOLDS(all->fired[at] == 1, "quiesce returned, and round " + text(std::get<2>(at)) + " of event " +
                                        text(std::get<1>(at)) + " has fired " + text(all->fired[at]) + " times");
  TERN_HOLDS(all->bare == 1, "an event without a look at its signals has fired " + text(all->bare) + " times");
  tern::barrier();
  if (rank() == 0) {
    std::int64_t fired = 0;
    for (const auto& o : objects) fired += tern::call<&target::fired>(o).get();
    TERN_HOLDS(fired == static_cast<std::int64_t>(all->rounds.size()), "an object has lost what it counted");
    for (const auto& o : objects) tern::destroy(o).get();
    for (const event& e : all->events) {
      try {
        tern::call_signal(e, 0).get();
      } catch (const tern::error& x) {
        TERN_HOLDS(x.code() == tern::errc::not_found, std::string("unexpected: ") + x.what());
        continue;
      }
      TERN_HOLDS(false, "a signal was taken by an object that is gone");
    }
  }
  tern::barrier();
}

// Objects that end with signals that wait: nothing waits for those.
TERN_PROPERTY(signals_end_with_their_target, "ranks=1..6 workers=1..3 faults=delay:reorder:slow:pause network=any "
                                             "known=0..100 signals=2..7 moves=0..4 debug=0..3 memory=0..3") {
  const int home = static_cast<int>(common().below(size()));
  const auto o = tern::broadcast(rank() == home ? tern::create<target>() : tern::mobile_ptr<target>(), home);
  const event e =
      tern::broadcast(rank() == 0 ? tern::make_event<&target::bare>(o, knob("signals") * size() + 1) : event());
  tern::finish([&] {
    for (std::int64_t i = 0; i < knob("signals"); ++i) {
      if (rolls().chance(0.1 * static_cast<double>(knob("moves")))) {
        try {
          tern::migrate(o, any_rank()).get();
        } catch (const tern::error& x) {
          TERN_HOLDS(x.code() == tern::errc::not_found, std::string("unexpected: ") + x.what());
        }
      }
      try {
        tern::call_signal(e, knob("signals") * rank() + i, text(i)).get();
      } catch (const tern::error& x) {
        TERN_HOLDS(x.code() == tern::errc::not_found, std::string("unexpected: ") + x.what());
      }
      if (rank() == size() - 1 && i == knob("signals") / 2) tern::destroy(o).get();
    }
  });
  tern::quiesce();
  TERN_HOLDS(all->bare == 0, "an event fired without its last signal");
}

// With objects -------------------------------------------------------------------------------------------------------

// Objects that end, or cannot be packed: then the function does not run, and the job goes on.
const option_knob deaths_knob{"deaths", [](tern::options& of, std::int64_t value) {
                                if (value > 0) of.set(tern::net::unhandled_option, "report");
                              }};

struct guest_state {
  std::int64_t value = 0;
  int inside = 0; // functions and invocations that have it alone
  bool dying = false;
};
struct meeting {
  std::vector<std::int64_t> brought; // by number: an object, or -1
  std::int64_t main = 0;
  int ran = 0;
  bool over = false;
};
struct guest_model {
  std::vector<guest_state> guests;
  std::map<place, meeting> meetings;
  std::vector<std::pair<event, std::int64_t>> events; // with their last rounds
  double failures = 0;
};
per_case<guest_model> party;

class guest {
public:
  guest() = default;
  explicit guest(std::int64_t number) : number_(number) {}
  template <class A> void save(A& ar) const {
    TERN_HOLDS(state().inside == 0, "object " + text(number_) + " was packed while a function was inside");
    if (rolls().chance(party->failures)) throw tern::error(tern::errc::io, "packing fails by chance");
    ar(number_, value_);
  }
  template <class A> void load(A& ar) {
    if (rolls().chance(party->failures)) throw tern::error(tern::errc::io, "unpacking fails by chance");
    ar(number_, value_);
    take_time();
  }
  std::int64_t number() const { return number_; }
  void enter() {
    TERN_HOLDS(state().inside++ == 0, "a function has object " + text(number_) + " beside another");
    TERN_HOLDS(value_ == state().value, "object " + text(number_) + " has lost what was done to it");
  }
  void leave() { --state().inside; }
  void add() {
    ++value_;
    ++state().value;
  }
  void note() {
    enter();
    add();
    if (rolls().chance(0.2)) take_time();
    leave();
  }

  void meet(std::span<guest* const> brought, const tern::signals& in) {
    const event& e = in.of();
    meeting& m = party->meetings[place_of(e)];
    TERN_HOLDS(++m.ran == 1, text_of(e) + " fired twice");
    TERN_HOLDS(m.main == number_, text_of(e) + " fired at another object");
    for (std::uint32_t before = 0; before < e.round(); ++before)
      TERN_HOLDS((party->meetings[{e.target().bits, e.number(), before}].over),
                 text_of(e) + " fired when the function of round " + text(before) + " was not over");
    TERN_HOLDS(brought.size() == m.brought.size(), text_of(e) + " has other numbers");
    std::vector<guest*> alone{this};
    for (std::size_t i = 0; i < brought.size(); ++i) {
      TERN_HOLDS((brought[i] ? brought[i]->number_ : -1) == m.brought[i],
                 "signal " + text(static_cast<std::int64_t>(i)) + " of " + text_of(e) + " has brought another object");
      if (brought[i] && std::find(alone.begin(), alone.end(), brought[i]) == alone.end()) alone.push_back(brought[i]);
    }
    for (guest* const g : alone) g->enter();
    for (guest* const g : alone) g->add();
    if (rolls().chance(0.5)) take_time();
    for (guest* const g : alone) g->leave();
    const auto of = std::find_if(party->events.begin(), party->events.end(), [&](const auto& one) {
      return one.first.target() == e.target() && one.first.number() == e.number();
    });
    if (e.round() < of->second) tern::rearm(e);
    if (rolls().chance(0.3)) take_time();
    m.over = true;
  }

private:
  guest_state& state() const { return party->guests[static_cast<std::size_t>(number_)]; }
  std::int64_t number_ = 0, value_ = 0;
};

TERN_PROPERTY(events_have_the_objects_of_their_signals,
              "ranks=1..8 workers=1..3 faults=delay:reorder:slow:pause network=any room=0..8 aggregate=0..2 "
              "known=0..100 objects=2..6 events=1..6 signals=1..5 rounds=1..4 moves=0..8 pins=0..1 debug=0..3 "
              "memory=0..3 deaths=0..2 failing=0..3") {
  using pointer = tern::mobile_ptr<guest>;
  const bool mortal = knob("deaths") > 0; // a function that does not run does not rearm
  const bool failing = mortal && knob("debug") == 0 && knob("memory") == 0;
  std::vector<pointer> objects;
  auto plan = common();
  if (rank() == 0) {
    party->guests.resize(static_cast<std::size_t>(knob("objects")));
    if (failing) party->failures = 0.05 * static_cast<double>(knob("failing"));
    for (std::int64_t n = 0; n < knob("objects"); ++n) objects.push_back(tern::create_on<guest>(any_rank(), n).get());
  }
  objects = tern::broadcast(objects);
  if (rank() == 0 && knob("pins") > 0) // all others come to it, and targets with their events
    tern::pin(objects[static_cast<std::size_t>(rolls().below(knob("objects")))]).get();
  for (std::int64_t n = 0; n < knob("events"); ++n) {
    const std::int64_t of = plan.below(knob("objects"));
    const int maker = static_cast<int>(plan.below(size()));
    const std::int64_t signals = plan.between(1, knob("signals")),
                       rounds = mortal ? 1 : plan.between(1, knob("rounds"));
    const std::int64_t early = plan.below(rounds);
    if (rank() == maker) {
      event e = tern::make_event<&guest::meet>(objects[static_cast<std::size_t>(of)], signals);
      party->events.emplace_back(e, rounds - 1);
      for (std::int64_t r = 0; r < early; ++r) e = tern::rearm(e); // these rounds fire without another
    }
    tern::barrier();
    event e = party->events[static_cast<std::size_t>(n)].first;
    for (std::int64_t r = 0; r < rounds; ++r, e = e.next_round()) {
      meeting m;
      m.main = of;
      for (std::int64_t i = 0; i < signals; ++i)
        m.brought.push_back(plan.chance(0.2) ? -1 : plan.below(knob("objects")));
      if (rank() == 0) party->meetings[place_of(e)] = m;
    }
    tern::barrier();
  }
  std::vector<std::pair<event, std::int64_t>> mine; // and its number
  for (const auto& [first, last] : party->events) {
    event e = first;
    for (std::int64_t r = 0; r <= last; ++r, e = e.next_round())
      for (std::int64_t i = 0; i < e.size(); ++i)
        if (plan.below(size()) == rank()) mine.emplace_back(e, i);
  }
  for (std::size_t n = mine.size(); n > 1; --n)
    std::swap(mine[n - 1], mine[static_cast<std::size_t>(rolls().below(static_cast<std::int64_t>(n)))]);

  std::vector<tern::future<void>> open;
  const auto disturb = [&] {
    if (rolls().chance(0.3)) take_time();
    const auto n = static_cast<std::size_t>(rolls().below(knob("objects")));
    const pointer& o = objects[n];
    if (rolls().chance(0.06 * static_cast<double>(knob("moves")))) open.push_back(tern::migrate(o, any_rank()));
    if (!failing && rolls().chance(0.05)) open.push_back(tern::swap_out(o)); // else it could not come back
    if (!mortal && rolls().chance(0.2)) tern::send<&guest::note>(o);
    if (!mortal && rolls().chance(0.1) && objects.size() > 1)
      open.push_back(tern::call_together<[](guest& a, std::span<guest* const> others) {
        a.note();
        others[0]->note();
      }>(o, {objects[(n + 1) % objects.size()]}));
    if (rolls().chance(0.02 * static_cast<double>(knob("deaths")))) {
      party->guests[n].dying = true;
      open.push_back(tern::destroy(o));
    }
  };
  const auto give_one = [&](const event& e, std::int64_t i) {
    const std::int64_t brings = party->meetings[place_of(e)].brought[static_cast<std::size_t>(i)];
    if (brings >= 0)
      tern::signal(e, i, objects[static_cast<std::size_t>(brings)]);
    else if (rolls().chance(0.3))
      tern::signal(e, i, pointer());
    else if (rolls().chance(0.5))
      tern::signal(e, i);
    else
      tern::signal(e, i, text(i));
  };
  for (const auto& [e, i] : mine) {
    disturb();
    if (!mortal && e.size() == 1 && e.round() == 0 && rolls().chance(0.5)) {
      tern::finish([&] { give_one(e, i); });
      TERN_HOLDS(party->meetings[place_of(e)].over, "an epoch was over before " + text_of(e) + " had fired");
    } else {
      give_one(e, i);
    }
  }
  for (auto& one : open) {
    try {
      one.get();
    } catch (const tern::error& x) {
      const std::string why = x.what();
      TERN_HOLDS((party->failures > 0 && x.code() == tern::errc::io) || (mortal && x.code() == tern::errc::not_found) ||
                     why.find("is pinned") != why.npos,
                 "unexpected: " + why);
    }
  }
  tern::quiesce();
  for (const auto& [at, m] : party->meetings) {
    const auto dying = [&](std::int64_t n) { return n >= 0 && party->guests[static_cast<std::size_t>(n)].dying; };
    const bool may_fail =
        party->failures > 0 || dying(m.main) || std::any_of(m.brought.begin(), m.brought.end(), dying);
    TERN_HOLDS((m.ran == 1 && m.over) || (mortal && may_fail && m.ran == 0),
               "quiesce returned, and round " + text(std::get<2>(at)) + " of event " + text(std::get<1>(at)) +
                   " has fired " + text(m.ran) + " times");
  }
  tern::barrier();
  if (rank() == 0) // nothing is left claimed
    for (std::size_t n = 0; n < objects.size(); ++n)
      if (!party->guests[n].dying)
        TERN_HOLDS(tern::call<&guest::number>(objects[n]).get() == static_cast<std::int64_t>(n), "another object");
  tern::barrier();
}

} // namespace event_properties
