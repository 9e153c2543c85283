// SPDX-License-Identifier: Apache-2.0
// What mobile objects promise while they move: each invocation once, in order, on the one live
// copy; every future set or failed with a reason; nothing lost.
#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <tern/mobile/object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/epoch.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/future.hpp>

#include "property.hpp"
#include "travellers.hpp"

namespace migration_properties {

using namespace tern::property;
using namespace tern::property::travellers;
using tern::mobile_ptr;
using tern::rank;
using tern::size;

TERN_PROPERTY(once_and_in_order, "ranks=1..10 workers=1..3 faults=delay:reorder:slow:pause network=any room=0..8 "
                                 "aggregate=0..2 known=0..100 objects=1..5 fibers=1..3 invocations=1..50 moves=0..10 "
                                 "failures=0..3 memory=0..3 disk=0..2") {
  all->failures = 0.05 * static_cast<double>(knob("failures"));
  all->disks = knob("memory") > 0;
  const auto objects = make_objects(knob("objects"));
  for (const pointer o : objects)
    if (rolls().chance(0.1)) tern::send<&migrating_object::grow>(o, rolls().below(100'000));
  std::vector<tern::future<std::int64_t>> fibers;
  for (std::int64_t f = 0; f < knob("fibers"); ++f)
    fibers.push_back(tern::async([&objects, me = rank() * 100 + f] {
      std::vector<std::int64_t> numbers(objects.size());
      std::vector<tern::future<void>> moves;
      std::int64_t writes = 0;
      for (std::int64_t i = 0; i < knob("invocations"); ++i) {
        const std::size_t o = any_of(objects);
        if (rolls().chance(0.05 * static_cast<double>(knob("moves")))) {
          moves.push_back(all->disks && rolls().chance(0.3) ? tern::swap_out(objects[o])
                                                            : tern::migrate(objects[o], any_rank()));
          if (rolls().chance(0.3)) expect_moved(moves.back()), moves.pop_back();
          continue;
        }
        const bool write = rolls().chance(0.5);
        const std::int64_t number = numbers[o]++;
        ++all->sent;
        writes += write;
        if (write && rolls().chance(0.3)) {
          tern::send<&migrating_object::pause>(objects[o], me, number);
        } else if (rolls().chance(0.2)) {
          const std::int64_t got = write ? tern::call<&migrating_object::write>(objects[o], me, number).get()
                                         : tern::call<&migrating_object::read>(objects[o], me, number).get();
          TERN_HOLDS(got == number, "another invocation's answer");
        } else if (write) {
          tern::send<&migrating_object::write>(objects[o], me, number);
        } else {
          tern::send<&migrating_object::read>(objects[o], me, number);
        }
        if (rolls().chance(0.3)) take_time();
      }
      for (auto& move : moves) expect_moved(move);
      return writes;
    }));
  std::int64_t writes = 0;
  for (auto& f : fibers) writes += f.get();
  tern::quiesce();
  TERN_HOLDS(all->sent == all->ran, text(all->sent) + " invocations were sent and " + text(all->ran) + " ran");
  tern::barrier();
  std::int64_t sum = 0;
  for (const pointer o : objects) sum += tern::call<&migrating_object::value>(o).get();
  TERN_HOLDS(sum == tern::allreduce(writes, std::plus<>()), "an exclusive invocation was lost");
  if (rank() == 0)
    for (std::size_t i = 0; i < objects.size(); ++i)
      if (rolls().chance(0.5)) tern::destroy(objects[i]).get();
  tern::barrier();
}

// Destroyed while it moves: each call is answered, or fails because the object is gone; and never
// when it may not.
TERN_PROPERTY(destroyed_on_the_way,
              "ranks=1..8 workers=1..3 faults=delay:reorder:slow:pause network=any room=0..8 "
              "known=0..200 objects=1..4 invocations=1..40 moves=0..10 failures=0..2 memory=0..3") {
  all->failures = 0.05 * static_cast<double>(knob("failures"));
  all->disks = knob("memory") > 0;
  const auto objects = make_objects(knob("objects"));
  struct open_call {
    tern::future<std::int64_t> answer;
    bool after;
  };
  std::vector<open_call> open;
  std::vector<std::pair<std::size_t, tern::future<void>>> ends;
  std::vector<tern::future<void>> moves;
  std::vector<bool> known(objects.size());
  std::vector<std::int64_t> numbers(objects.size());
  std::int64_t answered = 0, ended = 0;
  const auto is_gone = [](const tern::error& e) {
    TERN_HOLDS(e.code() == tern::errc::not_found &&
                   std::string(e.what()).find("has been destroyed") != std::string::npos,
               std::string("unexpected: ") + e.what());
  };
  for (std::int64_t i = 0; i < knob("invocations"); ++i) {
    const std::size_t o = any_of(objects);
    if (rolls().chance(0.1)) {
      ends.emplace_back(o, tern::destroy(objects[o]));
      if (rolls().chance(0.3)) {
        try {
          ends.back().second.get();
          ++ended;
        } catch (const tern::error& e) {
          is_gone(e);
        }
        ends.pop_back();
        known[o] = true;
      }
    } else if (rolls().chance(0.05 * static_cast<double>(knob("moves")))) {
      moves.push_back(tern::migrate(objects[o], any_rank()));
    } else if (rolls().chance(0.2)) {
      open.push_back({tern::call<&migrating_object::pause>(objects[o], rank(), numbers[o]++), known[o]});
    } else if (rolls().chance(0.5)) {
      open.push_back({tern::call<&migrating_object::write>(objects[o], rank(), numbers[o]++), known[o]});
    } else {
      open.push_back({tern::call<&migrating_object::read>(objects[o], rank(), numbers[o]++), known[o]});
    }
    take_time();
  }
  for (open_call& c : open) {
    try {
      static_cast<void>(c.answer.get());
      TERN_HOLDS(!c.after, "an invocation after the object's end was answered");
      ++answered;
    } catch (const tern::error& e) {
      is_gone(e);
    }
  }
  for (auto& f : moves) {
    try {
      f.get();
    } catch (const tern::error& e) {
      if (std::string(e.what()).find("fails by chance") == std::string::npos) is_gone(e);
    }
  }
  for (auto& [o, f] : ends) {
    try {
      f.get();
      ++ended;
    } catch (const tern::error& e) {
      is_gone(e);
    }
  }
  all->sent += answered; // here: those that were answered
  tern::barrier();
  TERN_HOLDS(all->sent == all->ran, text(all->ran) + " invocations ran and " + text(all->sent) + " were answered");
  TERN_HOLDS(tern::allreduce(ended, std::plus<>()) <= knob("objects"), "an object was destroyed twice");
  tern::barrier();
}

// Invokes and moves them, and waits for nothing.
void begin_storm(const std::vector<pointer>& objects, std::vector<std::int64_t>& numbers) {
  for (std::int64_t i = 0; i < knob("invocations"); ++i) {
    const std::size_t o = any_of(objects);
    if (rolls().chance(0.05 * static_cast<double>(knob("moves"))))
      static_cast<void>(tern::migrate(objects[o], any_rank()));
    else
      tern::send<&migrating_object::write>(objects[o], rank(), numbers[o]++), ++all->sent;
    if (rolls().chance(0.3)) take_time();
  }
}
void expect_all_ran() {
  TERN_HOLDS(all->sent == all->ran, text(all->sent) + " invocations were sent and " + text(all->ran) + " ran");
  tern::barrier();
}

// Everything that an epoch caused is over when it is, though its objects move.
TERN_PROPERTY(epochs_follow_objects, "ranks=1..8 workers=1..3 faults=delay:reorder:slow:pause network=any room=0..8 "
                                     "known=0..100 debug=0..3 objects=1..4 invocations=1..30 moves=0..10 memory=0..3") {
  const auto objects = make_objects(knob("objects"));
  std::vector<std::int64_t> numbers(objects.size());
  tern::epoch mine("mine");
  mine.run([&] { begin_storm(objects, numbers); });
  mine.wait();
  tern::barrier();
  expect_all_ran();
}

// And before quiesce returns.
TERN_PROPERTY(quiesce_follows_objects, "ranks=1..8 workers=1..3 faults=delay:reorder:slow:pause network=any room=0..8 "
                                       "known=0..100 debug=0..3 objects=1..4 invocations=1..30 moves=0..10 "
                                       "rounds=1..5") {
  const auto objects = make_objects(knob("objects"));
  std::vector<std::int64_t> numbers(objects.size());
  for (std::int64_t i = 0; i < knob("rounds"); ++i) {
    begin_storm(objects, numbers);
    tern::quiesce();
    expect_all_ran();
  }
}

} // namespace migration_properties
