// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which parts of a file are taken. Internal.

#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <utility>

namespace tern::detail {

/// Extents of a file that begins empty and grows at its end: the smallest hole that is large enough
/// is taken, the first of equals, so what is taken depends on nothing but the calls before.
/// Neighbouring holes become one; a hole at the end is none, the file ends before it. Logarithmic
/// in the number of extents. Not thread-safe.
class file_extents {
public:
  /// \return the offset. \pre length > 0 \throws std::bad_alloc, and then nothing has changed.
  std::uint64_t take(std::uint64_t length) {
    const auto hole = holes_.lower_bound({length, 0});
    if (hole == holes_.end()) return append(length);
    const auto [size, offset] = *hole;
    if (size > length) {
      hole_set rest;
      rest.emplace(size - length, offset + length);
      parts_.try_emplace(offset + length, part{size - length, {}});
      holes_.merge(rest);
    }
    part& p = parts_.find(offset)->second;
    p.length = length;
    p.hole = holes_.extract(hole);
    return offset;
  }
  /// The same at the end, whatever holes there are.
  std::uint64_t append(std::uint64_t length) {
    hole_set spare;
    spare.emplace(length, end_);
    parts_.try_emplace(end_, part{length, spare.extract(spare.begin())});
    return std::exchange(end_, end_ + length);
  }
  /// \return false if that was not taken: nothing happens then.
  bool give(std::uint64_t offset, std::uint64_t length) noexcept {
    if (!taken(offset, length)) return false;
    auto here = parts_.find(offset);
    auto hole = std::move(here->second.hole);
    if (const auto next = std::next(here); next != parts_.end() && next->second.hole.empty()) {
      holes_.erase({next->second.length, next->first});
      here->second.length += next->second.length;
      parts_.erase(next);
    }
    if (here != parts_.begin()) {
      if (const auto before = std::prev(here); before->second.hole.empty()) {
        holes_.erase({before->second.length, before->first});
        before->second.length += here->second.length;
        parts_.erase(here);
        here = before;
      }
    }
    if (here->first + here->second.length == end_) {
      end_ = here->first;
      parts_.erase(here);
    } else {
      hole.value() = {here->second.length, here->first};
      holes_.insert(std::move(hole));
    }
    return true;
  }
  bool taken(std::uint64_t offset, std::uint64_t length) const noexcept {
    const auto at = parts_.find(offset);
    return at != parts_.end() && !at->second.hole.empty() && at->second.length == length;
  }
  std::uint64_t end() const noexcept { return end_; } ///< everything taken lies before it

private:
  using hole_set = std::set<std::pair<std::uint64_t, std::uint64_t>>; // length, offset
  struct part {
    std::uint64_t length;
    // What it will be entered with when it becomes a hole, so that giving back needs no memory and
    // cannot fail. Empty: it is one.
    hole_set::node_type hole;
  };
  std::map<std::uint64_t, part> parts_; // by offset, without gaps, from 0 to the end
  hole_set holes_;
  std::uint64_t end_ = 0;
};

} // namespace tern::detail
