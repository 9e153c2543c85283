// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the runtime needs of a device that is not the host. Internal.
///
/// Shaped after streams and events, which CUDA and OpenCL both have: operations are put into
/// streams, each of which is worked off in order, at the same time as the others; each operation
/// has a ticket, which can be asked whether it is done, and after which an operation of another
/// stream can be ordered. Nothing here waits.
///
/// A device that `launches_behind` takes a launch while what it is to come after is still under way
/// (`launch_request::after`): the device, not the host, sees to the order. Such an operation waits
/// for nothing but what is in streams already, so no order of giving can end in a deadlock.
///
/// Threads: a device has one owner at a time, the fiber that drives it, which alone may call all
/// but `info`. (OpenCL queues that threads share deadlock in PoCL's `basic` device.) The owner may
/// change its thread between calls, never within one.
///
/// Errors: what cannot be done is thrown as a tern::error by the call, or later by `done` of its
/// ticket, naming the device, the operation and the kernel. After error(device_lost) nothing more
/// is done: all tickets throw it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tern/hetero/devices.hpp>
#include <tern/hetero/kernel.hpp>
#include <tern/hetero/power/energy_source.hpp>

namespace tern {
struct native_queue;
}

namespace tern::hetero::detail {

struct task_record;
struct launch_sequence;

/// Memory of a device: the device's own name for it (an address, a cl_mem). Null: none.
using memory_handle = void*;

/// An operation that was put into a stream. 0: it was done at once.
using ticket = std::uint64_t;

/// Thrown by `device::done`: the operation was not done, as one that it comes after has failed, or
/// was not done either.
struct predecessor_failed final : std::exception {
  const char* what() const noexcept override { return "an operation before it on the device failed"; }
};

/// The end of an operation of one device, as others know it that are to wait for it
/// (`device::event`). May be dropped by any thread.
class device_event {
public:
  virtual ~device_event() = default;
  device_event(const device_event&) = delete;
  device_event& operator=(const device_event&) = delete;

protected:
  device_event() = default;
};
using event_ref = std::shared_ptr<device_event>;

class device;

/// The grid, in smaller groups if the runtime chooses their size, and the device or the kernel does
/// not take such large ones. There may be more items then, at the ends.
inline grid fitted(grid g, std::int64_t most_items, const std::array<int, 3>& most) noexcept {
  if (!g.automatic) return g;
  for (;;) {
    std::size_t largest = 0; // of those that should be smaller
    bool too_many = std::int64_t{g.items[0]} * g.items[1] * g.items[2] > most_items;
    for (std::size_t d = 0; d < 3; ++d) {
      if (g.items[d] > most[d])
        too_many = true, largest = d;
      else if (g.items[d] > g.items[largest] && g.items[largest] <= most[largest])
        largest = d;
    }
    if (!too_many || g.items[largest] == 1) return g;
    const std::int64_t all = std::int64_t{g.items[largest]} * g.groups[largest];
    g.items[largest] = (g.items[largest] + 1) / 2;
    g.groups[largest] = static_cast<int>((all + g.items[largest] - 1) / g.items[largest]);
  }
}

/// The direction of a copy, which says where source and destination lie. Copies are strided in up
/// to three dimensions: `slices` of `rows` of `row_bytes`. `between`: from another device to this.
enum class direction : std::uint8_t { to_device, from_device, within, between };
/// Does the host's memory take part?
constexpr bool is_of_host(direction way) noexcept {
  return way == direction::to_device || way == direction::from_device;
}
struct copy_request {
  direction way = direction::to_device;
  std::byte* host = nullptr;                    ///< first byte; unused if it takes no part
  std::size_t host_pitch = 0, host_slice = 0;   ///< bytes from row to row, from slice to slice
  memory_handle device = nullptr;               ///< within and between: the destination
  std::size_t offset = 0, pitch = 0, slice = 0; ///< of the first byte; as above
  memory_handle from = nullptr;                 ///< within and between: the source
  std::size_t from_offset = 0, from_pitch = 0, from_slice = 0;
  std::size_t row_bytes = 0, rows = 1, slices = 1;
  const detail::device* source = nullptr; ///< between: the device that `from` belongs to
  /// As of a launch. It need not fail with what it comes after; if it is not done, then `done` says
  /// so.
  std::span<const ticket> after;
  /// As of a launch, and if that is not done, this copy is not done either.
  std::span<const event_ref> after_others;
};

/// The same copy with as few rows and slices as can be: those that lie one after the other are one.
inline copy_request flattened(copy_request what) noexcept {
  std::size_t& pitch = is_of_host(what.way) ? what.host_pitch : what.from_pitch;
  const std::size_t slice = is_of_host(what.way) ? what.host_slice : what.from_slice;
  for (int pass = 0; pass < 2; ++pass) { // slices of one row each may become rows, which may become one
    if (what.rows > 1 && what.pitch == what.row_bytes && pitch == what.row_bytes) {
      what.row_bytes *= what.rows;
      what.rows = 1;
    }
    if (what.rows == 1 && what.slices > 1) {
      what.rows = what.slices;
      what.slices = 1;
      what.pitch = what.slice;
      pitch = slice;
    }
  }
  return what;
}

/// An argument of a kernel: bytes, or memory.
struct argument {
  const void* value = nullptr;    ///< of a number or struct; alive until the call returns
  std::size_t bytes = 0;          ///< of the value; for functions also of memory, from that byte on
  memory_handle memory = nullptr; ///< not null: the address of a byte in it
  std::size_t offset = 0;
};

/// A kernel, or a function of the user's that puts work of its own into the stream.
struct launch_request {
  const kernel_code* code = nullptr;
  grid shape;
  std::size_t dynamic_bytes = 0; ///< of each group's dynamic memory
  std::span<const argument> arguments;
  /// Not null: to be called with each argument's memory as the device's own interface knows it, and
  /// the bytes before it.
  void (*call)(task_record& task, const native_queue& queue, const argument* memory) = nullptr;
  task_record* task = nullptr;
  /// Not null: several launches in the place of one.
  launch_sequence* sequence = nullptr;
  /// Its time is wanted: a device that `measures_on_request` tells it.
  bool timed = false;
  /// Launches of this device, in whatever streams, which may be under way: it begins when they are
  /// over. If one of them fails or is not done, this one is not done either, and `device::done`
  /// throws predecessor_failed. Empty unless the device `launches_behind`.
  std::span<const ticket> after;
  /// The same for operations of other devices, all of which this one `waits_for`. Those that never
  /// throw predecessor_failed are lost with what fails on them: what comes after that may be done
  /// then.
  std::span<const event_ref> after_others;
};

/// The launches of a sequence of tasks, in the order of submission.
struct launch_sequence {
  std::uint64_t number;                 ///< of the sequence: a device may keep what it made of an earlier round
  std::vector<launch_request> launches; ///< their `task` is the one of the sequence
  /// Launch i comes after those of `before` from `begins[i]` to `begins[i + 1]`.
  const std::vector<std::uint32_t>&before, &begins;
  std::vector<argument> arguments;
};

/// What a device is, too, that can put several launches into one. Threads and errors: as `device`.
class launch_fuser {
public:
  /// How many launches like this one, with other arguments, can be one; 0 or 1: none. Small ones
  /// only: where each fills the device by itself nothing is to be gained.
  virtual std::size_t fuses(const launch_request& what) const noexcept = 0;
  /// What `launch_fused` needs first: a kernel of its own. \return false: there is none, now and
  /// later.
  virtual bool prepare_fused(const launch_request& what) = 0;
  /// All in one launch, which ends when all have. \pre they are no more than `fuses`, of one
  /// kernel, shape and number of dynamic bytes, and `prepare_fused` has said yes.
  virtual ticket launch_fused(int stream, std::span<const launch_request> all) = 0;

protected:
  ~launch_fuser() = default;
};

class device {
public:
  virtual ~device() = default;
  device() = default;
  device(const device&) = delete;
  device& operator=(const device&) = delete;

  virtual const device_info& info() const noexcept = 0;

  /// What it needs before it is used, for what should not be there in programs that never use it:
  /// contexts. Comes first and once; may take a second. \throws error(device_lost): it cannot be
  /// used.
  virtual void open() {}

  // Memory. A device that shares the host's memory has no other: none of these is called, addresses
  // are the host's.
  /// \return null if there is not that much left.
  virtual memory_handle allocate(std::size_t bytes) = 0;
  /// \pre every operation on it is done.
  virtual void free(memory_handle memory, std::size_t bytes) noexcept = 0;
  /// How much can be allocated in all.
  virtual std::size_t memory_limit() const noexcept = 0;

  /// Addresses that kernels get are multiples of so many bytes, from the beginning of a block of
  /// memory.
  virtual std::size_t alignment() const noexcept { return 1; }

  // Streams: 0 takes copies to the device, also from others, 1 copies from it, those from 2 on
  // kernels and copies within it.
  virtual int streams() const noexcept = 0;
  /// One more, for copies from it that come after launches (`order`): those that wait for nothing
  /// are not behind them then. Below 0: there is none, and such copies are begun when the launches
  /// are over.
  virtual int waiting_stream() const noexcept { return -1; }
  /// The same for copies to it that come after operations of other devices.
  virtual int waiting_stream_in() const noexcept { return -1; }
  virtual ticket copy(int stream, const copy_request& what) = 0;
  /// What `launch` would do first, if need be: compiles the kernel. For a trace, to tell the one
  /// from the other.
  virtual void prepare(const kernel_code&) {}
  /// Compiles the kernel if need be. `arguments[i]` is parameter i. What a function throws is
  /// passed on, when all that it has put into the stream is over.
  virtual ticket launch(int stream, const launch_request& what) = 0;
  /// Does `launch` take sequences? Else their launches are put into the stream one by one.
  virtual bool takes_sequences() const noexcept { return false; }
  /// Null: it puts no launches together.
  virtual launch_fuser* fuser() noexcept { return nullptr; }
  /// Does it take launches behind others that are under way? Then a launch that has such is never
  /// done at once.
  virtual bool launches_behind() const noexcept { return false; }
  /// What is put into the stream from now on begins after `t`, an operation of this device. If that
  /// fails or is not done, what comes after it may be done all the same, or not: then `done` throws
  /// predecessor_failed.
  virtual void order(int stream, ticket t) = 0;
  /// The end of `t`, an operation of this device that is under way, for devices that wait for this
  /// one. What comes after it there may begin later than needed. \return null: it is over.
  virtual event_ref event(ticket) { return nullptr; }
  /// The end of what the stream has so far is asked for by itself: whatever comes behind it there
  /// should not delay the answer. A hint.
  virtual void mark(int) {}
  /// Its owner goes on after other code may have run in its thread, or in another thread. An owner
  /// that says so once says so each time, at the latest before the next call.
  /// \param new_round it has been through all that it has to do since it said so last; what it asks
  /// for in a round it asks for again in the next.
  virtual void resume([[maybe_unused]] bool new_round) noexcept {}
  /// Is it done? Asked again and again, until it has been: then the ticket is forgotten. \throws
  /// what went wrong with it, once; then it is forgotten too.
  virtual bool done(ticket t) = 0;
  /// Does it know how long operations took? Then `took` tells that of the last operation which
  /// `done` has found to be done: nanoseconds from when it could begin in its stream; 0: of this
  /// one it does not know.
  virtual bool measures() const noexcept { return false; }
  virtual std::int64_t took() const noexcept { return 0; }
  /// What a copy between the host and this device takes by itself, where that is computed and not
  /// measured: nanoseconds. Any thread. \return nothing: it is to be tried.
  virtual std::optional<std::int64_t> copy_takes([[maybe_unused]] direction way,
                                                 [[maybe_unused]] std::size_t bytes) const noexcept {
    return std::nullopt;
  }
  /// Do kernels have times only where launches ask for them (`launch_request::timed`)? Then it
  /// costs something, and few should. Any thread.
  virtual bool measures_on_request() const noexcept { return false; }
  /// Do kernels of several streams share what the device has, so that each takes longer than it
  /// does alone?
  virtual bool streams_compete() const noexcept { return false; }
  /// And that of what functions have put into its queue? Any thread.
  virtual bool measures_functions() const noexcept { return false; }
  /// What it takes, if that is known beforehand. Any thread.
  virtual std::optional<device_power> power() const { return std::nullopt; }
  /// Looks for a counter of what it takes, which may open a library and take some milliseconds. Any
  /// thread. \param why gets what is missing. \return null: that.
  virtual std::shared_ptr<energy_source> energy(std::string& /*why*/) const { return nullptr; }
  /// Nanoseconds until it makes sense to ask again; 0: at once.
  virtual std::int64_t poll_delay() noexcept { return 0; }

  // Any thread, also while its owner uses it --------------------------------------------------------------------------
  /// May `runs` say no? Else it need not be asked.
  virtual bool is_selective() const noexcept { return false; }
  /// Is there a way to make this kernel run here? The first question for a kernel may read a file;
  /// the answer stays.
  virtual bool runs(const kernel_code&) const noexcept { return true; }
  /// What `runs` misses, and how to get it: "it needs NVRTC (…): install …". Empty: it says yes.
  virtual std::string why_not(const kernel_code&) const { return {}; }

  /// What its owner's stack should have; 0: the usual.
  virtual std::size_t stack_needed() const noexcept { return 0; }

  /// Can its operations come after those of that device (`after_others`), by the devices' own
  /// doing? Any thread.
  virtual bool waits_for(const device&) const noexcept { return false; }
  /// Can it copy straight from that device's memory to its own? Any thread.
  virtual bool reaches(const device&) const noexcept { return false; }
  /// That, and at least as fast as a copy between that device and the host? Any thread.
  virtual bool is_near(const device& from) const noexcept { return reaches(from); }
};

} // namespace tern::hetero::detail
