// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// To which ranks an operation on an array goes, and in which order each takes it in. Internal.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <tern/base/archive.hpp>
#include <tern/mobile/layout/array_box.hpp>
#include <tern/mobile/layout/array_layout.hpp>

namespace tern::mobile::detail {

/// Ranks that follow each other. For each of them the operation has this number among those that
/// the sender has sent to it for the array.
struct rank_run {
  std::int32_t first = 0, count = 0;
  std::uint64_t number = 0;
};

/// The ranks that are still to have an operation, of which the first takes it in and passes it on
/// to the others: down a binomial tree. Of n ranks the last has it after log2(n) messages.
class array_route {
public:
  array_route() = default;
  /// \param ranks ascending.
  array_route(std::int32_t origin, std::vector<rank_run> ranks) : origin_(origin), runs_(std::move(ranks)) {}

  std::int32_t origin() const noexcept { return origin_; } ///< the sender
  std::int32_t first() const noexcept { return runs_.front().first; }
  std::uint64_t number() const noexcept { return runs_.front().number; } ///< for the first
  std::int64_t size() const noexcept {
    std::int64_t n = 0;
    for (const rank_run& r : runs_) n += r.count;
    return n;
  }
  /// Calls `f(route)` for each part that the first rank passes on: the far half of what is left
  /// first.
  template <class F> void for_each_part(F&& f) const {
    for (std::int64_t end = size(); end > 1;) {
      const std::int64_t begin = end - end / 2;
      f(slice(begin, end));
      end = begin;
    }
  }
  /// \throws error(invalid_data) for one that names ranks that there are not, or none.
  void check(int ranks) const;
  template <class A> void serialize(A& ar) { ar(origin_, runs_); }

private:
  array_route slice(std::int64_t begin, std::int64_t end) const;
  std::int32_t origin_ = 0;
  std::vector<rank_run> runs_;
};

/// The homes of a section's elements, ascending, or some ranks more.
std::vector<std::int32_t> homes_of(const array_box& box, const array_layout& of);

} // namespace tern::mobile::detail

template <> inline constexpr bool tern::is_bitwise<tern::mobile::detail::rank_run> = true;
