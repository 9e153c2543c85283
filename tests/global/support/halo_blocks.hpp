// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// For tests of halos: blocks of a grid that exchange ghost layers and compute on them, and the
/// same without blocks. Numbers are integers, so results are equal or wrong.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <tern/global/halo.hpp>
#include <tern/hetero/dialect.hpp>
#include <tern/hetero/hetero_object.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/mobile/array.hpp>
#include <tern/mobile/hold.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>

TERN_KERNELS_BEGIN(halo_test_kernels)
// A cell's next number is a sum over the cells at most `width` away in up to `diagonal` dimensions
// at once, each with a factor.
TERN_FN int halo_factor(int x, int y, int z, int diagonal) {
  const int apart = (x != 0) + (y != 0) + (z != 0);
  return apart <= diagonal ? 1 + (x + 2 * y + 3 * z + 60) % 5 : 0;
}
TERN_KERNEL(mix, int nx, int ny, int nz, int wx, int wy, int wz, int diagonal, TERN_GLOBAL const int* from,
            TERN_GLOBAL int* to) {
  TERN_REGION_IN(nx, ny, nz) {
    const int row = nx + 2 * wx, plane = row * (ny + 2 * wy);
    const int here = (item.z + wz) * plane + (item.y + wy) * row + item.x + wx;
    int sum = 0;
    for (int z = -wz; z <= wz; ++z)
      for (int y = -wy; y <= wy; ++y)
        for (int x = -wx; x <= wx; ++x) sum += halo_factor(x, y, z, diagonal) * from[here + z * plane + y * row + x];
    to[here] = sum % 10007;
  };
}
TERN_KERNELS_END(halo_test_kernels)

namespace tern::test {

/// In the order of objects' dimensions; those that a grid has not are 1.
struct grid_problem {
  int dimensions = 2;
  std::array<std::int64_t, 3> cells{1, 1, 1}; ///< of a block
  std::array<std::int64_t, 3> grid{1, 1, 1};  ///< blocks
  std::array<bool, 3> periodic{};
  std::int64_t width = 1;
  halo_sides sides = halo_sides::corners;
  std::int64_t steps = 0;
  int seed = 1;
  int move_every = 0; ///< steps after which a block goes to the next rank; 0: none does

  std::int64_t width_in(std::size_t d) const { return static_cast<int>(d) >= 3 - dimensions ? width : 0; }
  std::int64_t all_in(std::size_t d) const { return cells[d] * grid[d]; }
  int at_start(std::int64_t z, std::int64_t y, std::int64_t x) const {
    return static_cast<int>((z * 7919 + y * 104729 + x * 1299709 + std::int64_t{seed} * 15485863) % 10007);
  }
  template <class A> void serialize(A& ar) {
    ar(dimensions, cells, grid, periodic, width, sides, steps, seed, move_every);
  }
};
inline constexpr int beyond_the_grid = 3;

/// All cells after all steps, without blocks, fields or ghost layers.
inline std::vector<int> serial_result(const grid_problem& p) {
  const std::int64_t nz = p.all_in(0), ny = p.all_in(1), nx = p.all_in(2);
  std::vector<int> now;
  for (std::int64_t z = 0; z < nz; ++z)
    for (std::int64_t y = 0; y < ny; ++y)
      for (std::int64_t x = 0; x < nx; ++x) now.push_back(p.at_start(z, y, x));
  for (std::int64_t k = 0; k < p.steps; ++k) {
    const std::vector<int> was = now;
    const auto cell = [&](std::array<std::int64_t, 3> at) {
      for (std::size_t d = 0; d < 3; ++d) {
        if (p.periodic[d]) at[d] = (at[d] + p.all_in(d)) % p.all_in(d);
        if (at[d] < 0 || at[d] >= p.all_in(d)) return beyond_the_grid;
      }
      return was[static_cast<std::size_t>((at[0] * ny + at[1]) * nx + at[2])];
    };
    std::size_t i = 0;
    for (std::int64_t z = 0; z < nz; ++z)
      for (std::int64_t y = 0; y < ny; ++y)
        for (std::int64_t x = 0; x < nx; ++x) {
          int sum = 0;
          for (std::int64_t c = -p.width_in(0); c <= p.width_in(0); ++c)
            for (std::int64_t b = -p.width_in(1); b <= p.width_in(1); ++b)
              for (std::int64_t a = -p.width_in(2); a <= p.width_in(2); ++a)
                if (const int factor = halo_test_kernels::halo_factor(static_cast<int>(a), static_cast<int>(b),
                                                                      static_cast<int>(c), static_cast<int>(p.sides));
                    factor != 0)
                  sum += factor * cell({z + c, y + b, x + a});
          now[i++] = sum % 10007;
        }
  }
  return now;
}

/// A block, as an element of an array.
template <int N> class grid_block {
public:
  using array = mobile_array<grid_block<N>, N>;

  grid_block() = default;
  grid_block(const array& all, const indices<N>& at, const grid_problem& p) : problem_(p) {
    halo_shape<N> shape;
    for (std::size_t d = 0; d < N; ++d) {
      const std::size_t i = 3 - N + d;
      shape.cells[d] = p.cells[i];
      shape.grid[d] = p.grid[i];
      shape.periodic[d] = p.periodic[i];
    }
    shape.block = at;
    shape.width = p.width;
    shape.sides = p.sides;
    halo_ = halo<int, N>(shape, all);
    now_ = hetero_object<int, N>(halo_.field_size(), beyond_the_grid);
    then_ = hetero_object<int, N>(halo_.field_size(), beyond_the_grid);
    const auto v = now_.host(access_mode::read_write).get();
    each_cell([&](std::array<std::int64_t, 3> c) {
      std::array<std::int64_t, 3> global = c;
      for (std::size_t d = 0; d < N; ++d) global[3 - N + d] += at[d] * p.cells[3 - N + d];
      element(v, c) = p.at_start(global[0], global[1], global[2]);
    });
  }

  void begin() {
    begun_ = true;
    give();
    advance();
  }
  void take(std::int64_t k, int from, hetero_object<int> cells) {
    static_cast<void>(halo_.arrived(k, from, std::move(cells)));
    advance();
  }
  std::int64_t steps() const { return halo_.step(); }
  /// The cells, without ghost layers. Waits for them.
  std::vector<int> values() const {
    std::vector<int> all;
    const auto v = now_.host(access_mode::read).get();
    each_cell([&](std::array<std::int64_t, 3> c) { all.push_back(element(v, c)); });
    return all;
  }
  template <class A> void serialize(A& ar) { ar(problem_, halo_, now_, then_, begun_); }

private:
  template <class F> void each_cell(const F& f) const {
    for (std::int64_t z = 0; z < problem_.cells[0]; ++z)
      for (std::int64_t y = 0; y < problem_.cells[1]; ++y)
        for (std::int64_t x = 0; x < problem_.cells[2]; ++x) f({z, y, x});
  }
  template <class View> int& element(const View& v, const std::array<std::int64_t, 3>& c) const {
    const std::int64_t w = problem_.width;
    if constexpr (N == 1)
      return v(c[2] + w);
    else if constexpr (N == 2)
      return v(c[1] + w, c[2] + w);
    else
      return v(c[0] + w, c[1] + w, c[2] + w);
  }
  void give() {
    for (const auto& part : halo_.pack(now_))
      send<&grid_block::take>(part.template to<grid_block>(), halo_.step(), part.from, part.cells);
  }
  void advance() {
    while (begun_ && halo_.step() < problem_.steps && halo_.complete(halo_.step())) {
      halo_.unpack(halo_.step(), now_);
      const auto n = [&](std::size_t d) { return static_cast<int>(problem_.cells[d]); };
      const auto w = [&](std::size_t d) { return static_cast<int>(problem_.width_in(d)); };
      submit(halo_test_kernels::mix, items(n(2), n(1), n(0)), n(2), n(1), n(0), w(2), w(1), w(0),
             static_cast<int>(problem_.sides), read(now_), read_write(then_));
      std::swap(now_, then_);
      if (halo_.step() < problem_.steps) give();
      if (problem_.move_every > 0 && halo_.step() % problem_.move_every == 0)
        static_cast<void>(migrate(self<grid_block>(), (rank() + 1) % size()));
    }
  }

  grid_problem problem_;
  halo<int, N> halo_;
  hetero_object<int, N> now_, then_;
  bool begun_ = false;
};

/// How many cells of the blocks differ from the serial result. \pre they have made all steps.
template <int N> std::int64_t wrong_cells(const typename grid_block<N>::array& blocks, const grid_problem& p) {
  const std::vector<int> expected = serial_result(p);
  std::int64_t wrong = 0;
  for (std::int64_t c = 0; c < p.grid[0]; ++c)
    for (std::int64_t b = 0; b < p.grid[1]; ++b)
      for (std::int64_t a = 0; a < p.grid[2]; ++a) {
        const std::array<std::int64_t, 3> place{c, b, a};
        indices<N> at;
        for (std::size_t d = 0; d < N; ++d) at[d] = place[3 - N + d];
        const std::vector<int> found = call<&grid_block<N>::values>(blocks(at)).get();
        std::size_t i = 0;
        for (std::int64_t z = 0; z < p.cells[0]; ++z)
          for (std::int64_t y = 0; y < p.cells[1]; ++y)
            for (std::int64_t x = 0; x < p.cells[2]; ++x) {
              const std::int64_t row = ((c * p.cells[0] + z) * p.all_in(1) + b * p.cells[1] + y) * p.all_in(2);
              if (i >= found.size() || found[i] != expected[static_cast<std::size_t>(row + a * p.cells[2] + x)])
                ++wrong;
              ++i;
            }
      }
  return wrong;
}

} // namespace tern::test
