// SPDX-License-Identifier: Apache-2.0
// What functions over several objects promise, against a plain sequential model: each runs once
// with access to all of its objects, or not at all and says why, whatever else is claimed, moves,
// ends or cannot be packed meanwhile; and all of them come to an end.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tern/mobile/together.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/epoch.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/future.hpp>

#include "property.hpp"
#include "travellers.hpp"

namespace together_properties {

using namespace tern::property;
using tern::mobile_ptr;
using tern::rank;
using tern::size;
using tern::property::travellers::any_rank;
using tern::property::travellers::text;

// The model ----------------------------------------------------------------------------------------------------------

struct account {
  std::int64_t value = 0;
  int writers = 0, readers = 0; // inside it at this moment
  bool dying = false;           // it was asked to end
  bool pinned = false;          // it was asked to stay, at some time
};
struct model {
  std::vector<account> accounts;
  std::map<std::int64_t, int> ran; // functions, by number
  std::int64_t made = 0, dropped = 0, next = 0;
  double failures = 0;
  bool disks = false;
};
per_case<model> truth;

class vault {
public:
  vault() { ++truth->made; }
  explicit vault(std::int64_t number) : number_(number) { ++truth->made; }
  vault(const vault&) = delete;
  vault& operator=(const vault&) = delete;
  ~vault() {
    ++truth->dropped;
    if (rank_ == rank()) TERN_HOLDS(!inside_, "an object was destroyed while a function was inside");
  }
  template <class A> void save(A& ar) const {
    TERN_HOLDS(mine().writers == 0, "object " + text(number_) + " was packed while a function was inside");
    if (rolls().chance(truth->failures)) throw tern::error(tern::errc::io, "packing fails by chance");
    ar(number_, value_, next_);
  }
  template <class A> void load(A& ar) {
    if (!truth->disks && rolls().chance(truth->failures))
      throw tern::error(tern::errc::io, "unpacking fails by chance");
    ar(number_, value_, next_);
    take_time();
  }

  // A plain invocation, in its sender's order.
  std::int64_t note(std::int64_t from, std::int64_t number) {
    enter(true);
    TERN_HOLDS(next_[from] == number, "invocation " + text(number) + " of fiber " + text(from) + " began on object " +
                                          text(number_) + " when " + text(next_[from]) + " was due");
    next_[from] = number + 1;
    if (rolls().chance(0.2)) take_time();
    leave(true);
    return number;
  }
  // Releases its access, and may wait for a function over itself and others meanwhile.
  void pause(const std::vector<mobile_ptr<vault>>& others, std::int64_t from, const std::vector<std::int64_t>& sent,
             std::int64_t number);

  void enter(bool alone) const {
    account& a = mine();
    TERN_HOLDS(a.writers == 0 && (!alone || a.readers == 0),
               "a function has object " + text(number_) + " beside another");
    TERN_HOLDS(a.value == value_, "object " + text(number_) + " has " + text(value_) + ", not " + text(a.value));
    ++(alone ? a.writers : a.readers);
    inside_ = true;
    rank_ = rank();
  }
  void leave(bool alone) const {
    account& a = mine();
    --(alone ? a.writers : a.readers);
    inside_ = false;
  }
  void add(std::int64_t n) {
    value_ += n;
    mine().value += n;
  }
  std::int64_t value() const { return value_; }
  std::int64_t number() const { return number_; }
  std::int64_t due(std::int64_t from) const {
    const auto found = next_.find(from);
    return found == next_.end() ? 0 : found->second;
  }

private:
  account& mine() const { return truth->accounts[static_cast<std::size_t>(number_)]; }
  std::int64_t number_ = 0, value_ = 0;
  std::map<std::int64_t, std::int64_t> next_;
  mutable bool inside_ = false;
  mutable int rank_ = -1;
};
using pointer = mobile_ptr<vault>;

// What was sent by the caller before has come.
void check_order(const vault& v, std::int64_t from, std::int64_t sent) {
  TERN_HOLDS(v.due(from) >= sent, "a function of fiber " + text(from) + " began on object " + text(v.number()) +
                                      " when " + text(v.due(from)) + " of " + text(sent) + " invocations had come");
}

/// From each of the others to the main one.
std::int64_t gather(vault& main, std::span<vault* const> others, std::int64_t from,
                    const std::vector<std::int64_t>& sent, std::int64_t number) {
  TERN_HOLDS(++truth->ran[number] == 1, "function " + text(number) + " ran twice");
  check_order(main, from, sent[0]);
  for (std::size_t i = 0; i < others.size(); ++i) check_order(*others[i], from, sent[i + 1]);
  const auto enter = [&] {
    main.enter(true);
    for (const vault* const v : others) v->enter(true);
  };
  const auto leave = [&] {
    main.leave(true);
    for (const vault* const v : others) v->leave(true);
  };
  enter();
  for (vault* const v : others) {
    v->add(-1);
    if (rolls().chance(0.3)) take_time();
    main.add(1);
  }
  if (rolls().chance(0.1)) {
    leave();
    {
      const tern::release_access meanwhile;
      take_time();
    }
    enter();
  }
  if (rolls().chance(0.3)) take_time();
  leave();
  return number;
}
/// The same for readers of the others.
std::int64_t look(vault& main, std::span<const vault* const> others, std::int64_t from,
                  const std::vector<std::int64_t>& sent, std::int64_t number) {
  TERN_HOLDS(++truth->ran[number] == 1, "function " + text(number) + " ran twice");
  check_order(main, from, sent[0]);
  for (std::size_t i = 0; i < others.size(); ++i) check_order(*others[i], from, sent[i + 1]);
  main.enter(true);
  for (const vault* const v : others) v->enter(false);
  if (rolls().chance(0.5)) take_time();
  std::int64_t sum = 0;
  for (const vault* const v : others) sum += v->value();
  main.add(sum % 3);
  for (const vault* const v : others) v->leave(false);
  main.leave(true);
  if (rolls().chance(0.05)) throw tern::error(tern::errc::unsupported, "thrown by chance");
  return number;
}

void vault::pause(const std::vector<pointer>& others, std::int64_t from, const std::vector<std::int64_t>& sent,
                  std::int64_t number) {
  enter(true);
  leave(true);
  {
    const tern::release_access meanwhile;
    take_time();
    if (!others.empty()) {
      try {
        const std::int64_t got = tern::call_together<&gather>(tern::self<vault>(), others, from, sent, number).get();
        TERN_HOLDS(got == number, "another function's answer");
      } catch (const tern::error&) {
        TERN_HOLDS(truth->ran[number] == 0, "a function failed that has run");
      }
    }
  }
  enter(true);
  leave(true);
}

// --------------------------------------------------------------------------------------------------------------------

struct open_function {
  tern::future<std::int64_t> answer;
  std::int64_t number;
  std::vector<std::size_t> objects;
};

void settle(open_function& one) {
  try {
    TERN_HOLDS(one.answer.get() == one.number, "another function's answer");
    TERN_HOLDS(truth->ran[one.number] == 1, "function " + text(one.number) + " has an answer and did not run");
  } catch (const tern::error& e) {
    const std::string why = e.what();
    if (why.find("thrown by chance") != why.npos) {
      TERN_HOLDS(truth->ran[one.number] == 1, "function " + text(one.number) + " threw and did not run");
      return;
    }
    TERN_HOLDS(truth->ran[one.number] == 0, "function " + text(one.number) + " ran and failed: " + why);
    const auto any = [&](auto what) {
      return std::any_of(one.objects.begin(), one.objects.end(),
                         [&](std::size_t i) { return what(truth->accounts[i]); });
    };
    const bool chance = truth->failures > 0 && why.find("fails by chance") != why.npos;
    const bool gone = e.code() == tern::errc::not_found && any([](const account& a) { return a.dying; });
    const bool pinned = e.code() == tern::errc::invalid_state && any([](const account& a) { return a.pinned; });
    TERN_HOLDS(chance || gone || pinned, "unexpected: " + why);
  }
}
void expect_answer(tern::future<void>& f) {
  try {
    f.get();
  } catch (const tern::error& e) {
    const std::string why = e.what();
    TERN_HOLDS(e.code() == tern::errc::not_found || (truth->failures > 0 && why.find("fails by chance") != why.npos) ||
                   why.find("is pinned") != why.npos,
               "unexpected: " + why);
  }
}

TERN_PROPERTY(all_or_none,
              "ranks=1..8 workers=1..3 faults=delay:reorder:slow:pause network=any room=0..8 aggregate=0..2 "
              "known=0..100 objects=2..8 width=1..4 functions=1..25 moves=0..8 failures=0..6 ends=0..2 pins=0..2 "
              "pauses=0..3 debug=0..2 memory=0..3") {
  const bool debug = knob("debug") > 0; // which moves objects of its own accord, and has no caller to tell of failures
  std::vector<pointer> objects;
  if (rank() == 0) {
    truth->accounts.resize(static_cast<std::size_t>(knob("objects")));
    truth->failures = debug ? 0 : 0.05 * static_cast<double>(knob("failures"));
    truth->disks = knob("memory") > 0;
    for (std::int64_t i = 0; i < knob("objects"); ++i) objects.push_back(tern::create_on<vault>(any_rank(), i).get());
    afterwards([](const ending&) {
      TERN_HOLDS(truth->made == truth->dropped,
                 text(truth->made) + " copies were made and " + text(truth->dropped) + " destroyed");
    });
  }
  objects = tern::broadcast(objects);
  std::vector<std::int64_t> sent(objects.size());
  std::vector<open_function> open;
  std::vector<tern::future<void>> others;
  const std::int64_t me = rank();
  const auto n = static_cast<std::int64_t>(objects.size());
  const auto choose = [&] {
    std::vector<std::size_t> chosen;
    const std::int64_t width = std::min(n, rolls().between(1, knob("width") + 1));
    while (static_cast<std::int64_t>(chosen.size()) < width) {
      const auto i = static_cast<std::size_t>(rolls().below(n));
      if (std::find(chosen.begin(), chosen.end(), i) == chosen.end()) chosen.push_back(i);
    }
    return chosen;
  };
  for (std::int64_t i = 0; i < knob("functions"); ++i) {
    if (rolls().chance(0.3)) take_time();
    const auto o = static_cast<std::size_t>(rolls().below(n));
    account& a = truth->accounts[o];
    if (rolls().chance(0.05 * static_cast<double>(knob("moves")))) {
      others.push_back(truth->disks && rolls().chance(0.3) ? tern::swap_out(objects[o])
                                                           : tern::migrate(objects[o], any_rank()));
    } else if (rolls().chance(0.03 * static_cast<double>(knob("ends")))) {
      a.dying = true;
      others.push_back(tern::destroy(objects[o]));
    } else if (!debug && rolls().chance(0.05 * static_cast<double>(knob("pins")))) {
      a.pinned = true;
      others.push_back(tern::pin(objects[o]));
      if (rolls().chance(0.8)) others.push_back(tern::unpin(objects[o]));
    } else if (knob("ends") == 0 && rolls().chance(0.3)) {
      tern::send<&vault::note>(objects[o], me, sent[o]++);
    } else {
      const auto chosen = choose();
      std::vector<pointer> rest;
      std::vector<std::int64_t> before;
      for (const std::size_t c : chosen) {
        before.push_back(sent[c]);
        if (c != chosen[0]) rest.push_back(objects[c]);
      }
      const std::int64_t number = truth->next++;
      if (knob("ends") == 0 && rolls().chance(0.1 * static_cast<double>(knob("pauses")))) {
        // From an invocation, which may not fail: its order is not that of this fiber. An object
        // whose invocation waits does not move. So it waits for those before it only: else two
        // could wait for each other.
        std::erase_if(rest, [&](pointer p) {
          return std::find(objects.begin(), objects.begin() + static_cast<std::ptrdiff_t>(chosen[0]), p) ==
                 objects.begin() + static_cast<std::ptrdiff_t>(chosen[0]);
        });
        tern::send<&vault::pause>(objects[chosen[0]], rest, me, std::vector<std::int64_t>(rest.size() + 1), number);
      } else if (rolls().chance(0.6)) {
        open.push_back({tern::call_together<&gather>(objects[chosen[0]], rest, me, before, number), number, chosen});
      } else {
        open.push_back({tern::call_together<&look>(objects[chosen[0]], rest, me, before, number), number, chosen});
      }
    }
    if (!open.empty() && rolls().chance(0.4)) settle(open.back()), open.pop_back();
    if (!others.empty() && rolls().chance(0.3)) expect_answer(others.back()), others.pop_back();
  }
  for (open_function& one : open) settle(one);
  for (auto& one : others) expect_answer(one);
  tern::quiesce();
  // Nothing is left claimed: all can be had, and have what the model says.
  if (rank() == 0)
    for (std::size_t i = 0; i < objects.size(); ++i) {
      const account& a = truth->accounts[i];
      TERN_HOLDS(a.writers == 0 && a.readers == 0, "a function is inside when all have ended");
      try {
        static_cast<void>(tern::call<&vault::value>(objects[i]).get());
      } catch (const tern::error& e) {
        TERN_HOLDS(a.dying, std::string("unexpected: ") + e.what());
      }
    }
  tern::barrier();
}

// What a function over several objects causes within an epoch is over at its end.
TERN_PROPERTY(epochs_follow_functions,
              "ranks=1..8 workers=1..3 faults=delay:reorder:slow:pause network=any objects=2..5 "
              "functions=1..8 moves=0..5") {
  std::vector<pointer> objects;
  if (rank() == 0) {
    truth->accounts.resize(static_cast<std::size_t>(knob("objects")));
    for (std::int64_t i = 0; i < knob("objects"); ++i) objects.push_back(tern::create_on<vault>(any_rank(), i).get());
  }
  objects = tern::broadcast(objects);
  const auto n = static_cast<std::int64_t>(objects.size());
  for (std::int64_t i = 0; i < knob("functions"); ++i) {
    const auto a = static_cast<std::size_t>(rolls().below(n)), b = (a + 1) % objects.size();
    const std::int64_t number = truth->next++;
    if (rolls().chance(0.1 * static_cast<double>(knob("moves")))) tern::migrate(objects[b], any_rank()).get();
    tern::finish([&] {
      static_cast<void>(tern::call_together<&gather>(objects[a], {objects[b]}, std::int64_t{0},
                                                     std::vector<std::int64_t>{0, 0}, number));
    });
    TERN_HOLDS(truth->ran[number] == 1, "an epoch was over when its function had not run");
  }
  tern::quiesce();
}

} // namespace together_properties
