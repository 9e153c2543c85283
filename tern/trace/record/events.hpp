// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the layers above tell: each function writes one record into the calling thread's ring,
/// without locks or atomic read-modify-writes, in some ten nanoseconds. Call them only if
/// `trace::on()`, which keeps a caller's hot path to one load; if recording ends in between they do
/// nothing. None throws. They are out of line, so none keeps the address of something
/// `thread_local` in a caller that may be moved to another thread.
///
/// A record belongs to a *track*, one for each worker of each rank, and for each stream of
/// operations of a device. A worker says once which is its own (`on_track`). In the simulator,
/// where one thread is all workers, it is said whenever another worker's turn comes.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <tern/trace/part/format.hpp>
#include <tern/trace/trace.hpp>

namespace tern::trace::detail {

/// The number of a name; the same for the same text as long as a recording lasts. Takes a lock when
/// this thread has not seen it lately. Numbers of earlier recordings are not to be used: keep
/// `recording` beside them.
std::uint32_t name_number(std::string_view text) noexcept;

/// A new track; `name` empty: "worker N". Takes a lock. \return no_track if nothing is recorded.
/// Two with one `worker` are shown as one. Those of devices count from `first_of_devices`.
std::uint32_t new_track(int rank, int worker, std::string_view name = {}) noexcept;
/// What the calling thread records from now on is that track's. \return the one before.
std::uint32_t on_track(std::uint32_t track) noexcept;

/// A fiber begins (`first`) or goes on, on this thread's track. Regions belong to it until it
/// leaves.
void fiber_enters(std::uint64_t fiber, std::uint32_t name, bool first) noexcept;
void fiber_ends(std::uint64_t fiber) noexcept;
void fiber_yields(std::uint64_t fiber) noexcept;
/// \param kind the name of what it waits for: "mutex".
/// \param what shown as an address, but not under a simulator: the traces of one seed are the same
/// to the byte.
void fiber_waits(std::uint64_t fiber, std::uint32_t kind, const void* what) noexcept;

/// \return whether this batch is one of those recorded; if so tell `tasklets_end` of it too.
bool tasklets_begin() noexcept;
void tasklets_end(std::uint64_t n) noexcept;
void steals(std::uint64_t n) noexcept;
void parks() noexcept;
void wakes() noexcept;

/// \param number of the message among all that this rank has sent; the receiver needs its lowest
/// `flow_bits` bits.
void sends(int to, std::uint64_t number, std::size_t bytes, std::uint32_t handler) noexcept;
void arrives(int from, std::uint32_t number) noexcept;
/// Within the handler's own fiber, or outside fibers; ended by `handler_ends`, or with the fiber.
void handler_begins(int from, std::uint32_t number, std::uint32_t handler) noexcept;
void handler_ends() noexcept;

/// Objects. \param type the name of its class. \param object its number: see table_object. The
/// handler that runs in the calling fiber, or on this thread outside fibers, works on an object
/// from now on.
void works_on(std::uint32_t type, std::uint64_t object) noexcept;
/// An object of so many bytes goes to another rank, in the calling fiber, and has come there. The
/// message that carries it is told of by `sends` as any other.
void departs(std::uint32_t type, std::uint64_t object, int to, std::size_t bytes) noexcept;
void lands(std::uint32_t type, std::uint64_t object, int from, std::size_t bytes) noexcept;
/// A message of rank `from` for an object that is elsewhere goes on, as a new message: no handler
/// has begun for it, or one that only was to find the object (`handled`).
void forwards(int from, std::uint32_t number, bool handled, std::uint32_t type, std::uint64_t object) noexcept;
/// What the program calls an object: shown beside its class and number. Takes a lock. Where it is
/// told on several ranks or again, the last one counts. A process keeps at most half as many as
/// there may be names; more are shown without.
void name_object(std::uint64_t object, std::string_view name) noexcept;

/// What a device does. It has no thread of its own here, so the thread that notices says on which
/// of its tracks: any thread, but for one track one after the other. On a track things do not
/// overlap: what begins there ends what has not ended. Does nothing for `no_track`.
/// \param predicted how long it is expected to take, in nanoseconds; 0: that is not known.
void kernel_begins(std::uint32_t track, std::uint32_t name, std::uint64_t predicted = 0) noexcept;
/// \param of the name of what is copied; 0: it has none.
void copy_begins(std::uint32_t track, std::uint32_t name, std::uint64_t bytes, std::uint32_t of) noexcept;
void device_ends(std::uint32_t track, bool failed) noexcept;
/// As trace::counter, for the rank of that track.
void device_counts(std::uint32_t track, std::uint32_t name, double value) noexcept;

void fault(std::string_view text) noexcept;
void crash(std::string_view text) noexcept;

} // namespace tern::trace::detail
