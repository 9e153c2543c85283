// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A part: the file that one process writes. A header, then chunks of one size. A chunk belongs to
/// a ring (records of one thread, which alone writes it) or to the table (names and tracks, written
/// under a lock). In all of them `used` is written last, so a reader after the writer was killed
/// sees whole entries only: the kernel keeps a killed process' writes to a shared mapping, in the
/// order of its instructions. A ring that overwrites empties its oldest chunk, gives it the next
/// sequence number, and goes on there; gaps in the numbers tell what was lost.

#include <cstddef>
#include <cstdint>

namespace tern::trace::detail {

inline constexpr char part_magic[8] = {'T', 'E', 'R', 'N', 'T', 'R', 'C', '1'};
inline constexpr const char* part_suffix = ".part";
inline constexpr std::uint32_t part_order = 0x01020304; // as read by a machine of the other byte order it differs
inline constexpr std::uint32_t part_version = 3;        // 1 had no devices, 2 no objects
inline constexpr std::uint32_t chunk_magic = 0x6b6e6843;
inline constexpr std::size_t page = 65536; // the largest page that Linux has: chunks are mapped singly
inline constexpr std::size_t most_chunk_bytes = std::size_t{1} << 24;
inline constexpr std::uint32_t no_track = 0xffffff;
inline constexpr std::size_t longest_name = 255;
// Tracks are shown in the order of their `worker`: workers, which count from 0, what belongs to
// devices, and threads that are no workers.
inline constexpr int first_of_devices = 500'000, first_foreign = 1'000'000;
inline constexpr unsigned flow_bits = 24; // of a message's number, which is what has room in its header

enum class clock_kind : std::uint32_t { counter = 1, nanoseconds = 2, simulated = 3 };

/// The same moment by the counter that stamps records and by CLOCK_MONOTONIC.
struct clock_pair {
  std::uint64_t count = 0;
  std::int64_t ns = 0;
};
/// What to add at a moment of this process' clock to get rank 0's.
struct clock_offset {
  std::int64_t at = 0, add = 0;
};

struct part_header {
  char magic[8];
  std::uint32_t order, version;
  std::uint32_t record_bytes, chunk_bytes;
  clock_kind clock;
  std::uint32_t process;
  std::int32_t ranks, rank;
  double counts_per_ns; // measured at the start; for parts that end too early for a better one
  clock_pair begin;
  clock_pair latest[2]; // two, so that one is whole at any moment
  std::uint32_t which_latest;
  std::uint32_t offsets; // how many of these are set
  clock_offset offset[2];
  std::uint32_t ended; // 1: properly
  std::uint32_t reserved;
  std::uint64_t dropped;       // records for which there was no room
  std::uint64_t names_refused; // over the limit
  char host[64];
};
static_assert(sizeof(part_header) <= page);

enum class chunk_kind : std::uint32_t { ring = 1, table = 2 };

struct chunk_header {
  std::uint32_t magic;
  chunk_kind kind;
  std::uint32_t ring;
  std::uint32_t reserved;
  std::uint64_t sequence; // within its ring, or in the table
  std::uint64_t used;     // records, or bytes
  std::uint64_t reserved2[4];
};
static_assert(sizeof(chunk_header) == 64);

/// In the table: this, then `length` bytes, up to a multiple of 8. Names are numbered from 1,
/// tracks from 0.
struct table_entry {
  enum : std::uint32_t { name = 1, track = 2, object = 3 };
  std::uint32_t kind, length;
};
struct table_track {
  std::int32_t rank, worker;
  std::uint32_t name, reserved;
};
/// What a program calls one of its objects. Objects have numbers: the rank of the object's birth
/// above `object_bits` bits, which are its number there.
struct table_object {
  std::uint64_t object;
  std::uint32_t name, reserved;
};
inline constexpr unsigned object_bits = 40;

/// What happened. `a` to `c` are arguments; names, reasons and texts are numbers in the table.
enum class event : std::uint8_t {
  none,
  fiber_enters,   ///< a name, b fiber, c 1 if it begins
  fiber_ends,     ///< b fiber
  fiber_yields,   ///< b fiber
  fiber_waits,    ///< a what kind of thing it waits for, b fiber, c that thing's address or number
  tasklets_begin, ///<
  tasklets_end,   ///< b how many
  parks,          ///<
  wakes,          ///<
  steals,         ///< b how many tasklets
  sends,          ///< a to, b number, c bytes << 24 | handler's name
  arrives,        ///< a from, b the number's lowest bits
  handler_begins, ///< a from, b the number's lowest bits, c handler's name
  handler_ends,   ///<
  region_begins,  ///< a name, b fiber or 0
  region_ends,    ///< a name, b fiber or 0
  counts,         ///< a name, b a double's bits
  happens,        ///< a name
  fault,          ///< a text: what a simulation injected
  crash,          ///< a text: a rank is no more
  kernel_begins,  ///< on a device's track: a name, b how long it is expected to take, nanoseconds, or 0
  copy_begins,    ///< likewise: a name, b bytes, c the name of what is copied, or 0
  device_ends,    ///< what began there is over; b 1 if it failed
  on_object,      ///< a class's name, b object: what the fiber's or the handler's slice works on
  departs,        ///< a to, b object, c bytes << 24 | class's name
  lands,          ///< a from, b object, c bytes << 24 | class's name
  forwards,       ///< a from, b class's name << 32 | `was_handled` | the number's lowest bits, c object
  count_          ///< how many there are
};

/// A bit of `forwards`: a handler had begun for the message, which was none but where messages
/// arrive.
inline constexpr std::uint64_t was_handled = std::uint64_t{1} << flow_bits;

struct record {
  std::uint64_t time;
  std::uint32_t kind_track; // kind << 24 | track
  std::uint32_t a;
  std::uint64_t b, c;
};
static_assert(sizeof(record) == 32);

inline constexpr std::size_t records_in(std::size_t chunk_bytes) noexcept {
  return (chunk_bytes - sizeof(chunk_header)) / sizeof(record);
}

} // namespace tern::trace::detail
