// SPDX-License-Identifier: Apache-2.0
// Objects that move with their devices: a field goes from rank to rank while tasks compute on it.
#include <cstdio>

#include <tern/tern.hpp>

TERN_KERNELS_BEGIN(growth)
TERN_KERNEL(grow, int n, float by, TERN_GLOBAL float* x) {
  TERN_REGION_IN(n, 1, 1) { x[item.x] = by * x[item.x] + 1; };
}
TERN_KERNELS_END(growth)

constexpr int n = 100000;

class field {
public:
  field() = default;
  explicit field(float value) : cells_(n, value) {}
  void step() { // on any device of the rank where the object is
    ++steps_;
    tern::submit(growth::grow, tern::items(n), n, 0.5f, tern::read_write(cells_));
  }
  tern::hetero_object<float> cells() const { return cells_; } // its data may follow the answer
  int steps() const { return steps_; }
  int where() const { return tern::rank(); }
  template <class A> void serialize(A& ar) { ar(cells_, steps_); } // the cells are announced, and follow

private:
  tern::hetero_object<float> cells_;
  int steps_ = 0;
};

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    if (tern::rank() != 0) return 0; // its invocations run until all is done
    const auto f = tern::create<field>(10.0f);
    float expected = 10;
    for (int k = 1; k <= 12; ++k) {
      tern::send<&field::step>(f);
      tern::migrate(f, k % tern::size()).get(); // leaves when the step's task has ended
      expected = 0.5f * expected + 1;
    }
    const int where = tern::call<&field::where>(f).get(); // need not wait for the cells
    const auto cells = tern::call<&field::cells>(f).get();
    const auto numbers = cells.host(tern::access_mode::read).get();
    const int steps = tern::call<&field::steps>(f).get();
    std::printf("%d steps on %d ranks, the last one left to rank %d: %.4f\n", steps, tern::size(), where, numbers(0));
    return numbers(0) == expected && numbers(n - 1) == expected && where == 12 % tern::size() && steps == 12 ? 0 : 1;
  });
}
