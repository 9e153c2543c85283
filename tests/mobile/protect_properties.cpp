// SPDX-License-Identifier: Apache-2.0
// What protected steps promise: whichever ranks die, and whenever, the others end with the answer
// of a run in which none dies; or say that a rank was lost with its buddy.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tern/mobile/array.hpp>
#include <tern/mobile/counted.hpp>
#include <tern/mobile/event.hpp>
#include <tern/mobile/names.hpp>
#include <tern/mobile/protect.hpp>
#include <tern/mobile/protect/protection.hpp>
#include <tern/mobile/together.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/communicator.hpp>
#include <tern/net/rank_local.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>

#include "property.hpp"
#include "travellers.hpp"

namespace protect_properties {

using namespace tern::property;
using tern::call;
using tern::communicator;
using tern::mobile_ptr;
using tern::mobile_ref;
using tern::property::travellers::leaf;
using tern::property::travellers::text;

class cell {
public:
  cell() = default;
  explicit cell(std::int64_t total) : total_(total) {}
  void add(std::int64_t n) {
    total_ += n;
    bytes_.resize(static_cast<std::size_t>(total_ & 127));
  }
  // Waits for another object, which may be on a rank that dies.
  void add_what(mobile_ptr<cell> other) {
    const tern::release_access others_may;
    static_cast<void>(call<&cell::total>(other).get());
  }
  std::int64_t total() const { return bytes_.size() <= 127 ? total_ : -1; }
  void fired(const tern::signals& in) { add(static_cast<std::int64_t>(in.size())); }
  void pass(const tern::event& e, std::int64_t i) { tern::signal(e, i); }
  void keep(mobile_ref<leaf> one) { leaf_ = std::move(one); }
  std::int64_t leaf_value() const { return leaf_ ? call<&leaf::value>(leaf_).get() : -1; }
  void drop() { leaf_ = {}; }
  template <class A> void serialize(A& ar) { ar(total_, bytes_, leaf_); }

private:
  std::int64_t total_ = 0;
  std::vector<char> bytes_;
  mobile_ref<leaf> leaf_;
};
using line = tern::mobile_array<cell, 1>;

void exchange(cell& a, std::span<cell* const> others, std::int64_t n) {
  a.add(n);
  for (cell* const one : others) one->add(-n);
}

struct plan {
  std::uint64_t seed = 0;
  std::int64_t elements = 1, steps = 1, operations = 1;
  std::chrono::nanoseconds interval{};
  bool only_back = false; // no rank dies: all go back
};

// What a run has come to, seen by the test.
struct result {
  bool done = false, gave_up = false;
  int inside = 0;        // ranks whose first copy was complete
  double first_copy = 0; // when it was on all
  double seconds = 0;
  std::uint64_t recoveries = 0;
  std::vector<std::int64_t> totals, loose, leaves;
  std::string wrong, why;
  bool operator==(const result& o) const { return totals == o.totals && loose == o.loose && leaves == o.leaves; }
};

struct state {
  line array;
  std::vector<mobile_ptr<cell>> loose;
  std::vector<line> more;
  mobile_ref<leaf> kept;
  std::int64_t step = 0;
};

double now_in_seconds() { return std::chrono::duration<double>(tern::fiber_clock::now().time_since_epoch()).count(); }

// One operation, the same whichever rank does it.
void operate(state& s, const communicator& world, std::int64_t step, std::int64_t k, dice d) {
  const auto pick = [&] { return s.array(d.below(s.array.size()[0])); };
  const std::int64_t n = d.below(50);
  const mobile_ptr<cell> one = pick(), other = pick();
  const mobile_ptr<cell> free = s.loose.empty() ? one : s.loose[static_cast<std::size_t>(d.below(std::ssize(s.loose)))];
  const int where = world.job_rank(static_cast<int>(d.below(1 << 20) % world.size()));
  switch (d.below(11)) {
  case 0:
    return tern::send<&cell::add>(one, n);
  case 1:
    return call<&cell::add>(free, n).get();
  case 2:
    return tern::migrate(one, where).get();
  case 3:
    return tern::migrate(free, where).get();
  case 4:
    if (one != other) call_together<&exchange>(one, {other}, n).get();
    return;
  case 5: {
    const tern::event e = tern::make_event<&cell::fired>(one, 2);
    tern::send<&cell::pass>(other, e, std::int64_t{0});
    tern::signal(e, 1);
    return;
  }
  case 6:
    tern::publish("n" + text(step) + "." + text(k), one).get();
    TERN_HOLDS(tern::find<cell>("n" + text(step) + "." + text(k)).get() == one, "a name is another object's");
    return;
  case 7:
    return tern::send<&cell::add>(s.array, n);
  case 8:
    return tern::swap_out(free).get();
  case 9:
    return call<&cell::add_what>(one, free).get();
  case 10:
    call<&cell::keep>(free, tern::create_counted_on<leaf>(where, std::int64_t{5}).get()).get();
    return;
  }
}

bool run_step(state& s, const plan& p, result& to) {
  const communicator world = communicator::world();
  dice d(p.seed * 1'000'003 + static_cast<std::uint64_t>(s.step));
  const bool grows = d.chance(0.5), extends = d.chance(0.3), sleeps = d.chance(0.5);
  mobile_ptr<cell> fresh;
  if (grows && world.rank() == 0) fresh = tern::create_on<cell>(world.job_rank(world.size() - 1), s.step).get();
  if (grows) s.loose.push_back(world.broadcast(fresh));
  if (extends) {
    line one;
    if (world.rank() == 0) one = line({2 * tern::size()}, s.step);
    s.more.push_back(world.broadcast(one));
  }
  const std::int64_t operations = d.between(1, p.operations);
  for (std::int64_t k = 0; k < operations; ++k) {
    const dice own(d.next());
    if (k % world.size() == world.rank()) operate(s, world, s.step, k, own);
    if (sleeps) tern::this_fiber::sleep_for(std::chrono::microseconds(2));
  }
  if (++s.step < p.steps) return true;
  tern::quiesce();
  if (world.rank() == 0) {
    to.totals.clear();
    to.loose.clear();
    to.leaves.clear();
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < p.elements; ++i) {
      to.totals.push_back(call<&cell::total>(s.array(i)).get());
      sum += to.totals.back();
      to.leaves.push_back(call<&cell::leaf_value>(s.array(i)).get());
    }
    TERN_HOLDS(tern::reduce<&cell::total>(s.array, std::plus<>()).get() == sum, "a reduction gives another sum");
    for (const auto& one : s.loose) {
      to.loose.push_back(call<&cell::total>(one).get());
      to.leaves.push_back(call<&cell::leaf_value>(one).get());
    }
    for (const line& one : s.more) to.loose.push_back(tern::reduce<&cell::total>(one, std::plus<>()).get());
    TERN_HOLDS(call<&leaf::value>(s.kept).get() == 77, "a reference in the roots is not what it was");
    to.done = true;
  }
  world.barrier();
  return false;
}

const tern::rank_local<mobile_ref<leaf>> given;
void take_kept(mobile_ref<leaf> one) { *given = std::move(one); }

// The main function of each rank.
void live(const plan& p, result& to) {
  state s;
  if (tern::rank() == 0) {
    s.array = line({p.elements}, std::int64_t{3});
    s.kept = tern::create_counted_on<leaf>(tern::size() - 1, std::int64_t{77}).get();
  }
  s.array = tern::broadcast(s.array);
  if (tern::rank() == 0) // each rank's roots have one
    for (int r = 1; r < tern::size(); ++r) call<&take_kept>(r, s.kept).get();
  tern::barrier();
  if (tern::rank() != 0) s.kept = std::exchange(*given, {});
  std::set<std::int64_t> back;
  bool first = true;
  try {
    const auto done = tern::protect(
        tern::every(p.interval),
        [&] {
          if (std::exchange(first, false) && ++to.inside == tern::size()) to.first_copy = now_in_seconds();
          const bool more = run_step(s, p, to);
          // All ranks together, once after each step.
          if (p.only_back && back.insert(s.step).second) throw tern::mobile::detail::roll_back_request();
          return more;
        },
        s.array, s.loose, s.more, s.kept, s.step);
    to.recoveries = std::max(to.recoveries, done.recoveries);
  } catch (const tern::error& e) {
    if (e.code() == tern::errc::rank_lost && e.message().starts_with("the job cannot go on"))
      to.gave_up = true, to.why = e.message();
    else
      throw;
  }
}

result run(const plan& p, tern::sim::world world, const tern::options& options) {
  result r;
  try {
    const auto ended = tern::sim::run(
        world, [&] { return live(p, r), 0; }, options);
    r.seconds = ended.seconds;
    if (ended.code != 0) r.wrong = "it ended with code " + text(ended.code);
  } catch (const tern::error& e) {
    r.wrong = e.what();
  }
  return r;
}

plan plan_of_case(std::uint64_t seed) {
  plan p;
  p.seed = seed;
  p.elements = knob("elements");
  p.steps = knob("steps");
  p.operations = knob("operations");
  p.interval = std::chrono::microseconds(20 * knob("interval"));
  return p;
}

tern::options options_of_case() {
  tern::options o;
  static const char* const words[] = {"0", "1", "120", "1000"};
  o.set(tern::mobile::memory_option, words[knob("memory")]);
  return o;
}

TERN_PROPERTY(jobs_go_back,
              "ranks=2..9 workers=1..3 faults=delay:reorder:slow:pause network=any elements=1..20 steps=1..5 "
              "operations=1..20 memory=0..3 interval=0..4") {
  if (tern::rank() != 0) return;
  const std::uint64_t seed = common().next();
  afterwards([p = plan_of_case(seed), o = options_of_case(), world = the_world()](const ending&) {
    const result expected = run(p, world, o);
    plan again = p;
    again.only_back = true;
    const result got = run(again, world, o);
    TERN_HOLDS(expected.wrong.empty() && got.wrong.empty(), "a run has failed: " + expected.wrong + got.wrong);
    TERN_HOLDS(expected.done && got.done && got.recoveries > 0, "the steps have not ended");
    TERN_HOLDS(got == expected, "the answer is another one");
  });
}

TERN_PROPERTY(survivors_give_the_same_answer,
              "ranks=2..9 workers=1..3 faults=delay:reorder:slow:pause network=any elements=1..20 steps=1..6 "
              "operations=1..20 memory=0..3 interval=0..4 crashes=1..4") {
  if (tern::rank() != 0) return;
  const std::uint64_t seed = common().next();
  const std::int64_t crashes = knob("crashes");
  afterwards([p = plan_of_case(seed), o = options_of_case(), world = the_world(), crashes](const ending&) {
    const result expected = run(p, world, o);
    TERN_HOLDS(expected.wrong.empty() && expected.done, "the run without a crash has failed: " + expected.wrong);
    dice d(p.seed + 1);
    tern::sim::world worse = world;
    std::set<int> dead;
    double first = expected.seconds;
    for (std::int64_t n = 0; n < crashes && std::ssize(dead) + 1 < worse.ranks; ++n) {
      const auto rank = static_cast<int>(d.below(worse.ranks));
      if (!dead.insert(rank).second) continue;
      worse.faults.crash.push_back({rank, d.part() * expected.seconds * 1.5});
      first = std::min(first, worse.faults.crash.back().at);
    }
    const result got = run(p, worse, o);
    if (got.first_copy == 0 || first <= got.first_copy) return; // there was nothing that the ranks could go back to
    TERN_HOLDS(got.wrong.empty(), "the run has failed: " + got.wrong);
    TERN_HOLDS(got.done || (got.gave_up && dead.size() > 1), "the steps have not ended: " + got.why);
    TERN_HOLDS(!got.done || got == expected, "the answer is another one");
  });
}

} // namespace protect_properties
