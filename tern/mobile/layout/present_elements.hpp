// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which elements of an array exist. Internal.

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include <tern/mobile/layout/array_layout.hpp>

namespace tern::mobile::detail {

/// Those that were born on one rank, wherever they are. An index has one element in its life: the
/// number of an object is never given twice. Not thread-safe.
class present_elements {
public:
  /// All that `of` puts on rank `home`, or none of a sparse array. \throws error(invalid_argument)
  /// if a mapping of the program's own gives no rank.
  present_elements(const array_layout& of, int home);

  bool contains(std::int64_t linear) const noexcept;
  /// Has the index ever had an element, or will have the one that is being made?
  bool was_used(std::int64_t linear) const noexcept;
  /// The index is for an element that is being made. \pre !was_used()
  void reserve(std::int64_t linear) { used_.insert(linear); }
  /// It could not be made. \pre reserved
  void give_back(std::int64_t linear) noexcept { used_.erase(linear); }
  /// \pre reserved
  void insert(std::int64_t linear) { listed_.insert(linear); }
  /// \return whether it was there
  bool erase(std::int64_t linear);
  std::size_t size() const noexcept {
    return is_range_ ? static_cast<std::size_t>(range_.count - gone_count_) : listed_.size();
  }
  /// What a checkpoint keeps of them: of a range, those that are gone, by number; else those that
  /// there are, and the indices that were used.
  struct saved {
    std::vector<std::int64_t> gone, listed, used;
    template <class A> void serialize(A& ar) { ar(gone, listed, used); }
  };
  saved save() const;
  /// The same as they were. \throws error(invalid_data) if that cannot be.
  present_elements(const array_layout& of, int home, const saved& was);
  /// The next ones in order, as many as `room` has, from `from` on. \return how many.
  std::size_t list(std::int64_t from, std::span<std::int64_t> room) const;

private:
  std::int64_t number(std::int64_t linear) const noexcept; // in the range, or -1
  bool is_range_;                                          // they are all of a range but those that are gone
  array_layout::range range_{0, 1, 0};
  std::vector<bool> gone_; // by number, once there are any
  std::int64_t gone_count_ = 0;
  std::set<std::int64_t> listed_; // else
  std::set<std::int64_t> used_;   // likewise
};

} // namespace tern::mobile::detail
