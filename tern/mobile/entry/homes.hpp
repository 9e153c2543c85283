// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which rank is the home of an object. Internal.

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <tern/mobile/object_id.hpp>

namespace tern::mobile::detail {

/// The ranks that homes are on. An id names a home, which is the number of the rank that made the
/// object in the job in which that was: an id lies in a program's bytes and never changes. In a
/// job that began anew each rank is the home of its own number. A job that goes on from a
/// checkpoint of more ranks has more homes than ranks.
///
/// Each rank keeps its own number, so that what it makes has it for a home.
///
/// Thread-safe. `assign` is for a moment in which nothing is under way; what was read before stays
/// valid.
class home_table {
public:
  explicit home_table(int ranks) noexcept : count_(ranks) {}
  home_table(const home_table&) = delete;
  home_table& operator=(const home_table&) = delete;

  /// How many homes there are; at least as many as ranks.
  int count() const noexcept { return count_.load(std::memory_order_relaxed); }
  /// Of a home, or the number itself if there is no such home.
  int rank_of(int home) const noexcept {
    const std::vector<std::int32_t>* const moved =
        moved_.load(std::memory_order_acquire); // acquire: it was filled before
    if (!moved || static_cast<std::size_t>(home) >= moved->size()) [[likely]]
      return home;
    return (*moved)[static_cast<std::size_t>(home)];
  }
  int rank_of(object_id id) const noexcept { return rank_of(id.home()); }
  /// Is any home on a rank of another number?
  bool is_identity() const noexcept { return !moved_.load(std::memory_order_acquire); }

  /// \param ranks by home. \pre ranks[r] == r for each rank r.
  void assign(std::vector<std::int32_t> ranks) {
    tables_.push_back(std::make_unique<const std::vector<std::int32_t>>(std::move(ranks)));
    count_.store(static_cast<int>(tables_.back()->size()), std::memory_order_relaxed);
    moved_.store(tables_.back().get(), std::memory_order_release);
  }

private:
  std::atomic<int> count_;
  std::atomic<const std::vector<std::int32_t>*> moved_{nullptr}; ///< the last of `tables_`; null: none has moved
  std::vector<std::unique_ptr<const std::vector<std::int32_t>>> tables_;
};

} // namespace tern::mobile::detail
