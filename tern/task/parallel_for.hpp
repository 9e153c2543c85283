// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Parallel loops.
///
///     tern::parallel_for(0, n, [&](int i) { y[i] += a * x[i]; });
///     tern::parallel_for(tern::range2<int>({0, height}, {0, width}), [&](int y, int x) { … });

#include <algorithm>
#include <array>
#include <concepts>
#include <iterator>
#include <source_location>
#include <type_traits>

#include <tern/task/parallel/parallel_loop.hpp>
#include <tern/task/range.hpp>

namespace tern {

/// The runtime chooses.
inline constexpr std::int64_t automatic = -1;

struct loop_options {
  /// How many indices a chunk has: all but the last exactly so many, wherever they run.
  /// `automatic`: as many as take some microseconds, found while the loop runs.
  std::int64_t grain = automatic;
};

template <std::size_t Dimensions> struct tile_options {
  /// The extents of a tile, slowest dimension first; tiles at the upper ends may be smaller.
  /// `automatic`: 1, and in the last dimension whole rows, or parts of them if there are few rows.
  std::array<std::int64_t, Dimensions> tile = [] {
    std::array<std::int64_t, Dimensions> all{};
    all.fill(automatic);
    return all;
  }();
};

/// Calls `body` for all indices in [first, last), in parallel and in no particular order.
/// `body(index)` is called for each index; `body(range<Index>)`, if it takes that instead, for
/// chunks. Calls overlap: what they share must bear it. A loop divides itself as it goes, so short
/// ones cost next to nothing and irregular ones balance; bodies may block. Returns when all is
/// done.
/// \throws the first exception that a call threw, after the calls under way have ended; others are
/// dropped, and so is what has not begun. error(invalid_argument) for `last < first` or a grain
/// that is not positive; error(invalid_state) outside a fiber.
template <std::integral Index, class Body>
void parallel_for(Index first, std::type_identity_t<Index> last, Body&& body, loop_options options = {},
                  std::source_location made = std::source_location::current()) {
  detail::check_worker("parallel_for");
  detail::check_grain("parallel_for", options.grain);
  const std::int64_t n = detail::length_of("parallel_for", range<Index>(first, last));
  detail::loop(
      n, options.grain == automatic ? 0 : std::min(options.grain, n),
      [first, &body](std::int64_t b, std::int64_t e) {
        const Index begin = detail::index_at(first, b);
        const Index end = detail::index_at(first, e);
        if constexpr (std::is_invocable_v<Body&, Index>) {
          for (Index i = begin; i != end; ++i) body(i);
        } else {
          static_assert(std::is_invocable_v<Body&, range<Index>>,
                        "the body of parallel_for takes an index or a tern::range of indices");
          body(range<Index>(begin, end));
        }
      },
      made);
}

template <std::integral Index, class Body>
void parallel_for(range<Index> all, Body&& body, loop_options options = {},
                  std::source_location made = std::source_location::current()) {
  parallel_for(all.first(), all.last(), body, options, made);
}

/// Calls `body(element)` for all elements, as `parallel_for`.
template <std::random_access_iterator It, class Body>
void parallel_for_each(It first, It last, Body&& body, loop_options options = {},
                       std::source_location made = std::source_location::current()) {
  parallel_for(
      std::iter_difference_t<It>{0}, last - first, [&](std::iter_difference_t<It> i) { body(first[i]); }, options,
      made);
}

namespace detail {

/// A box cut into tiles, numbered in C order.
template <std::integral Index, std::size_t D> class tiling {
public:
  tiling(const box_range<Index, D>& all, std::array<std::int64_t, D> tile, int workers) : all_(all), tile_(tile) {
    for (std::size_t d = 0; d < D; ++d) {
      length_of("parallel_for", all[d]);
      check_grain("parallel_for", tile[d]);
    }
    std::int64_t rows = 1;
    for (std::size_t d = 0; d < D; ++d) // so that nothing overflows below
      tile_[d] = std::min(tile_[d], std::max<std::int64_t>(1, static_cast<std::int64_t>(all[d].size())));
    for (std::size_t d = 0; d + 1 < D; ++d) {
      if (tile_[d] == automatic) tile_[d] = 1;
      rows *= count(d);
    }
    if (tile_[D - 1] == automatic) {
      // Enough pieces for all workers even of a box with few rows.
      const auto length = static_cast<std::int64_t>(all[D - 1].size());
      const std::int64_t wanted = rows > 0 ? (std::int64_t{8} * workers + rows - 1) / rows : 1;
      tile_[D - 1] = std::max<std::int64_t>(1, (length + wanted - 1) / wanted);
    }
    tiles_ = rows * count(D - 1);
  }
  std::int64_t size() const noexcept { return tiles_; }
  box_range<Index, D> operator[](std::int64_t number) const noexcept {
    box_range<Index, D> t = all_;
    for (std::size_t d = D; d-- > 0;) {
      const std::int64_t i = number % count(d);
      number /= count(d);
      const Index b = index_at(all_[d].first(), i * tile_[d]);
      const auto rest = static_cast<std::int64_t>(range<Index>(b, all_[d].last()).size());
      t.dimension[d] = range<Index>(b, index_at(b, std::min(rest, tile_[d])));
    }
    return t;
  }

private:
  std::int64_t count(std::size_t d) const noexcept {
    const auto length = static_cast<std::int64_t>(all_[d].size());
    return length == 0 ? 0 : (length - 1) / tile_[d] + 1;
  }
  box_range<Index, D> all_;
  std::array<std::int64_t, D> tile_;
  std::int64_t tiles_ = 0;
};

template <std::integral Index, std::size_t D, class Run>
void loop_over_tiles(const box_range<Index, D>& all, const tile_options<D>& options, std::source_location made,
                     Run run) {
  const tiling<Index, D> tiles(all, options.tile, check_worker("parallel_for"));
  loop(
      tiles.size(), 0,
      [&](std::int64_t b, std::int64_t e) {
        for (; b < e; ++b) run(tiles[b]);
      },
      made);
}

} // namespace detail

/// The same over a box of indices. `body(i, j)` is called for each index pair;
/// `body(range2<Index>)`, if it takes that instead, for tiles.
template <std::integral Index, class Body>
void parallel_for(const range2<Index>& all, Body&& body, tile_options<2> options = {},
                  std::source_location made = std::source_location::current()) {
  detail::loop_over_tiles<Index, 2>(all, options, made, [&](const box_range<Index, 2>& t) {
    if constexpr (std::is_invocable_v<Body&, Index, Index>) {
      for (const Index i : t[0])
        for (const Index j : t[1]) body(i, j);
    } else {
      body(range2<Index>(t[0], t[1]));
    }
  });
}

/// `body(i, j, k)`, or `body(range3<Index>)`.
template <std::integral Index, class Body>
void parallel_for(const range3<Index>& all, Body&& body, tile_options<3> options = {},
                  std::source_location made = std::source_location::current()) {
  detail::loop_over_tiles<Index, 3>(all, options, made, [&](const box_range<Index, 3>& t) {
    if constexpr (std::is_invocable_v<Body&, Index, Index, Index>) {
      for (const Index i : t[0])
        for (const Index j : t[1])
          for (const Index k : t[2]) body(i, j, k);
    } else {
      body(range3<Index>(t[0], t[1], t[2]));
    }
  });
}

} // namespace tern
