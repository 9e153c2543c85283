// SPDX-License-Identifier: Apache-2.0
// A load-balancing policy of your own: an idle rank asks the next rank, which gives half of its
// waiting load.
#include <algorithm>
#include <cstdio>
#include <vector>

#include <tern/tern.hpp>

using namespace tern::balance;

struct question { // the only message from rank to rank
  double have;
  template <class A> void serialize(A& ar) { ar(have); }
};

class ask_next : public policy {
public:
  ask_next(policy_context& rank, parameters& p) : policy(rank), share_(p.number("share", 0.5, 0.1, 0.9)) {
    on(&ask_next::asked);
  }

  void dist_balance(trigger why) override {
    if (why == trigger::idle && here.size() > 1) send((here.rank() + 1) % here.size(), question{here.load()});
  }
  void notify(object_id) override { // a load has changed: another rank may wait for it
    if (waits_ >= 0 && here.ready() > 1) give(waits_);
  }

private:
  void asked(int from, const question&) {
    waits_ = from;
    if (here.ready() > 1) give(from);
  }
  void give(int to) {
    waits_ = -1;
    double left = share_ * here.waiting();
    for (const object_info& o : here.objects()) { // the heaviest first
      if (!o.movable || o.pending == 0 || o.load > left) continue;
      here.move(o.id, to); // with its pending invocations
      left -= o.load;
    }
  }
  const double share_;
  int waits_ = -1;
};
const registered_policy<ask_next> the_policy("ask-next", "idle ranks ask the next one for half of what it has");

struct job {
  int ran_on = -1;
  void run() {
    tern::sim::charge(1e-3); // in a simulation: a millisecond of virtual time
    if (!tern::sim::active()) tern::this_fiber::sleep_for(std::chrono::milliseconds(1));
    ran_on = tern::rank();
  }
  int where() const { return ran_on; }
  static constexpr double workload = 1e-3;
  template <class A> void serialize(A& ar) { ar(ran_on); }
};

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    if (tern::rank() == 0) use("ask-next:share=0.5").get();
    tern::barrier();
    std::vector<tern::mobile_ptr<job>> jobs;
    for (int i = 0; tern::rank() == 0 && i < 60; ++i) jobs.push_back(tern::create<job>());
    for (const auto& j : jobs) tern::send<&job::run>(j);
    tern::quiesce();
    const auto ran =
        std::count_if(jobs.begin(), jobs.end(), [](auto j) { return tern::call<&job::where>(j).get() >= 0; });
    if (tern::rank() == 0) std::printf("%d jobs, policy %s\n", static_cast<int>(ran), in_use().c_str());
    return tern::rank() != 0 || ran == 60 ? 0 : 1;
  });
}
