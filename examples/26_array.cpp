// SPDX-License-Identifier: Apache-2.0
// An array of objects: plots of a field that rain falls on, on all of them and on a row.
#include <cstdint>
#include <cstdio>
#include <functional>

#include <tern/tern.hpp>

class plot {
public:
  plot() = default;                                          // for moves
  explicit plot(const tern::indices<2>& at) : row_(at[0]) {} // its place comes first
  void rain(double mm) { water_ += mm; }
  double water() const { return water_; }
  bool is_right() const { return tern::array_index<2>()[0] == row_; } // an element knows its place
  template <class A> void serialize(A& ar) { ar(row_, water_); }

private:
  std::int64_t row_ = 0;
  double water_ = 0;
};

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    tern::mobile_array<plot, 2> field;
    double all = 0;
    bool right = true;
    if (tern::rank() == 0) {
      field = tern::mobile_array<plot, 2>({.name = "field"}, {20, 30});                // on all ranks
      tern::send<&plot::rain>(field, 1.0);                                             // to all 600 plots
      tern::send<&plot::rain>(field.part({0, 0}, {1, 30}), 5.0);                       // to the first row
      for (int i = 0; i < 20; ++i) tern::migrate(field(i, i), tern::size() - 1).get(); // they move while it rains
      tern::send<&plot::rain>(field, 1.0);
      all = tern::reduce<&plot::water>(field, std::plus<>()).get(); // after what this rank has sent before
      right = tern::call<&plot::is_right>(field(7, 11)).get() && tern::call<&plot::water>(field(0, 3)).get() == 7;
    }
    field = tern::broadcast(field); // a value, valid on each rank
    int here = 0;
    tern::for_each_here(field, [&](const tern::indices<2>&, plot&) { ++here; });
    const int plots = tern::allreduce(here, std::plus<>());
    if (tern::rank() == 0) std::printf("%g mm of rain on %d plots\n", all, plots);
    return right && plots == 600 && (tern::rank() > 0 || all == 1350) ? 0 : 1;
  });
}
