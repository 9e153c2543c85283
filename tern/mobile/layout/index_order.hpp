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

/// Linear indices of which all is known: each has an element whose value is there, or has none.
class known_indices {
public:
  /// Those of the elements of that home. Homes ascend.
  void cover(const array_layout& of, int home);
  void cover_all(std::int64_t total);
  /// Those of another part as well.
  void cover(const known_indices& other);
  /// All from `first` to before `end`?
  bool are_covered(std::int64_t first, std::int64_t end) const noexcept;
  template <class A> void serialize(A& ar) { ar(ranges_); }

private:
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges_; // first and end, in order
};

/// Values of some ranks' elements. They are combined along one binary tree over the linear indices,
/// whose nodes are aligned blocks of 2^level: left with right if both have any. So the result
/// depends on which elements there are and on their values, and not on where they are, on the
/// mapping, or on how many ranks there are. A block is combined as soon as all of it is known.
template <class R> struct partial_values {
  known_indices known;
  std::vector<partial_value<R>> values; ///< in order
  template <class A> void serialize(A& ar) { ar(known, values); }

  /// Takes in what another part has.
  void merge(partial_values&& other) {
    known.cover(other.known);
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
    known.cover_all(total);
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
  template <class Op>
  void combine_block(Op& op, some all, block b, std::int64_t total, std::vector<partial_value<R>>& done) const {
    if (all.empty()) return;
    if (all.size() == 1) {
      done.push_back(std::move(all.front()));
    } else if (known.are_covered(b.first, std::min(b.end(), total))) {
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
