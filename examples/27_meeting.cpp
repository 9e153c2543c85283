// SPDX-License-Identifier: Apache-2.0
// One function over several objects: tanks in a ring, each of which evens out the water with both
// of its neighbours.
#include <cstdint>
#include <cstdio>
#include <functional>
#include <span>
#include <vector>

#include <tern/tern.hpp>

class tank {
public:
  tank() = default; // for moves
  explicit tank(const tern::indices<1>& at) : litres_(at[0] % 10 == 0 ? 400 : 0) {}
  std::int64_t litres() const { return litres_; }
  template <class A> void serialize(A& ar) { ar(litres_); }

  // It has all three alone, on one rank, whatever else wants any of them.
  void even_out(std::span<tank* const> neighbours) {
    std::int64_t all = litres_;
    for (const tank* const n : neighbours) all += n->litres_;
    const std::int64_t each = all / (1 + static_cast<std::int64_t>(neighbours.size()));
    for (tank* const n : neighbours) n->litres_ = each;
    litres_ = all - each * static_cast<std::int64_t>(neighbours.size()); // not a litre is lost
  }

private:
  std::int64_t litres_ = 0;
};

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    constexpr std::int64_t tanks = 40;
    tern::mobile_array<tank> ring;
    if (tern::rank() == 0) ring = tern::mobile_array<tank>({.name = "ring"}, {tanks});
    ring = tern::broadcast(ring);
    // All ranks at once, in any order: each set overlaps with four others.
    std::vector<tern::future<void>> open;
    for (int round = 0; round < 5; ++round)
      for (std::int64_t i = tern::rank(); i < tanks; i += tern::size())
        open.push_back(
            tern::call_together<&tank::even_out>(ring(i), {ring((i + 1) % tanks), ring((i + tanks - 1) % tanks)}));
    for (auto& one : open) one.get();
    tern::barrier();
    const std::int64_t all =
        tern::rank() == 0 ? tern::reduce<&tank::litres>(ring, std::plus<>()).get() : std::int64_t{1600};
    if (tern::rank() == 0) std::printf("%lld litres in %lld tanks\n", static_cast<long long>(all), 40LL);
    return all == 1600 ? 0 : 1;
  });
}
