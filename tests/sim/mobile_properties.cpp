// SPDX-License-Identifier: Apache-2.0
// What mobile objects promise: each invocation once and in order, exclusive ones alone, and a clean
// end.
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <tern/mobile/object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/future.hpp>

#include "property.hpp"
#include "watched.hpp"

namespace mobile_properties {

using namespace tern::property;
using tern::mobile_ptr;
using tern::rank;
using tern::size;

std::string text(std::int64_t n) { return std::to_string(n); }
int any_rank() { return static_cast<int>(rolls().below(size())); }

struct totals {
  std::int64_t sent = 0, ran = 0, made = 0, dropped = 0;
};
per_case<totals> all;

// Checks which invocations are inside at once.
class guarded {
public:
  guarded() { ++all->made; }
  guarded(const guarded&) = delete;
  guarded& operator=(const guarded&) = delete;
  ~guarded() {
    TERN_HOLDS(inside_.nobody(), "an object was destroyed while somebody was inside");
    TERN_HOLDS(!gone_, "an object was destroyed twice");
    gone_ = true;
    ++all->dropped;
  }

  std::int64_t write(int from, std::int64_t number) {
    begin(from, number);
    inside_.write();
    ++all->ran;
    return number;
  }
  std::int64_t read(int from, std::int64_t number) const {
    begin(from, number);
    inside_.read();
    ++all->ran;
    return number;
  }
  std::int64_t value() const { return inside_.value(); }

private:
  void begin(int from, std::int64_t number) const {
    TERN_HOLDS(!gone_, "an invocation began on a destroyed object");
    if (number < 0) return; // sent from many fibers: in no order
    std::int64_t& due = next_[from];
    TERN_HOLDS(number == due,
               "invocation " + text(number) + " of rank " + text(from) + " began when " + text(due) + " was due");
    due = number + 1;
  }
  mutable std::map<int, std::int64_t> next_;
  watched inside_;
  bool gone_ = false;
};
using pointer = mobile_ptr<guarded>;

// The same objects on all ranks; anywhere.
std::vector<pointer> make_objects(std::int64_t n) {
  std::vector<pointer> objects;
  if (rank() == 0)
    for (std::int64_t i = 0; i < n; ++i) objects.push_back(tern::create_on<guarded>(any_rank()).get());
  return tern::broadcast(objects);
}
std::size_t any_of(const std::vector<pointer>& objects) {
  return static_cast<std::size_t>(rolls().below(static_cast<std::int64_t>(objects.size())));
}
void expect_all_gone() {
  if (rank() == 0)
    afterwards([](const ending&) {
      TERN_HOLDS(all->made == all->dropped,
                 text(all->made) + " objects were made and " + text(all->dropped) + " destroyed");
    });
}

TERN_PROPERTY(once_and_in_order, "ranks=1..12 workers=1..3 faults=delay:reorder:slow:pause network=any objects=1..6 "
                                 "invocations=1..80") {
  expect_all_gone();
  const auto objects = make_objects(knob("objects"));
  std::vector<std::int64_t> numbers(objects.size());
  std::int64_t writes = 0;
  for (std::int64_t i = 0; i < knob("invocations"); ++i) {
    const std::size_t o = any_of(objects);
    const bool write = rolls().chance(0.5);
    const std::int64_t number = numbers[o]++;
    ++all->sent;
    writes += write;
    if (rolls().chance(0.2)) {
      const std::int64_t got = write ? tern::call<&guarded::write>(objects[o], rank(), number).get()
                                     : tern::call<&guarded::read>(objects[o], rank(), number).get();
      TERN_HOLDS(got == number, "another invocation's answer");
    } else if (write) {
      tern::send<&guarded::write>(objects[o], rank(), number);
    } else {
      tern::send<&guarded::read>(objects[o], rank(), number);
    }
    if (rolls().chance(0.3)) take_time();
  }
  tern::quiesce();
  TERN_HOLDS(all->sent == all->ran, text(all->sent) + " invocations were sent and " + text(all->ran) + " ran");
  tern::barrier();
  std::int64_t sum = 0;
  for (const pointer o : objects) sum += tern::call<&guarded::value>(o).get();
  TERN_HOLDS(sum == tern::allreduce(writes, std::plus<>()), "an exclusive invocation was lost");
}

// Many fibers, each waiting for its own answers.
TERN_PROPERTY(exclusive_means_alone, "ranks=1..8 workers=1..3 faults=delay:reorder:slow:pause objects=1..3 fibers=1..6 "
                                     "invocations=1..12") {
  expect_all_gone();
  const auto objects = make_objects(knob("objects"));
  std::vector<tern::future<std::int64_t>> fibers;
  for (std::int64_t f = 0; f < knob("fibers"); ++f)
    fibers.push_back(tern::async([&] {
      std::int64_t writes = 0;
      for (std::int64_t i = 0; i < knob("invocations"); ++i) {
        const pointer o = objects[any_of(objects)];
        if (rolls().chance(0.5)) {
          tern::call<&guarded::write>(o, rank(), -1).get();
          ++writes;
        } else {
          tern::call<&guarded::read>(o, rank(), -1).get();
        }
      }
      return writes;
    }));
  std::int64_t writes = 0;
  for (auto& f : fibers) writes += f.get();
  writes = tern::allreduce(writes, std::plus<>());
  std::int64_t sum = 0;
  for (const pointer o : objects) sum += tern::call<&guarded::value>(o).get();
  TERN_HOLDS(sum == writes, text(writes) + " exclusive invocations left " + text(sum));
}

// Destroyed in the middle of it: each caller has an answer or an error, and the error only when it
// may.
struct open_call {
  std::size_t object;
  tern::future<std::int64_t> answer;
  bool after;  // its sender knew that the object was gone
  bool before; // its sender destroyed the object later
};
TERN_PROPERTY(destroyed_with_open_calls, "ranks=1..10 workers=1..3 faults=delay:reorder:slow:pause network=any "
                                         "objects=1..5 invocations=1..50") {
  expect_all_gone();
  const auto objects = make_objects(knob("objects"));
  std::vector<open_call> open;
  std::vector<std::pair<std::size_t, tern::future<void>>> ends;
  std::vector<bool> known(objects.size());
  std::int64_t answered = 0, ended = 0;
  const auto is_gone = [](const tern::error& e) {
    TERN_HOLDS(e.code() == tern::errc::not_found, std::string("unexpected: ") + e.what());
    TERN_HOLDS(std::string(e.what()).find("has been destroyed") != std::string::npos,
               std::string("unexpected: ") + e.what());
  };
  const auto end_one = [&](std::size_t object, tern::future<void>& f) {
    try {
      f.get();
      ++ended;
    } catch (const tern::error& e) {
      is_gone(e);
    }
    known[object] = true;
  };
  for (std::int64_t i = 0; i < knob("invocations"); ++i) {
    const std::size_t o = any_of(objects);
    if (rolls().chance(0.1)) {
      for (open_call& c : open) c.before = c.before || c.object == o;
      ends.emplace_back(o, tern::destroy(objects[o]));
      if (rolls().chance(0.5)) {
        end_one(o, ends.back().second);
        ends.pop_back();
      }
    } else if (rolls().chance(0.5)) {
      open.push_back({o, tern::call<&guarded::write>(objects[o], rank(), -1), known[o], false});
    } else {
      open.push_back({o, tern::call<&guarded::read>(objects[o], rank(), -1), known[o], false});
    }
    take_time();
  }
  for (open_call& c : open) {
    try {
      TERN_HOLDS(c.answer.get() == -1, "another invocation's answer");
      TERN_HOLDS(!c.after, "an invocation after the object's end was answered");
      ++answered;
    } catch (const tern::error& e) {
      is_gone(e);
    }
  }
  for (auto& [o, f] : ends) end_one(o, f);
  all->sent += answered; // here: those that were answered
  tern::barrier();
  TERN_HOLDS(all->sent == all->ran, text(all->ran) + " invocations ran and " + text(all->sent) + " were answered");
  ended = tern::allreduce(ended, std::plus<>());
  TERN_HOLDS(ended == all->dropped,
             text(all->dropped) + " objects were destroyed, with success " + text(ended) + " times");
  tern::barrier();
}

// Objects that invoke each other, in a circle, while quiesce waits.
class link {
public:
  explicit link(int depth) : depth_(depth) {}
  void set_next(mobile_ptr<link> next) { next_ = next; }
  void pass(std::int64_t left) {
    take_time();
    ++seen_;
    ++all->ran;
    if (left > 0) {
      ++all->sent;
      tern::send<&link::pass>(next_, left - 1);
    }
    take_time();
  }
  std::int64_t seen() const { return seen_; }
  int depth() const { return depth_; }

private:
  mobile_ptr<link> next_;
  std::int64_t seen_ = 0;
  int depth_ = 0;
};

TERN_PROPERTY(objects_invoke_objects, "ranks=1..12 workers=1..3 faults=delay:reorder:slow:pause network=any "
                                      "objects=1..8 tokens=1..5 steps=0..40") {
  std::vector<mobile_ptr<link>> ring;
  if (rank() == 0) {
    for (int i = 0; i < knob("objects"); ++i) ring.push_back(tern::create_on<link>(any_rank(), i).get());
    for (std::size_t i = 0; i < ring.size(); ++i)
      tern::call<&link::set_next>(ring[i], ring[(i + 1) % ring.size()]).get();
  }
  ring = tern::broadcast(ring);
  for (std::int64_t t = 0; t < knob("tokens"); ++t) {
    ++all->sent;
    tern::send<&link::pass>(ring[static_cast<std::size_t>(rolls().below(static_cast<std::int64_t>(ring.size())))],
                            rolls().below(knob("steps") + 1));
    take_time();
  }
  tern::quiesce();
  TERN_HOLDS(all->sent == all->ran, text(all->sent) + " invocations were sent and " + text(all->ran) + " ran");
  tern::barrier();
  std::int64_t seen = 0;
  for (std::size_t i = 0; i < ring.size(); ++i) {
    seen += tern::call<&link::seen>(ring[i]).get();
    TERN_HOLDS(tern::call<&link::depth>(ring[i]).get() == static_cast<int>(i), "another object answered");
  }
  TERN_HOLDS(seen == all->ran, "an invocation was lost");
}

} // namespace mobile_properties
