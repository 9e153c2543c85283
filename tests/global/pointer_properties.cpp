// SPDX-License-Identifier: Apache-2.0
// Operations on global pointers against a sequential model that knows their order: what one fiber
// does to an object of another rank, no other rank writes, so its value is known at each call (O1,
// O2); what all ranks do commutes, or leaves one of the values that were put (O3).
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <tern/global/pointer.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/mobile/protect.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/communicator.hpp>
#include <tern/net/rank_failure.hpp>
#include <tern/net/rank_local.hpp>
#include <tern/net/runtime.hpp>
#include <tern/net/simulate.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>

#include "property.hpp"

namespace pointer_properties {

using namespace tern::property;
using tern::access_mode;
using tern::accumulation;
using tern::exported;
using tern::global_ptr;
using tern::hetero_object;
using tern::rank;
using tern::size;
using object = hetero_object<std::int64_t>;
using pointer = global_ptr<std::int64_t>;

constexpr std::int64_t never = INT64_MIN; // the task that was to compute it failed

struct model {
  std::int64_t sent = 0, seen = 0;            // objects that are compared
  std::vector<std::set<std::int64_t>> put;    // by rank: into its contested object
  std::vector<std::int64_t> sum, most, least; // by rank: of its shared ones
};
per_case<model> all;

std::string text(std::int64_t n) { return std::to_string(n); }
std::size_t index(int r) { return static_cast<std::size_t>(r); }
int any_rank() { return static_cast<int>(rolls().below(size())); }

/// A new object, which a task fills with `value`, late by chance.
object computed(std::int64_t n, std::int64_t value) {
  object x(n, 0);
  tern::submit(
      [value](tern::host_view<std::int64_t, 1> v) {
        take_time();
        if (value == never) throw tern::error(tern::errc::io, "fails by chance");
        for (std::int64_t& e : v) e = value;
      },
      tern::read_write(x));
  return x;
}
void spoil(const object& x) { // its data have left
  tern::submit(
      [](tern::host_view<std::int64_t, 1> v) {
        for (std::int64_t& e : v) e = -7;
      },
      tern::write(x));
}

/// The value of all elements.
template <class T> std::int64_t value_of(const tern::host_view<T, 1>& v, const char* what) {
  for (const std::int64_t e : v)
    TERN_HOLDS(e == v(0), std::string(what) + " is a mixture of " + text(v(0)) + " and " + text(e));
  return v(0);
}
/// What is read of it, later, is `value`.
void check(const object& x, std::int64_t value, const char* what) {
  ++all->sent;
  if (value == never) {
    try {
      static_cast<void>(x.host(access_mode::read).get());
    } catch (const tern::error& e) {
      TERN_HOLDS(e.code() == tern::errc::io, std::string("unexpected: ") + e.what());
      ++all->seen;
      return;
    }
    TERN_HOLDS(false, std::string(what) + " has come whose task failed");
  }
  tern::submit(
      [value, what](tern::host_view<const std::int64_t, 1> v) {
        const std::int64_t got = value_of(v, what);
        TERN_HOLDS(got == value, std::string(what) + " gave " + text(got) + " in place of " + text(value));
        ++all->seen;
      },
      tern::read(x));
}

/// What a rank lets the others reach.
struct rank_objects {
  std::vector<object> own; // by the rank that alone uses it
  object contested, sum, most, least;
  object after; // has the number of an export that has ended
  std::vector<exported<std::int64_t>> entries;
};
const tern::rank_local<rank_objects> here;
struct pointers {
  std::vector<pointer> own;
  pointer contested, sum, most, least, ended;
  template <class A> void serialize(A& ar) { ar(own, contested, sum, most, least, ended); }
};

pointer open(const object& x) {
  here->entries.emplace_back(x);
  return here->entries.back().ptr();
}

/// What a handler finds that was sent after operations: these or later ones (all are larger).
void look(int from, std::int64_t value) {
  ++all->sent;
  if (rolls().chance(0.2)) take_time();
  try {
    const auto v = here->own[index(from)].host(access_mode::read).get();
    const std::int64_t got = value_of(v, "what a handler looks at");
    TERN_HOLDS(got >= value, "a handler finds " + text(got) + ", and " + text(value) + " was put before it was sent");
  } catch (const tern::error& e) { // a later put's data did not come
    TERN_HOLDS(e.code() == tern::errc::io, std::string("unexpected: ") + e.what());
  }
  ++all->seen;
}
/// The same exactly: its sender waits.
std::int64_t ask(int from) {
  const auto v = here->own[index(from)].host(access_mode::read).get();
  return value_of(v, "what a call looks at");
}
void take(std::int64_t value, object x) { check(x, value, "an argument"); }
/// Keeps the objects of this rank busy, so that data come before they may be written.
void keep_busy(int which) {
  const object& x = which < size() ? here->own[index(which)] : here->contested;
  tern::submit(
      [](tern::host_view<const std::int64_t, 1> v) {
        static_cast<void>(value_of(v, "what a task of the owner reads"));
        take_time();
        static_cast<void>(value_of(v, "what a task of the owner reads"));
      },
      tern::read(x));
}

void wait_for_tasks() {
  for (;;) {
    try {
      return tern::wait_all();
    } catch (const tern::error& e) {
      TERN_HOLDS(e.code() == tern::errc::io || e.code() == tern::errc::not_found,
                 std::string("unexpected: ") + e.what());
    }
  }
}

TERN_PROPERTY(operations_keep_their_order,
              "ranks=1..6 workers=1..3 faults=delay:reorder:slow:pause network=any room=0..8 aggregate=0..2 "
              "steps=1..40 elements=1..3000 failing=0..2 churn=0..1") {
  const std::int64_t n = knob("elements");
  auto& mine = *here;
  if (rank() == 0) {
    all->put.resize(index(size()));
    all->sum.assign(index(size()), 0);
    all->most.assign(index(size()), 0);
    all->least.assign(index(size()), 0);
    for (auto& s : all->put) s.insert(0);
  }
  pointers offered;
  if (knob("churn") != 0) { // numbers are used again
    for (int i = 0; i < 64; ++i) {
      const exported<std::int64_t> gone(object(n, 0));
      if (i == 0) offered.ended = gone.ptr();
    }
    mine.after = object(n, 0);
    const pointer next = open(mine.after);
    TERN_HOLDS(next != offered.ended, "a pointer to what has ended is one to something else");
  }
  for (int r = 0; r < size(); ++r) {
    mine.own.emplace_back(n, 0);
    offered.own.push_back(open(mine.own.back()));
  }
  for (object* const x : {&mine.contested, &mine.sum, &mine.most, &mine.least}) *x = object(n, 0);
  offered.contested = open(mine.contested);
  offered.sum = open(mine.sum);
  offered.most = open(mine.most);
  offered.least = open(mine.least);
  const std::vector<pointers> there = tern::broadcast(tern::gather(offered));

  std::vector<std::int64_t> value(index(size()), 0); // of what this rank alone uses, by owner
  std::int64_t next = 1;
  std::vector<tern::shared_future<void>> open_ones;
  const auto may_fail = [&] { return rolls().chance(0.03 * static_cast<double>(knob("failing"))); };
  const auto expect_end = [&](const tern::transfer& t, bool failed, bool waits) {
    auto f = t.done();
    open_ones.push_back(f);
    if (!waits && !failed) return;
    try {
      f.get();
      TERN_HOLDS(!failed, "an operation whose data failed ended well");
    } catch (const tern::error& e) {
      TERN_HOLDS(failed && e.code() == tern::errc::io, std::string("unexpected: ") + e.what());
    }
  };
  for (std::int64_t step = 0; step < knob("steps"); ++step) {
    const int to = any_rank();
    std::int64_t& v = value[index(to)];
    const pointer p = there[index(to)].own[index(rank())];
    if (rolls().chance(0.3)) take_time();
    if (rolls().chance(0.2)) keep_busy(static_cast<int>(rolls().below(size() + 1)));
    switch (rolls().below(13)) {
    case 0:
    case 1: {
      const bool fails = may_fail();
      const std::int64_t larger = std::max(v, next) + 1;
      next = larger + 1000;
      const object x = computed(n, fails ? never : larger);
      const tern::transfer t = tern::put(x, p);
      if (!fails && rolls().chance(0.5)) spoil(x);
      expect_end(t, fails, rolls().chance(0.2));
      // Without a value the object is put anew at once: the others need not know of it.
      if (fails) tern::put(computed(n, larger), p);
      v = larger;
      break;
    }
    case 2: {
      next += 1000;
      v = std::max(v, next);
      tern::put(computed(n, v), p, tern::notify<&look>(rank(), v));
      break;
    }
    case 3:
      check(tern::get(p), v, "get");
      break;
    case 4: {
      object x(n, -9);
      const tern::transfer t = tern::get(p, x);
      check(x, v, "get into an object");
      expect_end(t, false, rolls().chance(0.2));
      break;
    }
    case 5:
      tern::accumulate(computed(n, 3), p, accumulation::plus);
      v += 3;
      if (rolls().chance(0.5)) tern::accumulate(computed(n, 4), p, accumulation::plus), v += 4;
      break;
    case 6:
      check(tern::fetch_accumulate(computed(n, 5), p, accumulation::plus), v, "fetch_accumulate");
      v += 5;
      break;
    case 7:
      tern::send<&look>(to, rank(), v);
      break;
    case 8: {
      const std::int64_t got = tern::call<&ask>(to, rank()).get();
      TERN_HOLDS(got == v, "a call finds " + text(got) + " in place of " + text(v));
      break;
    }
    case 9: {
      const std::int64_t some = next++;
      tern::send<&take>(to, some, computed(n, some));
      break;
    }
    case 10: { // what all do
      const std::int64_t d = rolls().below(1000);
      tern::accumulate(computed(n, d), there[index(to)].sum, accumulation::plus);
      tern::accumulate(computed(n, d), there[index(to)].most, accumulation::max, tern::in_order);
      tern::accumulate(computed(n, -d), there[index(to)].least, accumulation::min);
      all->sum[index(to)] += d;
      all->most[index(to)] = std::max(all->most[index(to)], d);
      all->least[index(to)] = std::min(all->least[index(to)], -d);
      break;
    }
    case 11:
      if (rolls().chance(0.5)) { // each source is another's target
        tern::put(mine.contested, there[index(to)].contested);
      } else {
        const std::int64_t some = rank() + 1 + 100 * ++next;
        all->put[index(to)].insert(some);
        tern::put(computed(n, some), there[index(to)].contested);
      }
      break;
    default:
      if (there[index(to)].ended) {
        try {
          tern::put(object(n, 5), there[index(to)].ended).done().get();
          TERN_HOLDS(false, "what is not exported any more was put into");
        } catch (const tern::error& e) {
          TERN_HOLDS(e.code() == tern::errc::not_found, std::string("unexpected: ") + e.what());
        }
      } else {
        try {
          tern::fence(to).get();
        } catch (const tern::error& e) {
          TERN_HOLDS(false, std::string("unexpected: ") + e.what());
        }
      }
    }
    if (rolls().chance(0.05)) {
      tern::fence().get();
      for (const auto& f : open_ones) TERN_HOLDS(f.ready(), "a fence is over, and an operation before it is not");
    }
  }
  tern::quiesce();
  for (const auto& f : open_ones) TERN_HOLDS(f.ready(), "an operation is not over after quiesce");
  const auto c = tern::global::count_pointers();
  TERN_HOLDS(c.announced == c.finished,
             text(static_cast<std::int64_t>(c.announced - c.finished)) + " operations are not over after quiesce");
  TERN_HOLDS(c.serving == 0, text(static_cast<std::int64_t>(c.serving)) + " operations are served after quiesce");
  const auto t = tern::global::count_transfers();
  TERN_HOLDS(t.departing == 0 && t.arriving == 0, "data are on their way after quiesce");
  for (int r = 0; r < size(); ++r) {
    const std::int64_t got = tern::call<&ask>(r, rank()).get();
    TERN_HOLDS(got == value[index(r)], "at the end there is " + text(got) + " in place of " + text(value[index(r)]));
  }
  check(mine.sum, all->sum[index(rank())], "a sum of all ranks");
  check(mine.most, all->most[index(rank())], "a maximum of all ranks");
  check(mine.least, all->least[index(rank())], "a minimum of all ranks");
  {
    const auto v = mine.contested.host(access_mode::read).get();
    const std::int64_t got = value_of(v, "what all put into");
    bool known = false;
    for (const auto& s : all->put) known = known || s.contains(got);
    TERN_HOLDS(known, text(got) + " was put by no rank");
  }
  if (mine.after) check(mine.after, 0, "what was put into nothing");
  wait_for_tasks();
  tern::barrier();
  TERN_HOLDS(all->sent == all->seen, text(all->sent) + " values were to be seen, and " + text(all->seen) + " were");
  tern::barrier();
  mine = {};
  wait_for_tasks();
}

// Jobs that go on without a rank --------------------------------------------------------------------

struct survival {
  int inside = 0;        // ranks whose first copy was complete
  double first_copy = 0; // when it was on all
  double seconds = 0;
  int done = 0; // ranks that came to the end
  bool gave_up = false;
  std::string wrong;
};
double now_in_seconds() { return std::chrono::duration<double>(tern::fiber_clock::now().time_since_epoch()).count(); }

/// What all add to each other's objects is there at the end of a step. What waits for a dead rank
/// throws rank_lost, which takes the step back.
void add_to_each_other(dice d, std::int64_t n, std::int64_t operations) {
  const auto world = tern::communicator::world();
  const object mine(n, 0);
  const exported<std::int64_t> entry(mine);
  const std::vector<pointer> there = world.broadcast(world.gather(entry.ptr()));
  std::int64_t added = 0;
  for (int r = 0; r < rank(); ++r) static_cast<void>(d.next()); // each rank has its own
  for (std::int64_t i = 0; i < operations; ++i) {
    const pointer p = there[static_cast<std::size_t>(d.below(std::ssize(there)))];
    const std::int64_t what = d.below(5), some = d.below(100);
    if (what == 0) {
      const object got = tern::get(p);
      if (d.chance(0.3)) static_cast<void>(value_of(got.host(access_mode::read).get(), "get"));
    } else if (what == 1) {
      const object got = tern::fetch_accumulate(computed(n, some), p, accumulation::plus);
      added += some;
      if (d.chance(0.3)) static_cast<void>(value_of(got.host(access_mode::read).get(), "fetch_accumulate"));
    } else {
      const tern::transfer t = tern::accumulate(computed(n, some), p, accumulation::plus);
      added += some;
      if (d.chance(0.3)) t.done().get();
    }
    if (d.chance(0.2)) tern::fence(p.owner()).get();
  }
  tern::fence().get();
  world.barrier();
  const std::int64_t here_now = value_of(mine.host(access_mode::read).get(), "a sum of all ranks");
  const std::int64_t all_added = world.allreduce(added, std::plus<>()),
                     found = world.allreduce(here_now, std::plus<>());
  TERN_HOLDS(found == all_added, text(all_added) + " was added in a step, and " + text(found) + " is there");
}

survival run_on(const tern::sim::world& world, std::uint64_t seed, std::int64_t n, std::int64_t steps,
                std::int64_t operations) {
  survival to;
  try {
    const auto ended = tern::sim::run(world, [&] {
      std::int64_t step = 0;
      bool first = true;
      try {
        tern::protect(
            tern::every(std::chrono::seconds(0)),
            [&] {
              if (std::exchange(first, false) && ++to.inside == size()) to.first_copy = now_in_seconds();
              add_to_each_other(dice(seed + static_cast<std::uint64_t>(step)), n, operations);
              return ++step < steps;
            },
            step);
      } catch (const tern::error& e) {
        if (e.code() != tern::errc::rank_lost || !e.message().starts_with("the job cannot go on")) throw;
        to.gave_up = true; // there was no copy to go back to
        return 0;
      }
      const auto c = tern::global::count_pointers();
      TERN_HOLDS(c.announced == c.finished, "operations are not over at the end");
      TERN_HOLDS(c.serving == 0, "operations are served at the end");
      ++to.done;
      return 0;
    });
    to.seconds = ended.seconds;
    if (ended.code != 0) to.wrong = "it ended with code " + text(ended.code);
  } catch (const tern::error& e) {
    to.wrong = e.what();
  }
  return to;
}

TERN_PROPERTY(operations_end_when_a_rank_dies, "ranks=2..6 workers=1..3 faults=delay:reorder:slow:pause network=any "
                                               "steps=1..4 operations=1..20 elements=1..600") {
  if (rank() != 0) return;
  afterwards([seed = common().next(), world = the_world(), n = knob("elements"), steps = knob("steps"),
              operations = knob("operations")](const ending&) {
    const survival whole = run_on(world, seed, n, steps, operations);
    TERN_HOLDS(whole.wrong.empty(), "the run without a crash has failed: " + whole.wrong);
    dice d(seed + 1);
    tern::sim::world worse = world;
    const double at = whole.first_copy + d.part() * (whole.seconds - whole.first_copy);
    worse.faults.crash.push_back({static_cast<int>(d.below(worse.ranks)), at});
    const survival got = run_on(worse, seed, n, steps, operations);
    if (got.first_copy == 0 || at <= got.first_copy) return; // likewise
    TERN_HOLDS(!got.gave_up, "the job has given up");
    TERN_HOLDS(got.wrong.empty(), "the run has failed: " + got.wrong);
    TERN_HOLDS(got.done >= worse.ranks - 1, text(got.done) + " ranks have come to the end");
  });
}

} // namespace pointer_properties
