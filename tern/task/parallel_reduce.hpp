// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Parallel reductions.
///
///     const auto square = [&](int i) { return x[i] * x[i]; };
///     double norm2 = tern::parallel_reduce(0, n, 0.0, square, std::plus<>());

#include <algorithm>
#include <concepts>
#include <forward_list>
#include <functional>
#include <source_location>
#include <type_traits>
#include <utility>
#include <vector>

#include <tern/task/parallel/parallel_loop.hpp>
#include <tern/task/parallel_for.hpp>
#include <tern/task/range.hpp>

namespace tern {

struct reduce_options {
  std::int64_t grain = automatic; ///< as for parallel_for
  /// The same result, to the last bit, whatever the workers do and however many they are: the
  /// parts' borders and the order of combining depend on the length and the grain only. Costs one
  /// partial result for each of about 1000 parts.
  bool deterministic = false;
};

namespace detail {

template <std::integral Index, class T, class Map, class Combine> class reduction {
public:
  reduction(Index first, const T& identity, Map& map, Combine& combine, std::source_location made)
      : first_(first), identity_(identity), map_(map), combine_(combine), made_(made) {}

  /// [b, e) folded from the left, after `sum`.
  T fold(T sum, std::int64_t b, std::int64_t e) {
    const Index begin = index_at(first_, b);
    const Index end = index_at(first_, e);
    if constexpr (std::is_invocable_r_v<T, Map&, range<Index>, T>) {
      return map_(range<Index>(begin, end), std::move(sum));
    } else {
      static_assert(std::is_invocable_v<Map&, Index>,
                    "the map of parallel_reduce takes an index, or a tern::range and the value so far");
      for (Index i = begin; i != end; ++i) sum = combine_(std::move(sum), map_(i));
      return sum;
    }
  }

  /// What a part gives away lies to the right of what it keeps, the last one given nearest.
  T part(std::int64_t begin, std::int64_t end, chunk_size& size) {
    T sum = identity_;
    std::forward_list<T> given; // nearest first; a tasklet writes into each
    task_group group(made_);
    group.run_and_wait([&] {
      run_first_chunk(
          begin, end, size, [&](std::int64_t b, std::int64_t e) { sum = fold(std::move(sum), b, e); },
          [&](std::int64_t b, std::int64_t e) {
            T& value = given.emplace_front(identity_);
            group.run([this, &value, &size, b, e] { value = part(b, e, size); });
          });
    });
    for (T& value : given) sum = combine_(std::move(sum), std::move(value));
    return sum;
  }

  T in_fixed_parts(std::int64_t n, std::int64_t grain) {
    const std::int64_t parts = (n - 1) / grain + 1;
    struct slot { // of its own: vector<bool> has no elements that can be written at the same time
      T value;
    };
    std::vector<slot> partial(static_cast<std::size_t>(parts), slot{identity_});
    loop(
        parts, 0,
        [&](std::int64_t b, std::int64_t e) {
          for (; b < e; ++b)
            partial[static_cast<std::size_t>(b)].value =
                fold(identity_, b * grain, b * grain + std::min(grain, n - b * grain));
        },
        made_);
    T sum = identity_;
    for (slot& part : partial) sum = combine_(std::move(sum), std::move(part.value));
    return sum;
  }

private:
  Index first_;
  const T& identity_;
  Map& map_;
  Combine& combine_;
  std::source_location made_;
};

} // namespace detail

/// Combines `map(i)` over all i in [first, last): `combine(combine(identity, map(first)), map(first
/// + 1))` and so on, in this order but with brackets anywhere, so `combine` must be associative; it
/// need not commute. `identity` is its neutral element and may be used several times. Instead of
/// `map(i)` there may be `map(range<Index>, T so_far)`, which returns `so_far` combined with all of
/// the range: for loops that the compiler should vectorise. Returns `identity` for an empty range.
/// \throws as parallel_for.
template <std::integral Index, class T, class Map, class Combine>
T parallel_reduce(Index first, std::type_identity_t<Index> last, T identity, Map&& map, Combine&& combine,
                  reduce_options options = {}, std::source_location made = std::source_location::current()) {
  const int workers = detail::check_worker("parallel_reduce");
  detail::check_grain("parallel_reduce", options.grain);
  const std::int64_t n = detail::length_of("parallel_reduce", range<Index>(first, last));
  detail::reduction<Index, T, std::remove_reference_t<Map>, std::remove_reference_t<Combine>> all(first, identity, map,
                                                                                                  combine, made);
  if (n == 0) return identity;
  if (options.deterministic)
    return all.in_fixed_parts(n, options.grain == automatic ? (n - 1) / 1024 + 1 : std::min(options.grain, n));
  detail::chunk_size size(options.grain == automatic ? 0 : std::min(options.grain, n), n, workers);
  return all.part(0, n, size);
}

} // namespace tern
