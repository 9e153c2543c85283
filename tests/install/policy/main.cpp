// SPDX-License-Identifier: Apache-2.0
// Work for rank 0 alone, in a program that knows no policy: the option chooses one. Prints what all
// ranks agree on.
#include <cstdio>
#include <vector>

#include <tern/tern.hpp>

struct task {
  int rank = -1;
  void run() {
    tern::sim::charge(1e-3); // in a simulation
    if (!tern::sim::active()) tern::this_fiber::sleep_for(std::chrono::milliseconds(1));
    rank = tern::rank();
  }
  int ran_on() const { return rank; }
  static constexpr double workload = 1e-3;
  template <class A> void serialize(A& ar) { ar(rank); }
};

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    std::vector<tern::mobile_ptr<task>> tasks;
    for (int i = 0; tern::rank() == 0 && i < 200; ++i) tasks.push_back(tern::create<task>());
    for (const auto& t : tasks) tern::send<&task::run>(t);
    tern::quiesce();
    int ran = 0, elsewhere = 0;
    for (const auto& t : tasks) {
      const int where = tern::call<&task::ran_on>(t).get();
      ran += where >= 0;
      elsewhere += where > 0;
    }
    if (tern::rank() == 0)
      std::printf("%d ran, policy %s, %s\n", ran, tern::balance::in_use().c_str(),
                  elsewhere > 0 ? "some elsewhere" : "none elsewhere");
    return 0;
  });
}
