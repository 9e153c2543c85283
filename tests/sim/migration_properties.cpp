// SPDX-License-Identifier: Apache-2.0
// What mobile objects promise while they move: each invocation once, in order, on the one live copy; every future set
// or failed with a reason; nothing lost.
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
#include "watched.hpp"

namespace migration_properties {

using namespace tern::property;
using tern::mobile_ptr;
using tern::rank;
using tern::size;

// How many objects that have moved each rank remembers: so few that it must forget some all the time.
const option_knob known_knob{"known", [](tern::options& of, std::int64_t value) {
                               of.set(tern::mobile::known_option, static_cast<int>(value));
                             }};

// Objects move after each invocation, or are packed and unpacked where they are.
const option_knob debug_knob{"debug", [](tern::options& of, std::int64_t value) {
                               static const char* const words[] = {"none", "rotate", "random", "reserialize"};
                               of.set(tern::mobile::debug_option, words[std::clamp<std::int64_t>(value, 0, 3)]);
                             }};

// How many bytes of objects stay in memory: all, none, or few. And how many there may be on disk.
const option_knob memory_knob{"memory", [](tern::options& of, std::int64_t value) {
                                static const char* const words[] = {"0", "1", "120", "1000"};
                                of.set(tern::mobile::memory_option, words[std::clamp<std::int64_t>(value, 0, 3)]);
                              }};
const option_knob disk_knob{"disk", [](tern::options& of, std::int64_t value) {
                              of.set(tern::mobile::disk_option, value == 0 ? "0" : value == 1 ? "4K" : "8K");
                            }};

std::string text(std::int64_t n) { return std::to_string(n); }
int any_rank() { return static_cast<int>(rolls().below(size())); }

struct totals {
  std::int64_t sent = 0, ran = 0, made = 0, dropped = 0, moved = 0, refused = 0;
  std::map<std::int64_t, int> lives_on; // rank of the live copy, by object
  double failures = 0;                  // of packing, and of unpacking what has moved
  bool disks = false;                   // in use: what has been put there can be read
};
per_case<totals> all;

// Its copies: one that has been packed is dead as soon as another one has been unpacked, until which it may live on.
class traveller {
public:
  traveller() { ++all->made; }
  explicit traveller(std::int64_t number) : number_(number) {
    ++all->made;
    all->lives_on[number] = rank();
  }
  traveller(const traveller&) = delete;
  traveller& operator=(const traveller&) = delete;
  ~traveller() {
    ++all->dropped;
    TERN_HOLDS(inside_.nobody(), "an object was destroyed while somebody was inside");
  }

  template <class A> void save(A& ar) const {
    TERN_HOLDS(inside_.nobody(), "an object was packed while somebody was inside");
    if (rolls().chance(all->failures)) throw tern::error(tern::errc::io, "packing fails by chance");
    ar(number_, next_, inside_, padding_);
  }
  template <class A> void load(A& ar) {
    if (!all->disks && rolls().chance(all->failures)) throw tern::error(tern::errc::io, "unpacking fails by chance");
    ar(number_, next_, inside_, padding_);
    take_time();
    if (!all->disks && rolls().chance(all->failures)) throw tern::error(tern::errc::io, "unpacking fails by chance");
    all->lives_on[number_] = rank();
    ++all->moved;
  }

  std::int64_t write(std::int64_t from, std::int64_t number) {
    begin(from, number);
    inside_.write();
    ++all->ran;
    return number;
  }
  // Lets others in meanwhile, and has it alone again afterwards.
  std::int64_t pause(std::int64_t from, std::int64_t number) {
    begin(from, number);
    {
      const tern::release_access meanwhile;
      take_time();
      take_time();
      TERN_HOLDS(all->lives_on[number_] == rank(), "an object moved that an unfinished invocation looked at");
    }
    inside_.write();
    ++all->ran;
    return number;
  }
  std::int64_t read(std::int64_t from, std::int64_t number) const {
    begin(from, number);
    if (rolls().chance(0.1)) {
      const tern::release_access meanwhile;
      take_time();
    }
    inside_.read();
    ++all->ran;
    return number;
  }
  void grow(std::int64_t bytes) { padding_.assign(static_cast<std::size_t>(bytes), 'x'); }
  std::int64_t value() const { return inside_.value(); }

private:
  void begin(std::int64_t from, std::int64_t number) const {
    TERN_HOLDS(all->lives_on[number_] == rank(),
               "an invocation ran on rank " + text(rank()) + " when the object was on " + text(all->lives_on[number_]));
    std::int64_t& due = next_[from];
    TERN_HOLDS(number == due, "invocation " + text(number) + " of fiber " + text(from) + " began on object " +
                                  text(number_) + " when " + text(due) + " was due");
    due = number + 1;
  }
  std::int64_t number_ = -1;
  watched inside_;
  mutable std::map<std::int64_t, std::int64_t> next_;
  std::string padding_;
};
using pointer = mobile_ptr<traveller>;

std::vector<pointer> make_objects(std::int64_t n) {
  std::vector<pointer> objects;
  if (rank() == 0) {
    for (std::int64_t i = 0; i < n; ++i) objects.push_back(tern::create_on<traveller>(any_rank(), i).get());
    afterwards([](const ending&) {
      TERN_HOLDS(all->made == all->dropped,
                 text(all->made) + " copies were made and " + text(all->dropped) + " destroyed");
    });
  }
  return tern::broadcast(objects);
}
std::size_t any_of(const std::vector<pointer>& objects) {
  return static_cast<std::size_t>(rolls().below(static_cast<std::int64_t>(objects.size())));
}
// Whoever asks for it is told, and only what may be.
void expect_moved(tern::future<void>& f) {
  try {
    f.get();
  } catch (const tern::error& e) {
    const std::string why = e.what();
    TERN_HOLDS((all->failures > 0 && why.find("fails by chance") != why.npos) ||
                   (all->disks && why.find("bytes may be stored in") != why.npos),
               "unexpected: " + why);
  }
}

TERN_PROPERTY(once_and_in_order, "ranks=1..10 workers=1..3 faults=delay:reorder:slow:pause network=any room=0..8 "
                                 "aggregate=0..2 known=0..100 objects=1..5 fibers=1..3 invocations=1..50 moves=0..10 "
                                 "failures=0..3 memory=0..3 disk=0..2") {
  all->failures = 0.05 * static_cast<double>(knob("failures"));
  all->disks = knob("memory") > 0;
  const auto objects = make_objects(knob("objects"));
  for (const pointer o : objects)
    if (rolls().chance(0.1)) tern::send<&traveller::grow>(o, rolls().below(100'000));
  std::vector<tern::future<std::int64_t>> fibers;
  for (std::int64_t f = 0; f < knob("fibers"); ++f)
    fibers.push_back(tern::async([&objects, me = rank() * 100 + f] {
      std::vector<std::int64_t> numbers(objects.size());
      std::vector<tern::future<void>> moves;
      std::int64_t writes = 0;
      for (std::int64_t i = 0; i < knob("invocations"); ++i) {
        const std::size_t o = any_of(objects);
        if (rolls().chance(0.05 * static_cast<double>(knob("moves")))) {
          moves.push_back(all->disks && rolls().chance(0.3) ? tern::put_out(objects[o])
                                                            : tern::migrate(objects[o], any_rank()));
          if (rolls().chance(0.3)) expect_moved(moves.back()), moves.pop_back();
          continue;
        }
        const bool write = rolls().chance(0.5);
        const std::int64_t number = numbers[o]++;
        ++all->sent;
        writes += write;
        if (write && rolls().chance(0.3)) {
          tern::send<&traveller::pause>(objects[o], me, number);
        } else if (rolls().chance(0.2)) {
          const std::int64_t got = write ? tern::call<&traveller::write>(objects[o], me, number).get()
                                         : tern::call<&traveller::read>(objects[o], me, number).get();
          TERN_HOLDS(got == number, "another invocation's answer");
        } else if (write) {
          tern::send<&traveller::write>(objects[o], me, number);
        } else {
          tern::send<&traveller::read>(objects[o], me, number);
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
  for (const pointer o : objects) sum += tern::call<&traveller::value>(o).get();
  TERN_HOLDS(sum == tern::allreduce(writes, std::plus<>()), "an exclusive invocation was lost");
  if (rank() == 0)
    for (std::size_t i = 0; i < objects.size(); ++i)
      if (rolls().chance(0.5)) tern::destroy(objects[i]).get();
  tern::barrier();
}

// Destroyed while it moves: each call is answered, or fails because the object is gone; and never when it may not.
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
      open.push_back({tern::call<&traveller::pause>(objects[o], rank(), numbers[o]++), known[o]});
    } else if (rolls().chance(0.5)) {
      open.push_back({tern::call<&traveller::write>(objects[o], rank(), numbers[o]++), known[o]});
    } else {
      open.push_back({tern::call<&traveller::read>(objects[o], rank(), numbers[o]++), known[o]});
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
      tern::send<&traveller::write>(objects[o], rank(), numbers[o]++), ++all->sent;
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
