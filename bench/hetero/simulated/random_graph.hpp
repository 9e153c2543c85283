// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A graph of tasks drawn by lot, each of which is told where it runs, and the least that must be
/// copied for it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace tern::bench::hetero {

/// On the host (0) and three devices that reach each other through it.
class random_graph {
public:
  static constexpr int objects = 6, rows = 4, columns = 16, tasks = 200, places = 4;
  struct part {
    int object, first, last; ///< rows [first, last) of it
  };
  struct task {
    enum { fill, add, mix } what; ///< b is written; b is read and written; a is read, too
    part a, b;
    int place;
  };
  /// \param views tasks use some rows of an object; else all.
  random_graph(std::uint64_t seed, bool views) {
    std::mt19937_64 dice(seed);
    const auto below = [&](int n) { return static_cast<int>(dice() % static_cast<std::uint64_t>(n)); };
    const auto part_of = [&](int object) -> part {
      if (!views) return {object, 0, rows};
      const int first = below(rows);
      return {object, first, first + 1 + below(rows - first)};
    };
    for (int i = 0; i < tasks; ++i) {
      const int a = below(objects), b = (a + 1 + below(objects - 1)) % objects;
      const int what = below(3);
      all_.push_back({what == 0   ? task::fill
                      : what == 1 ? task::add
                                  : task::mix,
                      part_of(a), part_of(b), below(places)});
    }
  }
  const std::vector<task>& all() const { return all_; }

  /// Rows that MSI cannot do without copying: a device that reads one that it does not have gets it
  /// from the host, and the host from somewhere if it has none. All objects begin on the host.
  std::size_t least_rows() const {
    using row = std::array<bool, places>; // where it is valid
    std::vector<row> valid(objects * rows, row{true});
    std::size_t copied = 0;
    const auto each = [&](const part& p, auto&& f) {
      for (int r = p.first; r < p.last; ++r) f(valid[static_cast<std::size_t>(p.object * rows + r)]);
    };
    const auto read = [&](const part& p, std::size_t place) {
      each(p, [&](row& r) {
        if (r[place]) return;
        copied += (r[0] ? 0U : 1U) + (place == 0 ? 0U : 1U);
        r[0] = r[place] = true;
      });
    };
    for (const task& t : all_) {
      const auto place = static_cast<std::size_t>(t.place);
      if (t.what == task::mix) read(t.a, place);
      if (t.what != task::fill) read(t.b, place);
      each(t.b, [&](row& r) {
        r = {};
        r[place] = true;
      });
    }
    return copied;
  }

private:
  std::vector<task> all_;
};

} // namespace tern::bench::hetero
