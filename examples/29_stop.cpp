// SPDX-License-Identifier: Apache-2.0
// Stop and go on: rods that warm up, saved every 20 steps.
// 29_stop FOLDER STEPS [--tern-restart FOLDER]
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <tern/tern.hpp>

class rod {
public:
  rod() = default; // to be read back
  explicit rod(const tern::indices<1>& at) : heat_(100), flame_(1 + static_cast<double>(at[0])) {}
  void step() {
    heat_.front() = flame_;
    for (std::size_t i = 1; i + 1 < heat_.size(); ++i) heat_[i] += (heat_[i - 1] - heat_[i]) / 2;
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
  const std::string folder = argc > 1 ? argv[1] : "rods.ckpt";
  const int steps = argc > 2 ? std::atoi(argv[2]) : 100;
  return tern::run(argc, argv, [&] {
    tern::mobile_array<rod> rods;
    int step = 0;
    if (!tern::restored(rods, step)) { // a new run
      if (tern::rank() == 0) rods = tern::mobile_array<rod>({8});
      rods = tern::broadcast(rods);
    }
    for (; step < steps; ++step) {
      if (step % 20 == 0) tern::checkpoint(folder, rods, step); // all ranks
      if (tern::rank() == 0) tern::call<&rod::step>(rods).get();
    }
    tern::checkpoint(folder, rods, step);
    if (tern::rank() == 0)
      std::printf("after %d steps: %.1f\n", step, tern::reduce<&rod::heat>(rods, std::plus<>()).get() / 8);
    tern::barrier();
    return 0;
  });
}
