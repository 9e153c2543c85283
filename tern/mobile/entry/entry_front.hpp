// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The part of an entry that programs' code reads as it goes from one invocation of an object to
/// the next. Programs compile this and not the rest (entry.hpp), which costs a third of a second
/// for each file. Internal.

#include <cstdint>
#include <memory>

#include <tern/mobile/message/invocation.hpp>
#include <tern/mobile/object_id.hpp>

namespace tern::mobile {

struct travel_state;

/// Each is the front of an `entry`. Protected by its shard's lock.
struct entry_front {
  enum class place : std::uint8_t {
    elsewhere, ///< on rank `where`, as far as known
    arriving,  ///< it is here and being unpacked
    here,
    leaving, ///< it is here and being packed
    left,    ///< it is here, packed, and has not been taken in by `where`
    stored,  ///< it is here, but on disk
    loading, ///< likewise, and wanted
    gone     ///< destroyed, and no longer in the table
  };

  const object_id id;
  const type_record* type = nullptr;
  void* object = nullptr;  ///< null: it is elsewhere, or on disk
  invocation_list waiting; ///< taken in, in order
  std::unique_ptr<travel_state> travel;
  std::uint64_t runs = 0;      ///< invocations that were admitted since it has been here
  std::uint32_t under_way = 0; ///< messages that this rank has sent to itself for the object
  std::uint32_t not_begun = 0; ///< invocations that have been admitted and have fibers to come
  std::uint32_t coming = 0;    ///< of those that follow the object from where it was
  place at = place::here;
  bool own_open = false; ///< this rank numbers what it sends to the object

protected:
  explicit entry_front(object_id i) noexcept; // in entry.hpp: it knows what a travel_state is
  entry_front(entry_front&&) noexcept;        // likewise
  ~entry_front();
};

} // namespace tern::mobile
