// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a rank's file of a checkpoint says beside the objects' bytes. Internal.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tern/base/archive.hpp>
#include <tern/mobile/array/array_table.hpp>
#include <tern/mobile/checkpoint.hpp>
#include <tern/mobile/entry/entry.hpp>
#include <tern/mobile/names/name_table.hpp>

namespace tern::mobile::detail {

/// A class of objects.
struct saved_class {
  std::string name;
  std::uint64_t size = 0, alignment = 0; ///< in C++'s sense
  std::uint32_t arrival = 0;             ///< its handler's number, the same in the same program
  std::uint64_t objects = 0, bytes = 0;
  template <class A> void serialize(A& ar) { ar(name, size, alignment, arrival, objects, bytes); }
};

/// An object, and what travels with it when it moves.
struct saved_object {
  object_id id;
  std::uint64_t offset = 0, bytes = 0; ///< in the file
  std::uint32_t type = 0;              ///< in the file's list of classes
  std::uint32_t pins = 0;
  travel_note with{}; ///< its credit: 1 if references count it, else 0
};

/// An event of an object. It has no signals: one that has counts as work that is under way.
struct saved_event {
  object_id object;
  std::uint32_t arms = 0; ///< its kind's handler's number
  packed_event state;
  template <class A> void serialize(A& ar) { ar(object, arms, state); }
};

/// Tables of one rank.
struct saved_tables {
  std::vector<saved_class> classes;
  std::vector<saved_object> objects;                           ///< by id
  std::vector<std::pair<std::int32_t, std::uint64_t>> numbers; ///< by home: the first that was not given
  std::uint64_t arrays_made = 0;                               ///< by this rank
  std::vector<saved_array> arrays;
  std::vector<saved_name> names;
  std::vector<saved_event> events;               ///< by object, and number
  split_recorder::credits credits, root_credits; ///< what references in the file have
  std::vector<saved_root> roots;                 ///< rank 0's
  template <class A> void serialize(A& ar) {
    ar(classes, objects, numbers, arrays_made, arrays, names, events, credits, root_credits, roots);
  }
};

} // namespace tern::mobile::detail

template <> inline constexpr bool tern::is_bitwise<tern::mobile::detail::saved_object> = true;
