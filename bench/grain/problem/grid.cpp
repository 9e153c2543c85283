// SPDX-License-Identifier: Apache-2.0
#include "bench/grain/problem/grid.hpp"

#include <algorithm>
#include <cstdint>
#include <stdexcept>

namespace tern::bench::grain {
namespace {

using lists = std::vector<std::vector<int>>;

constexpr int random_period = 16; // steps, after which the same columns are drawn again

/// splitmix64 (Steele et al. 2014).
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

int log2_of(int width) {
  int k = 0;
  while ((2 << k) <= width) ++k;
  return k;
}

/// The columns of `first` … `last` that there are.
std::vector<int> clipped(int first, int last, int width) {
  std::vector<int> found;
  for (int c = std::max(first, 0); c <= std::min(last, width - 1); ++c) found.push_back(c);
  return found;
}

std::vector<int> block_of(int column, int width, int radix, int shift) {
  // Shifted to the left, so that the first block is a part of one.
  const int first = (column + shift) / radix * radix - shift;
  return clipped(first, first + radix - 1, width);
}

std::vector<int> drawn(int step, int column, int width, int radix) {
  std::vector<int> found;
  for (int i = 0; i < radix; ++i) {
    const auto key = (static_cast<std::uint64_t>(step) << 40) + (static_cast<std::uint64_t>(column) << 16) +
                     static_cast<std::uint64_t>(i);
    found.push_back(static_cast<int>(mixed(key) % static_cast<std::uint64_t>(width)));
  }
  return found;
}

/// What a column needs in the step after `step`.
std::vector<int> needed(pattern p, int step, int column, int width, int radix) {
  switch (p) {
  case pattern::trivial:
    return {};
  case pattern::stencil:
    return clipped(column - 1, column + 1, width);
  case pattern::tree:
    return {column / 2};
  case pattern::blocks:
    return block_of(column, width, radix, step % 2 == 0 ? 0 : radix / 2);
  case pattern::nearest:
    return clipped(column - (radix - 1) / 2, column + radix / 2, width);
  case pattern::random:
    return drawn(step, column, width, radix);
  case pattern::fft: {
    std::vector<int> found;
    const int reach = 1 << step;
    for (const int c : {column - reach, column, column + reach})
      if (c >= 0 && c < width) found.push_back(c);
    return found;
  }
  case pattern::spread: {
    std::vector<int> found;
    for (int i = 0; i < radix; ++i) found.push_back((column + i * width / radix + (i > 0 ? step : 0)) % width);
    return found;
  }
  }
  throw std::invalid_argument("no such pattern");
}

int period_of(pattern p, int width, int radix) {
  switch (p) {
  case pattern::fft:
    return std::max(1, log2_of(width));
  case pattern::blocks:
    return 2;
  case pattern::spread:
    return std::max(1, width / radix);
  case pattern::random:
    return random_period;
  default:
    return 1;
  }
}

} // namespace

grid::grid(pattern p, int width, int radix) : width_(width) {
  if (width < 1 || radix < 1) throw std::invalid_argument("a grid has at least one column, and a radix of at least 1");
  radix = std::min(radix, width);
  for (int step = 0; step < period_of(p, width, radix); ++step) {
    lists before;
    for (int column = 0; column < width; ++column) {
      std::vector<int> columns = needed(p, step, column, width, radix);
      std::sort(columns.begin(), columns.end());
      columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
      before.push_back(std::move(columns));
    }
    before_.push_back(table_of(before));
    after_.push_back(table_of(inverse(before)));
  }
}

grid::table grid::table_of(const lists& all) {
  table made{{0}, {}};
  for (const auto& one : all) {
    made.columns.insert(made.columns.end(), one.begin(), one.end());
    made.begin.push_back(static_cast<int>(made.columns.size()));
  }
  return made;
}

lists grid::inverse(const lists& all) {
  lists made(all.size());
  for (std::size_t column = 0; column < all.size(); ++column)
    for (const int from : all[column]) made[static_cast<std::size_t>(from)].push_back(static_cast<int>(column));
  return made;
}

std::size_t grid::inputs(int steps) const noexcept {
  std::size_t sum = 0;
  for (int step = 1; step < steps; ++step) sum += before_[phase(step - 1)].columns.size();
  return sum;
}

void grid::drop(int step, int column, int dependence) {
  lists before;
  bool found = false;
  for (int c = 0; c < width_; ++c) {
    const auto known = dependences(step, c);
    before.emplace_back(known.begin(), known.end());
    if (c == column) found = std::erase(before.back(), dependence) > 0;
  }
  if (!found)
    throw std::invalid_argument("in step " + std::to_string(step) + " column " + std::to_string(column) +
                                " does not need column " + std::to_string(dependence));
  before_[phase(step - 1)] = table_of(before);
  after_[phase(step - 1)] = table_of(inverse(before));
}

} // namespace tern::bench::grain
