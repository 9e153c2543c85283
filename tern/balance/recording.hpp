// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the objects of a run have done, and where: written by a run with the option `record`, read
/// by `tern replay`, which tries other policies on it (docs/howto/replay.md).
///
/// Each rank gathers its part, `combine` makes one of them, `write_recording` stores that. A file
/// is 16 bytes (what it is, version) and chunks of at most about a MiB, each with its kind, length
/// and an XXH3 checksum of kind, length, place in the file and content; the last chunk gives the
/// length of the file. Numbers are little-endian. So a file that was cut off, or that has a wrong
/// bit anywhere, is refused, and what it says of its sizes is never believed before it is found to
/// be there.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tern/balance/workload.hpp>
#include <tern/base/archive.hpp>
#include <tern/mobile/object_id.hpp>

namespace tern::balance {

/// A run, or one rank's part of it. Plain data; one thread at a time. Moments are counted from when
/// the run began, durations are of a worker or device; both in units of `unit` seconds.
struct recording {
  struct object {
    mobile::object_id id;
    std::uint32_t type = 0; ///< in `names`: its class
    std::int32_t rank = 0;  ///< where it was first
    double bytes = 0;       ///< that it took when last packed, or would take
    auto operator<=>(const object&) const = default;
  };
  /// What an object has done in a phase. A part tells what was done on its rank: the same object
  /// and phase may occur in several, and counts together.
  struct work {
    mobile::object_id object;
    std::uint32_t phase = 0, invocations = 0;
    double seconds = 0, device = 0;
    auto operator<=>(const work&) const = default;
  };
  /// What an object has sent to another in the whole run; again of all parts together.
  struct link {
    mobile::object_id from, to;
    double bytes = 0;
    std::uint64_t messages = 0;
    auto operator<=>(const link&) const = default;
  };
  struct migration {
    double at = 0;
    mobile::object_id object;
    std::int32_t from = 0, to = 0;
    auto operator<=>(const migration&) const = default;
  };
  /// How long a worker has been busy with invocations until then.
  struct busy {
    double at = 0;
    std::int32_t rank = 0, worker = 0;
    double seconds = 0;
    auto operator<=>(const busy&) const = default;
  };
  /// What a policy has noted (policy_context::note).
  struct note {
    double at = 0;
    std::int32_t rank = 0;
    std::uint32_t name = 0; ///< in `names`
    double value = 0;       ///< any; what follows is finite and not negative
    auto operator<=>(const note&) const = default;
  };

  std::string program, policy, order; ///< the latter two as for the options `balance` and `balance-order`
  int ranks = 1;
  int workers = 1;                ///< of each rank, that compute
  double unit = 1;                ///< seconds
  double length = 0;              ///< of the run
  std::vector<double> phase_ends; ///< ascending; empty: the program marks none, the run is one
  std::vector<std::string> names; ///< of classes and notes, as `name` enters them
  std::vector<object> objects;
  std::vector<work> works;
  std::vector<link> links;
  std::vector<migration> migrations;
  std::vector<busy> busies;
  std::vector<note> notes;

  std::size_t phases() const noexcept { return phase_ends.empty() ? 1 : phase_ends.size(); }
  /// The number of that name, which is entered if it is not there. Looks through all of them: for
  /// each class once.
  std::uint32_t name(std::string_view text);
  bool operator==(const recording&) const = default;
  template <class A> void serialize(A& ar) {
    ar(program, policy, order, ranks, workers, unit, length, phase_ends, names, objects, works, links, migrations,
       busies, notes);
  }
};

/// Adds another rank's part to `into`, from which all that belongs to the whole run is taken; names
/// are joined, and a phase, or the run, ends when it has ended everywhere. \throws
/// error(invalid_argument) if the parts differ in ranks, workers or unit, or if the part uses a
/// name that it does not have; `into` is then as it was.
void combine(recording& into, recording part);

/// Brings everything into the order in which it is stored, lists each object once, as large as it
/// ever was, and adds up what is about the same object and phase, or the same two objects.
/// Invocations stop at 2³²−1.
void tidy(recording& r);

/// Could a recording be stored there? \throws error(io) that says why not: a folder that cannot be
/// written to, or what stands there is no file, which must not be replaced.
void check_place(const std::string& path);

/// Stores it, tidied. Nothing is at `path` before it is whole, and what was there before stays
/// until then.
/// \throws error(invalid_argument) that names what cannot be right, as an object that has worked
/// but is not listed; error(io) that names the file.
void write_recording(recording r, const std::string& path);
/// The bytes of such a file. Throws likewise.
std::vector<std::byte> recording_bytes(recording r);

/// \throws error(io) if it cannot be read; error(invalid_data) "FILE: … at offset N …" for what is
/// no recording, is damaged, or is inconsistent; error(unsupported) for another version.
recording read_recording(const std::string& path);
/// \param name of the file, for errors.
recording parse_recording(std::span<const std::byte> bytes, const std::string& name);

/// The same work for a model: objects in the order of their first rank and id, a link's talk spread
/// evenly over the phases. Objects that were made during the run are there from its beginning.
/// \throws error(unsupported) if all objects' times in all phases were more than 2²⁸ numbers.
workload to_workload(const recording& r);

/// For another number of ranks: objects are dealt out in blocks of equal number, in their order, so
/// that neighbours in it stay together; a rank is as slow as that which had its place. The same
/// number of ranks: objects stay where they are. \pre ranks > 0, workers > 0
workload dealt(workload w, int ranks, int workers);

} // namespace tern::balance

template <> inline constexpr bool tern::is_bitwise<tern::balance::recording::object> = true;
template <> inline constexpr bool tern::is_bitwise<tern::balance::recording::work> = true;
template <> inline constexpr bool tern::is_bitwise<tern::balance::recording::link> = true;
template <> inline constexpr bool tern::is_bitwise<tern::balance::recording::migration> = true;
template <> inline constexpr bool tern::is_bitwise<tern::balance::recording::busy> = true;
template <> inline constexpr bool tern::is_bitwise<tern::balance::recording::note> = true;
