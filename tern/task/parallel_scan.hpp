// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Parallel prefix sums, with any associative operation.

#include <algorithm>
#include <functional>
#include <iterator>
#include <source_location>
#include <utility>
#include <vector>

#include <tern/task/parallel/parallel_loop.hpp>
#include <tern/task/parallel_for.hpp>

namespace tern {

enum class scan_kind {
  inclusive, ///< out[i] = in[0] op … op in[i]
  exclusive  ///< out[i] = identity op in[0] op … op in[i-1]
};

/// Writes the prefix sums of [first, last) to `out`, which may be `first`. `op` must be associative
/// and need not commute; `identity` is its neutral element. Reads the input twice, except with one
/// worker (Blelloch 1990, blocked).
/// \return the sum of all.
/// \throws as parallel_for; the output is then unspecified.
template <std::random_access_iterator In, std::random_access_iterator Out, class T, class Op = std::plus<>>
T parallel_scan(In first, In last, Out out, T identity, Op op = {}, scan_kind kind = scan_kind::inclusive,
                loop_options options = {}, std::source_location made = std::source_location::current()) {
  const int workers = detail::check_worker("parallel_scan");
  const std::int64_t n = detail::length_of("parallel_scan", range<std::int64_t>(0, last - first));
  detail::check_grain("parallel_scan", options.grain);
  const auto scan = [&](std::int64_t b, std::int64_t e, T sum) {
    for (; b < e; ++b) {
      const auto i = static_cast<std::iter_difference_t<In>>(b);
      const auto o = static_cast<std::iter_difference_t<Out>>(b);
      T next = op(sum, first[i]);
      if (kind == scan_kind::inclusive)
        out[o] = next;
      else
        out[o] = std::move(sum);
      sum = std::move(next);
    }
    return sum;
  };
  constexpr std::int64_t least = 2048; // elements for which a second pass is worth it
  const std::int64_t grain = options.grain == automatic ? std::max(least, n / (8 * workers) + 1) : options.grain;
  if (workers == 1 || n <= grain) return scan(0, n, std::move(identity));

  const std::int64_t parts = (n + grain - 1) / grain;
  struct slot {
    T sum;
  };
  std::vector<slot> before(static_cast<std::size_t>(parts), slot{identity});
  const auto end_of = [&](std::int64_t part) { return std::min(n, (part + 1) * grain); };
  // The last part's sum is needed by the caller only, which gets it from the second pass.
  detail::loop(
      parts - 1, 0,
      [&](std::int64_t b, std::int64_t e) {
        for (; b < e; ++b) {
          T sum = identity;
          for (std::int64_t i = b * grain; i < end_of(b); ++i)
            sum = op(std::move(sum), first[static_cast<std::iter_difference_t<In>>(i)]);
          before[static_cast<std::size_t>(b + 1)].sum = std::move(sum);
        }
      },
      made);
  for (std::size_t p = 1; p < before.size(); ++p) before[p].sum = op(before[p - 1].sum, std::move(before[p].sum));
  T total = identity;
  detail::loop(
      parts, 0,
      [&](std::int64_t b, std::int64_t e) {
        for (; b < e; ++b) {
          T sum = scan(b * grain, end_of(b), before[static_cast<std::size_t>(b)].sum);
          if (b == parts - 1) total = std::move(sum);
        }
      },
      made);
  return total;
}

} // namespace tern
