// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Combines the values of an array's elements in the order of their indices. Internal.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include <tern/mobile/layout/array_layout.hpp>

namespace tern::mobile::detail {

/// What elements next to each other have given: all of those whose linear indices begin at `first`
/// and are 2^level.
template <class R> struct partial_value {
  std::int64_t first = 0;
  std::int32_t level = 0;
  R value{};
  template <class A> void serialize(A& ar) { ar(first, level, value); }
};

/// Values of some ranks' elements. They are combined along one binary tree over the linear indices,
/// whose nodes are aligned blocks of 2^level: left with right if both have any. So the result
/// depends on which elements there are and on their values, and not on where they are, on the
/// mapping, or on how many ranks there are. A block is combined as soon as all of it is known.
template <class R> struct partial_values {
  std::vector<std::pair<std::int64_t, std::int64_t>> covered; ///< ranges that are known as a whole, in order
  std::vector<partial_value<R>> values;                       ///< in order
  template <class A> void serialize(A& ar) { ar(covered, values); }

  /// The elements of that home are known. Homes ascend.
  void cover(const array_layout& of, int home) {
    if (of.ranks() == 1) return covered.assign({{0, of.total()}});
    if (of.plan().mapping.what() != array_mapping::kind::block) return;
    const auto r = of.range_of(home);
    if (r.count == 0) return;
    if (!covered.empty() && covered.back().second == r.first)
      covered.back().second += r.count;
    else
      covered.emplace_back(r.first, r.first + r.count);
  }
  /// Takes in what another part has.
  void merge(partial_values&& other) {
    covered.insert(covered.end(), other.covered.begin(), other.covered.end());
    std::sort(covered.begin(), covered.end());
    std::vector<std::pair<std::int64_t, std::int64_t>> joined;
    for (const auto& c : covered)
      if (!joined.empty() && joined.back().second == c.first)
        joined.back().second = c.second;
      else
        joined.push_back(c);
    covered = std::move(joined);
    std::vector<partial_value<R>> both;
    both.reserve(values.size() + other.values.size());
    std::merge(std::make_move_iterator(values.begin()), std::make_move_iterator(values.end()),
               std::make_move_iterator(other.values.begin()), std::make_move_iterator(other.values.end()),
               std::back_inserter(both), [](const auto& a, const auto& b) { return a.first < b.first; });
    values = std::move(both);
  }
  /// Combines what is known of an array of so many elements.
  template <class Op> void combine(Op& op, std::int64_t total) {
    std::vector<partial_value<R>> done;
    combine_block(op, values, {0, level_of(total)}, total, done);
    values = std::move(done);
  }
  /// The same when all elements that there are have been asked.
  template <class Op> void complete(Op& op, std::int64_t total) {
    covered.assign({{0, total}});
    combine(op, total);
  }

private:
  struct block {
    std::int64_t first;
    std::int32_t level;
    std::int64_t middle() const noexcept { return first + (std::int64_t{1} << (level - 1)); }
    std::int64_t end() const noexcept { return first + (std::int64_t{1} << level); }
    block left() const noexcept { return {first, level - 1}; }
    block right() const noexcept { return {middle(), level - 1}; }
  };
  using some = std::span<partial_value<R>>;

  static std::int32_t level_of(std::int64_t total) noexcept {
    std::int32_t level = 0;
    while ((std::int64_t{1} << level) < total) ++level;
    return level;
  }
  static std::size_t before(some all, std::int64_t middle) noexcept {
    return static_cast<std::size_t>(
        std::partition_point(all.begin(), all.end(), [&](const auto& v) { return v.first < middle; }) - all.begin());
  }
  bool is_covered(block b, std::int64_t total) const noexcept {
    const std::int64_t end = std::min(b.end(), total);
    for (const auto& [from, to] : covered)
      if (from <= b.first && end <= to) return true;
    return false;
  }
  template <class Op>
  void combine_block(Op& op, some all, block b, std::int64_t total, std::vector<partial_value<R>>& done) const {
    if (all.empty()) return;
    if (all.size() == 1) {
      done.push_back(std::move(all.front()));
    } else if (is_covered(b, total)) {
      done.push_back({b.first, b.level, value_of(op, all, b)});
    } else {
      const std::size_t n = before(all, b.middle());
      combine_block(op, all.first(n), b.left(), total, done);
      combine_block(op, all.subspan(n), b.right(), total, done);
    }
  }
  /// \pre all of the block is known, and there is a value
  template <class Op> static R value_of(Op& op, some all, block b) {
    if (all.size() == 1) return std::move(all.front().value);
    // Single values of a block without gaps stand where they belong.
    const std::size_t n = all.size() == std::size_t{1} << b.level ? all.size() / 2 : before(all, b.middle());
    if (n == 0) return value_of(op, all, b.right());
    if (n == all.size()) return value_of(op, all, b.left());
    R left = value_of(op, all.first(n), b.left());
    return op(std::move(left), value_of(op, all.subspan(n), b.right()));
  }
};

} // namespace tern::mobile::detail
