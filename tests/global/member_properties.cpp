// SPDX-License-Identifier: Apache-2.0
// Mobile objects whose members have data on devices, against a sequential model: each task finds
// what the one before it left, on the object that has submitted it, wherever that has gone since;
// and nothing is left of moves, transfers and keeps.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <tern/global/travel.hpp>
#include <tern/hetero/devices.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/mobile/entry/rank_objects.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/epoch.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/future.hpp>

#include "property.hpp"

namespace member_properties {

using namespace tern::property;
using tern::access_mode;
using tern::hetero_object;
using tern::rank;
using tern::size;

const option_knob debug_knob{"debug", [](tern::options& of, std::int64_t value) {
                               static const char* const words[] = {"none", "rotate", "random", "reserialize"};
                               of.set(tern::mobile::debug_option, words[std::clamp<std::int64_t>(value, 0, 3)]);
                             }};
const option_knob memory_knob{"memory", [](tern::options& of, std::int64_t value) {
                                static const char* const words[] = {"0", "1", "2000", "20000"};
                                of.set(tern::mobile::memory_option, words[std::clamp<std::int64_t>(value, 0, 3)]);
                              }};
const option_knob devices_knob{"devices", [](tern::options& of, std::int64_t value) {
                                 if (value == 0) return;
                                 of.set(tern::hetero::hetero_devices, "host,simulated");
                                 of.set(tern::hetero::hetero_simulated, "2");
                               }};

std::string text(std::int64_t n) { return std::to_string(n); }
int any_rank() { return static_cast<int>(rolls().below(size())); }

struct model {
  std::map<const void*, int> alive; // copies of objects, by what made them
  std::int64_t added = 0, seen = 0, checks = 0;
  double failures = 0;
};
per_case<model> all;

/// What is read of it, later, is `value`.
void check(const hetero_object<int>& x, int value) {
  ++all->checks;
  tern::submit(
      [value](tern::host_view<const int, 1> v) {
        for (std::int64_t i = 0; i < v.size(); ++i)
          TERN_HOLDS(v(i) == value, "an object holds " + text(v(i)) + " in place of " + text(value));
        ++all->seen;
      },
      tern::read(x));
}

class plate;
using pointer = tern::mobile_ptr<plate>;

/// All elements of all of its parts are `value_`.
class plate {
public:
  plate() { all->alive[this] = rank(); }
  plate(std::int64_t parts, std::int64_t elements) : plate() {
    for (std::int64_t i = 0; i < parts; ++i) { // some are too large for a message
      const bool large = rolls().chance(0.5);
      parts_.emplace_back(large ? rolls().between(600, 3000) : rolls().between(1, elements), 0);
    }
  }
  ~plate() { all->alive.erase(this); }
  plate(const plate&) = delete;
  plate& operator=(const plate&) = delete;

  void add(int what) {
    for (auto& x : parts_) step(x, value_, value_ + what);
    value_ += what;
    if (knob("devices") > 0 && rolls().chance(0.5)) // where the next copy is taken from
      for (auto& x : parts_) x.prefetch(rolls().chance(0.5) ? "simulated0" : "simulated1");
  }
  void look() const {
    for (const auto& x : parts_) check(x, value_);
  }
  /// Becomes a part, brought to the value of the others.
  void take(int value, hetero_object<int> x) {
    step(x, value, value_);
    parts_.push_back(std::move(x));
  }
  void give(const pointer& to) {
    if (parts_.size() < 2) return;
    tern::send<&plate::take>(to, value_, std::move(parts_.back()));
    parts_.pop_back();
  }
  void show(int to) const;
  /// Waits while others may come.
  void pause(int what) {
    add(what);
    take_time();
    add(-what);
  }
  std::int64_t sum() const { return value_; }
  template <class A> void save(A& ar) const {
    ar(parts_, value_, rank());
    if constexpr (!std::is_same_v<A, tern::size_archive>)
      if (ar.purpose() == tern::archive_purpose::move && rolls().chance(all->failures))
        throw tern::error(tern::errc::io, "packing fails by chance");
  }
  template <class A> void load(A& ar) {
    int from = 0;
    ar(parts_, value_, from);
    if (from != rank() && rolls().chance(all->failures)) // what has gone to disk comes back
      throw tern::error(tern::errc::io, "unpacking fails by chance");
  }

private:
  /// A task that writes `after`, and finds `before` until then. It uses the object, as tasks of
  /// members do; now and then it has another task do so.
  void step(const hetero_object<int>& x, int before, int after) {
    tern::submit(
        [this, here = rank(), before, after, x, again = rolls().chance(0.2)](tern::host_view<int, 1> v) {
          uses(here);
          for (const int e : v) TERN_HOLDS(e == before, "a part holds " + text(e) + " in place of " + text(before));
          take_time();
          for (int& e : v) e = after;
          uses(here);
          if (!again) return;
          tern::submit( // which keeps the object, too
              [this, here](tern::host_view<const int, 1>) {
                take_time();
                uses(here);
              },
              tern::read(x));
        },
        tern::read_write(x));
  }
  void uses(int here) const {
    const auto found = all->alive.find(this);
    TERN_HOLDS(found != all->alive.end() && found->second == here, "a task's object has left before it");
  }
  std::vector<hetero_object<int>> parts_;
  int value_ = 0;
};

void see(int value, hetero_object<int> x) { check(x, value); }
void plate::show(int to) const { tern::send<&see>(to, value_, parts_.front()); }

void expect_moved(tern::future<void>& f) {
  try {
    f.get();
  } catch (const tern::error& e) {
    TERN_HOLDS(std::string(e.what()).find("fails by chance") != std::string::npos,
               std::string("unexpected: ") + e.what());
  }
}

std::uint32_t keeps_here() {
  std::uint32_t n = 0;
  for (auto& s : tern::mobile::directory::here().objects().shards()) {
    const std::lock_guard hold(s.lock);
    for (std::size_t i = 0; i < s.entries.capacity(); ++i)
      if (const auto* const e = s.entries.at(i)) n += e->keeps;
  }
  return n;
}

TERN_PROPERTY(members_follow_their_objects,
              "ranks=1..8 workers=1..3 faults=delay:reorder:slow:pause network=any room=0..8 aggregate=0..2 "
              "objects=1..4 parts=1..3 elements=1..3000 steps=1..40 moves=0..8 failures=0..2 memory=0..3 debug=0..3 "
              "devices=0..1") {
  // No caller hears of moves for the option.
  all->failures = knob("debug") == 0 ? 0.25 * static_cast<double>(knob("failures")) : 0;
  const pointer mine = tern::create<plate>(knob("parts"), knob("elements"));
  const std::vector<pointer> plates = tern::broadcast(tern::gather(mine));
  const auto any = [&] { return plates[static_cast<std::size_t>(rolls().below(size()))]; };
  std::vector<tern::future<void>> moves;
  std::int64_t added = 0;
  for (std::int64_t i = 0; i < knob("steps"); ++i) {
    if (rolls().chance(0.3)) take_time();
    if (rolls().chance(0.06 * static_cast<double>(knob("moves")))) {
      moves.push_back(rolls().chance(0.3) ? tern::swap_out(any()) : tern::migrate(any(), any_rank()));
      if (rolls().chance(0.3)) expect_moved(moves.back()), moves.pop_back();
      continue;
    }
    const int what = static_cast<int>(rolls().between(1, 100));
    switch (rolls().below(6)) {
    case 0:
    case 1:
      added += what;
      tern::send<&plate::add>(any(), what);
      break;
    case 2:
      tern::send<&plate::look>(any());
      break;
    case 3:
      tern::send<&plate::give>(any(), any());
      break;
    case 4:
      tern::send<&plate::show>(any(), any_rank());
      break;
    default:
      tern::send<&plate::pause>(any(), what);
    }
  }
  for (auto& f : moves) expect_moved(f);
  tern::quiesce();
  tern::wait_all();
  tern::quiesce(); // what was to move when tasks have ended
  tern::wait_all();
  const auto n = tern::global::count_transfers();
  TERN_HOLDS(n.departing == 0, text(static_cast<std::int64_t>(n.departing)) + " transfers have not left at the end");
  TERN_HOLDS(n.arriving == 0, text(static_cast<std::int64_t>(n.arriving)) + " transfers have not landed at the end");
  const std::uint32_t keeps = keeps_here();
  TERN_HOLDS(keeps == 0, text(keeps) + " keeps are left at the end");
  tern::barrier();
  tern::call<&plate::look>(mine).get();
  const std::int64_t sum = tern::allreduce(tern::call<&plate::sum>(mine).get(), std::plus<>());
  added = tern::allreduce(added, std::plus<>());
  TERN_HOLDS(sum == added, "objects hold " + text(sum) + " in place of " + text(added));
  tern::quiesce();
  tern::wait_all();
  tern::barrier();
  tern::destroy(mine).get();
  tern::barrier();
  TERN_HOLDS(all->seen == all->checks, text(all->checks) + " objects were looked at, and " + text(all->seen) + " seen");
  tern::barrier();
}

} // namespace member_properties
