// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The arrays that a rank knows. Internal.

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tern/mobile/array/operation_queue.hpp>
#include <tern/mobile/directory.hpp>
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

/// What a rank's file of a checkpoint says of an array.
struct saved_array {
  std::uint64_t id = 0;
  std::int32_t dimensions = 1;
  std::array<std::int64_t, 3> size{1, 1, 1};
  bool sparse = false;
  std::uint8_t mapping = 0; ///< an array_mapping::kind
  std::uint32_t own = 0;    ///< the number of the program's own mapping
  std::string name, type;
  std::vector<std::uint64_t> firsts; ///< its first numbers, by the ranks of the job that made it
  std::vector<std::pair<std::int32_t, present_elements::saved>> present; ///< by home
  template <class A> void serialize(A& ar) {
    ar(id, dimensions, size, sparse, mapping, own, name, type, firsts, present);
  }
};
/// \param homes of the checkpoint. \param bytes that all of it has: an array needs no more memory
/// than they can tell. \throws error(invalid_data) for one that cannot be.
void check_array(const saved_array& a, int homes, std::uint64_t bytes);

/// The arrays of one rank. Thread-safe.
class array_table final : net::reported_part {
public:
  array_table();
  ~array_table();
  array_table(const array_table&) = delete;
  array_table& operator=(const array_table&) = delete;
  static array_table& here();
  /// Null if it has none yet.
  static array_table* if_made(net::node& here) noexcept;

  /// Of an array that this rank makes.
  std::uint64_t next_id();
  /// \return for each home that is here, the first number that was reserved.
  std::vector<std::pair<std::int32_t, std::uint64_t>> add(const array_plan& plan);
  /// Its part here; null: there is none.
  array_ref find(std::uint64_t id);
  /// \throws error(not_found) if the array has been destroyed.
  array_ref need(std::uint64_t id);
  void remove(std::uint64_t id) noexcept;

  // For checkpoints, when nothing is under way
  /// All that are known here. \param made how many ids this rank has given.
  std::vector<saved_array> save(std::uint64_t& made) const;
  /// One of an earlier job. \param all what the files of all its ranks say of it. \throws
  /// error(invalid_data).
  void restore(const std::vector<saved_array>& all);
  /// Ids go on from there.
  void go_on_from(std::uint64_t made) noexcept;
  /// As array_record::abandon, of all.
  void abandon() noexcept;
  /// Forgets all arrays, so that they can be restored. Those that are not, by `end_reset`, are no
  /// more. \pre nothing is under way
  void begin_reset();
  void end_reset() noexcept;

  /// Of an element, its array and its linear index there. Any rank.
  std::optional<std::pair<array_ref, std::int64_t>> element_of(object_id id);

private:
  std::string describe() override;
  static std::string name_of(net::node* here, object_id id);
  static const bool names_; // elements, in messages
  template <class Lock> std::optional<std::pair<array_ref, std::int64_t>> look_for(object_id id, const Lock& held);

  net::node& node_;
  mutable tern::detail::spin_lock lock_; // reports look, too
  std::uint64_t made_ = 0;
  std::map<std::uint64_t, array_ref> arrays_;
  std::map<std::uint64_t, array_record*> by_first_; // first number here
  std::map<std::uint64_t, array_ref> before_;       // the reset: values name them
};

} // namespace tern::mobile::detail
