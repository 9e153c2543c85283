// SPDX-License-Identifier: Apache-2.0
// A rank dies, and the others go on: rods that warm up, with copies in memory.
// TERN_SIM=ranks=4,faults=crash=2@5ms 30_survive
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

#include <tern/tern.hpp>

using namespace std::chrono_literals;

class rod {
public:
  rod() = default; // to be made again
  explicit rod(const tern::indices<1>& at) : heat_(100), flame_(1 + static_cast<double>(at[0])) {}
  void step() {
    heat_.front() = flame_;
    for (std::size_t i = 1; i + 1 < heat_.size(); ++i) heat_[i] += (heat_[i - 1] - heat_[i]) / 2;
    tern::this_fiber::sleep_for(100us); // as if it were more work
  }
  double heat() const {
    double sum = 0;
    for (const double h : heat_) sum += h;
    return sum;
  }
  template <class A> void serialize(A& ar) { ar(heat_, flame_); }

private:
  std::vector<double> heat_;
  double flame_ = 0;
};

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    tern::mobile_array<rod> rods;
    int step = 0;
    if (tern::rank() == 0) rods = tern::mobile_array<rod>({8});
    rods = tern::broadcast(rods);
    const auto done = tern::protect(
        tern::every(1ms),
        [&] { // on all ranks, again and again; once more if a rank has died
          const bool first = tern::communicator::world().rank() == 0; // of those that live
          if (first) tern::call<&rod::step>(rods).get();
          if (++step < 100) return true;
          if (first)
            std::printf("after %d steps: %.1f\n", step, tern::reduce<&rod::heat>(rods, std::plus<>()).get() / 8);
          return false;
        },
        rods, step);
    if (tern::communicator::world().rank() == 0)
      for (const int rank : done.lost) std::printf("rank %d died\n", rank);
    return 0;
  });
}
