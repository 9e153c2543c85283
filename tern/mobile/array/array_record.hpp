// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// One rank's part of an array, and how it is found. Internal.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <tern/mobile/array/operation_queue.hpp>
#include <tern/mobile/layout/array_box.hpp>
#include <tern/mobile/layout/array_layout.hpp>
#include <tern/mobile/layout/array_route.hpp>
#include <tern/mobile/layout/present_elements.hpp>
#include <tern/task/sync.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::mobile::detail {

/// One rank's part of an array. Lives as long as the array or a value that names it on this rank.
/// Thread-safe.
class array_record {
public:
  /// A new one of a job of so many ranks, where these homes are. \throws as array_layout,
  /// present_elements.
  array_record(array_plan plan, std::span<const int> homes, int ranks);
  /// One that was made in another job. \param firsts its first ids, by the ranks of that job.
  /// \param present those of its elements whose homes are here, by home.
  array_record(array_plan plan, const std::vector<std::uint64_t>& firsts,
               std::vector<std::pair<int, present_elements>> present);

  const array_layout& layout() const noexcept { return layout_; }
  /// Can ids be computed? Waits until they can.
  const array_layout& placed() const {
    if (!is_placed_.load(std::memory_order_acquire)) [[unlikely]] // acquire: the table was written before
      wait_until_placed();
    return layout_;
  }
  bool is_placed() const noexcept { return is_placed_.load(std::memory_order_acquire); }
  /// The rank's work is given up: what waits for the ids or for an operation waits no more.
  void abandon() noexcept;
  /// As it was when it had these elements, and no operation was under way. \pre it is placed
  void go_back(std::vector<std::pair<int, present_elements>> present);
  /// Once.
  void place_at(const std::vector<std::uint64_t>& firsts);

  /// Numbers the next operation that this rank sends, for each of the ranks, which ascend.
  array_route next_route(int here, std::span<const std::int32_t> ranks);
  operation_queue& queue() noexcept { return queue_; }

  // Elements whose home is here
  std::size_t size() const;
  bool contains(std::int64_t linear) const;
  /// \throws error(already_exists) if the index has, or had, an element.
  void reserve(std::int64_t linear);
  void give_back(std::int64_t linear) noexcept;
  void insert(std::int64_t linear);
  /// \throws error(not_found) if there is no such element.
  void erase(std::int64_t linear);
  /// The homes of elements that are here, ascending.
  std::vector<int> homes() const;
  bool has_all_homes() const noexcept { return present_.size() == static_cast<std::size_t>(layout_.ranks()); }
  /// Which of those with that home there are. \pre it is one of `homes`
  present_elements present(int home) const;
  /// Calls `f(linear index)` for each of them in the box, in order. Others may come and go
  /// meanwhile.
  template <class F> void for_each(const array_box& box, F&& f) const {
    std::array<std::int64_t, 64> some;
    if (const std::int64_t asked = box.count(); asked < static_cast<std::int64_t>(size())) {
      for (std::int64_t n = 0; n < asked; ++n)
        if (const std::int64_t at = box.linear(n, layout_); contains(at)) f(at);
      return;
    }
    const bool all = box.is_all_of(layout_);
    for (std::int64_t from = 0;;) {
      const std::size_t n = list(from, some);
      bring_near(std::span(some).first(n));
      for (std::size_t i = 0; i < n; ++i)
        if (all || box.contains(layout_.index_of(some[i]), layout_.plan().dimensions)) f(some[i]);
      if (n < some.size()) return;
      from = some.back() + 1;
    }
  }

private:
  void wait_until_placed() const;
  present_elements* home_of(std::int64_t linear);
  const present_elements* home_of(std::int64_t linear) const;
  std::size_t list(std::int64_t from, std::span<std::int64_t> room) const;
  void bring_near(std::span<const std::int64_t> elements) const;

  array_layout layout_;
  std::atomic<bool> is_placed_{false};
  std::atomic<bool> is_open_{false}; ///< `placing_` is
  mutable latch placing_{1};
  operation_queue queue_;
  mutable tern::detail::spin_lock lock_;                  // a few instructions at a time
  std::vector<std::pair<int, present_elements>> present_; // by home, ascending
  mutex sending_;                                         // of what follows
  std::vector<std::uint64_t> sent_;                       // operations, by rank; none before the first
};
using array_ref = std::shared_ptr<array_record>;

// Of the calling rank's array_table.
/// Its part here; null: there is none.
array_ref find_array(std::uint64_t id);
/// \throws error(not_found) if the array has been destroyed.
array_ref need_array(std::uint64_t id);
/// Of an array that this rank makes.
std::uint64_t next_array_id();

} // namespace tern::mobile::detail
