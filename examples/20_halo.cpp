// SPDX-License-Identifier: Apache-2.0
// A halo exchange of objects that move: heat spreads on a grid that is cut into blocks. Each block
// is a mobile object, which may be on any rank and may move at any time. The argument `wrong`
// selects a version that relies on the order of messages.
#include <array>
#include <cstdio>
#include <cstring>
#include <vector>

#include <tern/tern.hpp>

constexpr int blocks = 3, width = 8, size = blocks * width, steps = 12; // blocks x blocks of width x width cells

double at_start(int x, int y) { return x == size / 3 && y == size / 2 ? 1000 : (x * 7 + y * 3) % 5; }
double spread(double here, double left, double right, double up, double down) {
  return here + 0.2 * (left + right + up + down - 4 * here);
}

enum side { left, right, up, down };
constexpr side opposite(int s) { return std::array{right, left, down, up}[static_cast<std::size_t>(s)]; }

class block {
public:
  using pointer = tern::mobile_ptr<block>;
  using edge = std::vector<double>;
  block() = default; // for a block that arrives
  block(int x, int y, bool by_order) : by_order_(by_order), cells_(frame * frame) {
    for (int j = 0; j < width; ++j)
      for (int i = 0; i < width; ++i) at(i, j) = at_start(x * width + i, y * width + j);
  }

  void begin(const std::array<pointer, 4>& neighbours) {
    neighbours_ = neighbours;
    send_edges();
    advance(); // halos of a faster neighbour may have arrived before this message
  }

  // The edge of the neighbour on side `s`, after `step` steps.
  void halo(int step, int s, const edge& values) {
    const auto side = static_cast<std::size_t>(s);
    // Two messages of one neighbour come from two invocations. They may arrive in either order if
    // the neighbour or this block moves between them. So each message carries its step.
    if (by_order_) step = arrived_[side]++; // wrong: assumes that the next halo is for the next step
    // A neighbour is at most one step ahead, since it needs this block's edge. So two halos for
    // each side are enough.
    halos_[static_cast<std::size_t>(step % 2)][side] = values;
    advance();
  }

  std::vector<double> row(int j) const {
    const auto first = cells_.begin() + (j + 1) * frame + 1;
    return {first, first + width};
  }
  template <class A> void serialize(A& ar) { ar(by_order_, cells_, neighbours_, halos_, arrived_, step_, begun_); }

private:
  static constexpr int frame = width + 2; // with the halo
  double& at(int i, int j) { return cells_[static_cast<std::size_t>((j + 1) * frame + i + 1)]; }
  // Cell k of side s, `out` cells beyond the edge.
  double& on(int s, int k, int out) {
    const int far = width - 1 + out;
    return s == left ? at(-out, k) : s == right ? at(far, k) : s == up ? at(k, -out) : at(k, far);
  }

  void send_edges() {
    begun_ = true;
    for (int s = left; s <= down; ++s) {
      if (!neighbours_[static_cast<std::size_t>(s)]) continue; // the border of the grid
      edge values;
      for (int k = 0; k < width; ++k) values.push_back(on(s, k, 0));
      tern::send<&block::halo>(neighbours_[static_cast<std::size_t>(s)], step_, opposite(s), values);
    }
  }

  // Computes all steps whose halos have arrived.
  void advance() {
    while (begun_ && step_ < steps) {
      auto& halos = halos_[static_cast<std::size_t>(step_ % 2)];
      for (std::size_t s = 0; s < 4; ++s)
        if (neighbours_[s] && halos[s].empty()) return; // the missing halo calls `advance` again
      for (int s = left; s <= down; ++s)
        for (int k = 0; k < width; ++k) { // no heat flows out of the grid
          const edge& halo = halos[static_cast<std::size_t>(s)];
          on(s, k, 1) = halo.empty() ? on(s, k, 0) : halo[static_cast<std::size_t>(k)];
        }
      for (edge& halo : halos) halo.clear();
      std::vector<double> next = cells_;
      next.swap(cells_); // `next` has the old cells
      const auto was = [&](int i, int j) { return next[static_cast<std::size_t>((j + 1) * frame + i + 1)]; };
      for (int j = 0; j < width; ++j)
        for (int i = 0; i < width; ++i)
          at(i, j) = spread(was(i, j), was(i - 1, j), was(i + 1, j), was(i, j - 1), was(i, j + 1));
      ++step_;
      if (step_ < steps) send_edges();
      // In the place of a balancing policy. The block moves after this invocation, which must not
      // wait for that.
      if (step_ % 3 == 0) static_cast<void>(tern::migrate(tern::self<block>(), (tern::rank() + 1) % tern::size()));
    }
  }

  bool by_order_ = false, begun_ = false;
  std::vector<double> cells_;
  std::array<pointer, 4> neighbours_{};
  std::array<std::array<edge, 4>, 2> halos_; // of this step and the next, by step % 2; empty: missing
  std::array<int, 4> arrived_{};             // for the wrong version
  int step_ = 0;
};

// The same result, computed without objects.
std::vector<double> expected() {
  std::vector<double> now;
  for (int y = 0; y < size; ++y)
    for (int x = 0; x < size; ++x) now.push_back(at_start(x, y));
  for (int step = 0; step < steps; ++step) {
    const std::vector<double> was = now;
    for (int y = 0; y < size; ++y)
      for (int x = 0; x < size; ++x) {
        const auto cell = [&](int i, int j) { return was[static_cast<std::size_t>(j * size + i)]; };
        now[static_cast<std::size_t>(y * size + x)] =
            spread(cell(x, y), cell(x > 0 ? x - 1 : x, y), cell(x + 1 < size ? x + 1 : x, y),
                   cell(x, y > 0 ? y - 1 : y), cell(x, y + 1 < size ? y + 1 : y));
      }
  }
  return now;
}

int main(int argc, char** argv) {
  const bool wrong = argc > 1 && std::strcmp(argv[1], "wrong") == 0;
  return tern::run(argc, argv, [wrong] {
    std::vector<block::pointer> all;
    for (int n = 0; n < blocks * blocks && tern::rank() == 0; ++n)
      all.push_back(tern::create_on<block>(n % tern::size(), n % blocks, n / blocks, wrong).get());
    const auto block_at = [&](int x, int y) {
      const bool inside = x >= 0 && x < blocks && y >= 0 && y < blocks;
      return inside ? all[static_cast<std::size_t>(y * blocks + x)] : block::pointer();
    };
    for (std::size_t n = 0; n < all.size(); ++n) {
      const int x = static_cast<int>(n) % blocks, y = static_cast<int>(n) / blocks;
      tern::send<&block::begin>(
          all[n], std::array{block_at(x - 1, y), block_at(x + 1, y), block_at(x, y - 1), block_at(x, y + 1)});
    }
    tern::quiesce(); // all steps are done: no message is left, and no handler runs

    int wrong_cells = 0;
    const std::vector<double> correct = expected();
    for (int y = 0; y < size && tern::rank() == 0; ++y)
      for (int x = 0; x < size; x += width) {
        const auto row = tern::call<&block::row>(block_at(x / width, y / width), y % width).get();
        for (int i = 0; i < width; ++i)
          wrong_cells += row[static_cast<std::size_t>(i)] != correct[static_cast<std::size_t>(y * size + x + i)];
      }
    if (tern::rank() == 0) std::printf("%d steps of %d x %d cells, %d wrong\n", steps, size, size, wrong_cells);
    return wrong_cells == 0 ? 0 : 1;
  });
}
