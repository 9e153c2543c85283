// SPDX-License-Identifier: Apache-2.0
// Two levels: a policy moves objects to idle ranks, and the workers of one rank share the
// invocation of a heavy object.
#include <atomic>
#include <cmath>
#include <cstdio>
#include <vector>

#include <tern/tern.hpp>

class cell {
public:
  cell() = default;
  explicit cell(int size) : size_(size) {}
  void solve() {
    std::atomic<long> sum{0};
    // Tasklets: idle workers of the rank steal them. If none is idle, this worker runs all of them.
    tern::parallel_for(0, size_, [&](int i) {
      tern::sim::charge(1e-4); // in a simulation: the time of the loop below
      double x = i;
      for (int n = 0; n < 2000; ++n) x = std::sqrt(x + n);
      sum += static_cast<long>(x * 1000);
    });
    result_ = sum;
  }
  long result() const { return result_; }
  double workload(std::size_t pending) const { return 1e-4 * size_ * static_cast<double>(pending); }
  template <class A> void serialize(A& ar) { ar(size_, result_); }

private:
  int size_ = 0;
  long result_ = -1;
};

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    if (tern::rank() == 0) tern::balance::use("steal").get();
    tern::barrier();
    std::vector<tern::mobile_ptr<cell>> cells;
    for (int i = 0; i < 30; ++i) cells.push_back(tern::create<cell>(i == 0 && tern::rank() == 0 ? 500 : 5));
    for (const auto& c : cells) tern::send<&cell::solve>(c);
    tern::quiesce();
    long unsolved = 0;
    for (const auto& c : cells) unsolved += tern::call<&cell::result>(c).get() < 0;
    unsolved = tern::reduce(unsolved, std::plus<>());
    if (tern::rank() == 0) std::printf("%ld cells are left\n", unsolved);
    return unsolved == 0 ? 0 : 1;
  });
}
