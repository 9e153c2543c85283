// SPDX-License-Identifier: Apache-2.0
// Ghost layers on devices: the game of life on a torus that is cut into blocks. Each block is a
// mobile object, whose cells are on a device and which moves to another rank now and then.
#include <cstdio>
#include <utility>
#include <vector>

#include <tern/global/halo.hpp>
#include <tern/tern.hpp>

TERN_KERNELS_BEGIN(life)
// `row` numbers are from a cell to the one below; a block has ghost cells all around.
TERN_KERNEL(next, int n, int row, TERN_GLOBAL const int* now, TERN_GLOBAL int* then) {
  TERN_REGION_IN(n, n, 1) {
    const int here = (item.y + 1) * row + item.x + 1;
    const int around = now[here - row - 1] + now[here - row] + now[here - row + 1] + now[here - 1] + now[here + 1] +
                       now[here + row - 1] + now[here + row] + now[here + row + 1];
    then[here] = around == 3 || (around == 2 && now[here] == 1) ? 1 : 0;
  };
}
TERN_KERNELS_END(life)

constexpr int blocks = 3, n = 16, size = blocks * n, steps = 40; // blocks x blocks of n x n cells

int at_start(int y, int x) { return (y * y + 3 * x * y + x * 7) % 11 < 4 ? 1 : 0; }

class block {
public:
  using array = tern::mobile_array<block, 2>;
  block() = default; // for a block that arrives
  block(const array& all, const tern::indices<2>& at)
      : halo_({.cells = {n, n},
               .grid = {blocks, blocks},
               .block = at,
               .width = 1,
               .sides = tern::halo_sides::corners, // a cell has eight neighbours
               .periodic = {true, true}},
              all),
        now_(halo_.field_size(), 0), then_(halo_.field_size(), 0) {
    const auto cells = now_.host(tern::access_mode::read_write).get();
    for (int y = 0; y < n; ++y)
      for (int x = 0; x < n; ++x)
        cells(y + 1, x + 1) = at_start(static_cast<int>(at[0]) * n + y, static_cast<int>(at[1]) * n + x);
  }

  void begin() {
    begun_ = true;
    give();
    advance(); // a faster neighbour's cells may have come before this message
  }
  // A neighbour's cells of step k, which need not have been computed yet.
  void take(std::int64_t k, int from, tern::hetero_object<int> cells) {
    halo_.arrived(k, from, std::move(cells));
    advance();
  }
  std::vector<int> row(int y) const {
    std::vector<int> all;
    const auto cells = now_.host(tern::access_mode::read).get();
    for (int x = 0; x < n; ++x) all.push_back(cells(y + 1, x + 1));
    return all;
  }
  template <class A> void serialize(A& ar) { ar(halo_, now_, then_, begun_); } // what has come goes along

private:
  void give() { // one kernel for all eight neighbours
    for (const auto& part : halo_.pack(now_))
      tern::send<&block::take>(part.to<block>(), halo_.step(), part.from, part.cells);
  }
  void advance() {
    while (begun_ && halo_.step() < steps && halo_.complete(halo_.step())) {
      halo_.unpack(halo_.step(), now_); // one kernel; from here on the next step is awaited
      tern::submit(life::next, tern::items(n, n), n, tern::pitch(now_), tern::read(now_), tern::read_write(then_));
      std::swap(now_, then_);
      if (halo_.step() < steps) give();
      // In the place of a balancing policy. The block moves when its tasks have ended.
      if (halo_.step() % 7 == 0)
        static_cast<void>(tern::migrate(tern::self<block>(), (tern::rank() + 1) % tern::size()));
    }
  }

  tern::halo<int, 2> halo_;
  tern::hetero_object<int, 2> now_, then_;
  bool begun_ = false;
};

// The same result, without blocks.
std::vector<int> expected() {
  std::vector<int> now;
  for (int y = 0; y < size; ++y)
    for (int x = 0; x < size; ++x) now.push_back(at_start(y, x));
  for (int k = 0; k < steps; ++k) {
    const std::vector<int> was = now;
    const auto cell = [&](int y, int x) {
      return was[static_cast<std::size_t>((y + size) % size * size + (x + size) % size)];
    };
    for (int y = 0; y < size; ++y)
      for (int x = 0; x < size; ++x) {
        int around = -cell(y, x);
        for (int i = -1; i <= 1; ++i)
          for (int j = -1; j <= 1; ++j) around += cell(y + i, x + j);
        now[static_cast<std::size_t>(y * size + x)] = around == 3 || (around == 2 && cell(y, x) == 1) ? 1 : 0;
      }
  }
  return now;
}

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    block::array torus;
    if (tern::rank() == 0) {
      torus = block::array({.name = "torus"}, {blocks, blocks}); // on all ranks
      tern::send<&block::begin>(torus);
    }
    tern::quiesce();                 // all blocks have made their steps, and no data are under way
    if (tern::rank() != 0) return 0; // the others' blocks are asked
    int wrong = 0, alive = 0;
    const std::vector<int> correct = expected();
    for (int y = 0; y < size; ++y)
      for (int b = 0; b < blocks; ++b) {
        const std::vector<int> found = tern::call<&block::row>(torus(y / n, b), y % n).get();
        for (int x = 0; x < n; ++x) {
          const int is = found[static_cast<std::size_t>(x)];
          alive += is;
          wrong += is != correct[static_cast<std::size_t>(y * size + b * n + x)];
        }
      }
    std::printf("%d steps of %d x %d cells: %d alive, %d wrong\n", steps, size, size, alive, wrong);
    return wrong == 0 && alive > 0 ? 0 : 1;
  });
}
