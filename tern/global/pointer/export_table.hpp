// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a rank lets others reach. Internal.

#include <cstdint>
#include <deque>
#include <source_location>
#include <string>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/global/pointer/global_place.hpp>
#include <tern/hetero/access.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::global::detail {

/// Exports by number. Numbers are used again as late as possible, with another generation, so that
/// pointers to what has ended find nothing. Threads: any; it waits for nothing.
class export_table {
public:
  explicit export_table(int rank) noexcept : rank_(rank) {}
  ~export_table();
  export_table(const export_table&) = delete;
  export_table& operator=(const export_table&) = delete;

  /// \param handle taken over. \throws error(out_of_memory) for too many at a time; then it is the
  /// caller's.
  global_place enter(hetero::detail::object_state* handle, const hetero::detail::box& part, const element_type& of,
                     std::source_location where);
  void remove(const global_place& place) noexcept;

  /// \return a handle, which is the caller's. \param element a hash of the type that the caller
  /// means.
  /// \throws error(not_found), (invalid_data), (invalid_argument).
  hetero::detail::object_state* find(const global_place& place, std::uint64_t element);
  std::size_t size() noexcept;

private:
  struct entry {
    hetero::detail::object_state* object = nullptr; ///< null: it has ended, or never was
    hetero::detail::box part;
    std::uint64_t element = 0;
    std::uint32_t generation = 0;
    std::string text; ///< of the object; empty: it never was. Stays until the number is used again
    std::string where;
  };
  error gone(const global_place& place, const entry* e) const;
  bool is(const entry& e, const global_place& place) const noexcept;

  const int rank_;
  tern::detail::spin_lock guard_;
  std::deque<entry> entries_; ///< stay where they are
  std::deque<std::uint32_t> free_;
  std::size_t size_ = 0;
};

} // namespace tern::global::detail
