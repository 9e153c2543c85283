// SPDX-License-Identifier: Apache-2.0
/// \file
/// A job for object_trace_test: objects that move while all ranks talk to them.
#include <cstdio>
#include <string>
#include <utility>

#include <tern/mobile/names.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>

struct walker {
  int greetings = 0;
  void greet() { ++greetings; }
  int count() const {
    tern::this_fiber::yield(); // in two slices
    return greetings;
  }
  template <class A> void serialize(A& ar) { ar(greetings); }
};

class ship {
public:
  ship() = default;
  explicit ship(std::string name) : name_(std::move(name)) {}
  const std::string& name() const { return name_; }
  void sail() { ++miles_; }
  template <class A> void serialize(A& ar) { ar(name_, miles_); }

private:
  std::string name_;
  int miles_ = 0;
};

struct buoy {
  void ring() {}
};

// Each walker visits every rank and comes home, each ship goes to the next rank and stays there.
// A rank that has not been told a walker's place sends to the walker's home, which forwards the
// message: the first or the second greeting of some rank.
int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    const int next = (tern::rank() + 1) % tern::size();
    const auto mine = tern::create<walker>();
    const auto vessel = tern::create<ship>("HMS " + std::to_string(tern::rank()));
    if (tern::rank() == 0) tern::publish("north", tern::create<buoy>()).get();
    tern::call<&buoy::ring>(tern::find<buoy>("north").get()).get();
    const auto walkers = tern::communicator::world().allgather(mine);
    for (int stop = 1; stop <= tern::size(); ++stop) tern::migrate(mine, (tern::rank() + stop) % tern::size()).get();
    tern::migrate(vessel, next).get();
    tern::barrier();
    tern::send<&ship::sail>(vessel);
    for (const auto& w : walkers) tern::send<&walker::greet>(w);
    tern::migrate(mine, next).get();
    tern::barrier();
    for (const auto& w : walkers) tern::send<&walker::greet>(w);
    tern::quiesce();
    const int greeted = tern::call<&walker::count>(mine).get();
    if (tern::rank() == 0) std::printf("greeted %d times\n", greeted);
    return greeted == 2 * tern::size() ? 0 : 1;
  });
}
