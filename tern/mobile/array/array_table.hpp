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

#include <tern/mobile/array/array_record.hpp>
#include <tern/mobile/directory.hpp>
#include <tern/mobile/layout/present_elements.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::mobile::detail {

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
