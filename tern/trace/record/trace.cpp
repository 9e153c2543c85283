// SPDX-License-Identifier: Apache-2.0
/// \file
/// Writing records, and the beginning and the end of a recording.
#include <tern/trace/trace.hpp>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <utility>

#include <pthread.h>

#include <tern/base/error.hpp>
#include <tern/trace/part/part.hpp>
#include <tern/trace/record/clock.hpp>
#include <tern/trace/record/events.hpp>
#include <tern/trace/record/session.hpp>
#include <tern/trace/recorder.hpp>

namespace tern::trace {
namespace detail {

std::atomic<std::uint32_t> recording{0};

namespace {

// The one recording of a process: an exception to the rule against such state, since any thread may
// use a region without having been given anything.
std::mutex gate;                  // constant-initialized, so usable at any time
std::unique_ptr<session> current; // under the gate
std::uint32_t recordings = 0;     // under the gate

// TLS of a library that is there from the start: no call to find it.
[[gnu::tls_model("initial-exec")]] constinit thread_local ring* mine = nullptr;

// A thread that ends gives its ring back, or frees it if the recording has ended.
void part_from(ring* r) noexcept {
  if (!r) return;
  if (r->home)
    r->in_use = false;
  else
    delete r;
}

struct at_thread_end {
  bool used = false;
  ~at_thread_end() {
    std::lock_guard hold(gate);
    part_from(mine);
    mine = nullptr;
  }
};
thread_local at_thread_end thread_end;

// Recording must not change the errno of the code that it interrupts.
struct errno_kept {
  const int number = errno;
  ~errno_kept() { errno = number; }
};

// The calling thread's ring, of the present recording. Null: nothing is recorded, or there is no
// memory.
[[gnu::noinline]] ring* attach() noexcept {
  const errno_kept kept;
  try {
    thread_end.used = true; // makes it, and so has its destructor called
    std::lock_guard hold(gate);
    part_from(mine);
    mine = nullptr;
    if (current) mine = current->attach();
  } catch (const std::exception&) { // no memory: not recorded
  }
  return mine;
}

[[gnu::always_inline]] inline ring* my_ring() noexcept {
  ring* r = mine;
  if (!r || r->recording != recording.load(std::memory_order_relaxed)) [[unlikely]]
    return attach();
  return r;
}

// There was no room for what this thread would write first, less than a second ago: the gate is not
// for asking again.
bool has_no_room(const ring& r) noexcept { return r.no_room_until != 0 && clock_ns() < r.no_room_until; }

bool dropped(ring& r) noexcept {
  r.dropped.fetch_add(1, std::memory_order_relaxed);
  return false;
}

// \return as `ready`.
bool note_room(ring& r, bool ready) noexcept {
  r.no_room_until = ready ? 0 : clock_ns() + retry_ns;
  return ready || dropped(r);
}

[[gnu::noinline]] bool advance(ring& r) noexcept {
  if (has_no_room(r)) return dropped(r);
  const errno_kept kept;
  std::lock_guard hold(gate);
  return r.home && note_room(r, r.home->advance(r));
}

[[gnu::noinline]] bool give_track(ring& r) noexcept {
  if (has_no_room(r)) return dropped(r);
  const errno_kept kept;
  std::lock_guard hold(gate);
  if (!r.home) return false;
  try {
    r.track = r.home->foreign_track();
  } catch (const std::exception&) { // no memory
  }
  return note_room(r, r.track != no_track);
}

[[gnu::always_inline]] inline std::uint64_t time_of(const ring& r) noexcept {
  return r.clock ? static_cast<std::uint64_t>(r.clock()) : counter();
}

[[gnu::always_inline]] inline void put(ring& r, std::uint64_t now, std::uint32_t track, event what, std::uint32_t a,
                                       std::uint64_t b, std::uint64_t c) noexcept {
  if (r.next == r.end && !advance(r)) [[unlikely]]
    return;
  *r.next++ = {now, static_cast<std::uint32_t>(what) << 24 | track, a, b, c};
  // release: not before the record. No thread waits for it; a kill between the two loses the one
  // record.
  const auto used = static_cast<std::uint64_t>(r.next - reinterpret_cast<record*>(r.chunk + 1));
  std::atomic_ref(r.chunk->used).store(used, std::memory_order_release);
}

[[gnu::always_inline]] inline void write(ring* r, event what, std::uint32_t a = 0, std::uint64_t b = 0,
                                         std::uint64_t c = 0) noexcept {
  if (!r) return;
  const std::uint64_t now = time_of(*r);
  if (r->track == no_track && !give_track(*r)) [[unlikely]]
    return;
  put(*r, now, r->track, what, a, b, c);
}

// On a track that is not the thread's.
void write_on(std::uint32_t track, event what, std::uint32_t a, std::uint64_t b, std::uint64_t c = 0) noexcept {
  if (track == no_track) return;
  if (ring* const r = my_ring()) put(*r, time_of(*r), track, what, a, b, c);
}

std::uint64_t hash(std::string_view text) noexcept {
  std::uint64_t h = text.size() * 0x9e3779b97f4a7c15ull;
  const char* p = text.data();
  std::size_t n = text.size();
  for (; n >= 8; p += 8, n -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, p, 8);
    h = (h ^ word) * 0x9e3779b97f4a7c15ull;
    h ^= h >> 29;
  }
  std::uint64_t word = 0;
  std::memcpy(&word, p, n);
  h = (h ^ word) * 0x9e3779b97f4a7c15ull;
  return h >> 32;
}

std::uint32_t number_of(ring* r, std::string_view text) noexcept {
  if (!r) return 0;
  ring::known_name& slot = r->names[hash(text) % r->names.size()];
  if (slot.number != 0 && slot.text == text) return slot.number;
  if (has_no_room(*r)) return 0; // nor for what is named
  const errno_kept kept_errno;
  std::lock_guard hold(gate);
  if (!r->home) return 0;
  try {
    std::string_view kept;
    const std::uint32_t number = r->home->name_number(text, kept);
    if (!kept.empty()) slot = {kept, number};
    return number;
  } catch (const std::exception&) { // no memory: without a name
    return 0;
  }
}

// A child of this process has our mappings and none of our threads: two writers would spoil each
// other's rings.
void in_forked_child() noexcept {
  recording.store(0, std::memory_order_relaxed);
  if (current) current->close_file();   // else its lock would be held as long as we live
  static_cast<void>(current.release()); // not ended: its parent goes on with it
  mine = nullptr;
  gate.unlock();
}
void before_fork() noexcept { gate.lock(); }
void in_forking_parent() noexcept { gate.unlock(); }

void checked(const recorder_settings& s) {
  const auto refuse = [](const std::string& what) {
    throw error(errc::invalid_argument, "a trace cannot have " + what);
  };
  if (s.folder.empty()) refuse("no folder for its parts");
  if (s.ranks < 1 || s.rank < 0 || s.rank >= s.ranks)
    refuse("rank " + std::to_string(s.rank) + " of " + std::to_string(s.ranks));
  if (s.ring_kib < 256) refuse("rings of " + std::to_string(s.ring_kib) + " KiB: at least 256");
  if (s.most_names < 16 || s.most_names >= 1 << 24)
    refuse("room for " + std::to_string(s.most_names) + " names: from 16 to 16777215");
  if (s.tasklet_sample < 1) refuse("one of " + std::to_string(s.tasklet_sample) + " batches of tasklets: at least 1");
}

} // namespace

void write_counter(std::string_view name, double value) noexcept {
  ring* const r = my_ring();
  write(r, event::counts, number_of(r, name), std::bit_cast<std::uint64_t>(value));
}
void write_instant(std::string_view name) noexcept {
  ring* const r = my_ring();
  write(r, event::happens, number_of(r, name), r ? r->fiber : 0);
}

std::uint32_t name_number(std::string_view text) noexcept { return number_of(my_ring(), text); }

std::uint32_t new_track(int rank, int worker, std::string_view name) noexcept {
  std::lock_guard hold(gate);
  try {
    return current ? current->new_track(rank, worker, name) : no_track;
  } catch (const std::exception&) { // no memory
    return no_track;
  }
}

std::uint32_t on_track(std::uint32_t track) noexcept {
  ring* const r = my_ring();
  return r ? std::exchange(r->track, track) : no_track;
}

void fiber_enters(std::uint64_t fiber, std::uint32_t name, bool first) noexcept {
  ring* const r = my_ring();
  write(r, event::fiber_enters, name, fiber, first);
  if (r) r->fiber = fiber;
}
void fiber_ends(std::uint64_t fiber) noexcept {
  ring* const r = my_ring();
  write(r, event::fiber_ends, 0, fiber);
  if (r) r->fiber = 0;
}
void fiber_yields(std::uint64_t fiber) noexcept {
  ring* const r = my_ring();
  write(r, event::fiber_yields, 0, fiber);
  if (r) r->fiber = 0;
}
void fiber_waits(std::uint64_t fiber, std::uint32_t kind, const void* what) noexcept {
  ring* const r = my_ring();
  // address: for people to compare; not under a simulator, whose traces repeat
  const std::uint64_t where = r && !r->simulated ? reinterpret_cast<std::uintptr_t>(what) : 0;
  write(r, event::fiber_waits, kind, fiber, where);
  if (r) r->fiber = 0;
}

bool tasklets_begin() noexcept {
  ring* const r = my_ring();
  if (!r || ++r->batches < r->sample) return false;
  r->batches = 0;
  write(r, event::tasklets_begin);
  return true;
}
void tasklets_end(std::uint64_t n) noexcept { write(my_ring(), event::tasklets_end, 0, n); }
void steals(std::uint64_t n) noexcept { write(my_ring(), event::steals, 0, n); }
void parks() noexcept { write(my_ring(), event::parks); }
void wakes() noexcept { write(my_ring(), event::wakes); }

void sends(int to, std::uint64_t number, std::size_t bytes, std::uint32_t handler) noexcept {
  write(my_ring(), event::sends, static_cast<std::uint32_t>(to), number, bytes << 24 | handler);
}
void arrives(int from, std::uint32_t number) noexcept {
  write(my_ring(), event::arrives, static_cast<std::uint32_t>(from), number);
}
void handler_begins(int from, std::uint32_t number, std::uint32_t handler) noexcept {
  write(my_ring(), event::handler_begins, static_cast<std::uint32_t>(from), number, handler);
}
void handler_ends() noexcept { write(my_ring(), event::handler_ends); }

void works_on(std::uint32_t type, std::uint64_t object) noexcept { write(my_ring(), event::on_object, type, object); }
void departs(std::uint32_t type, std::uint64_t object, int to, std::size_t bytes) noexcept {
  write(my_ring(), event::departs, static_cast<std::uint32_t>(to), object, bytes << 24 | type);
}
void lands(std::uint32_t type, std::uint64_t object, int from, std::size_t bytes) noexcept {
  write(my_ring(), event::lands, static_cast<std::uint32_t>(from), object, bytes << 24 | type);
}
void forwards(int from, std::uint32_t number, bool handled, std::uint32_t type, std::uint64_t object) noexcept {
  write(my_ring(), event::forwards, static_cast<std::uint32_t>(from),
        std::uint64_t{type} << 32 | (handled ? was_handled : 0) | number, object);
}
void name_object(std::uint64_t object, std::string_view name) noexcept {
  const errno_kept kept;
  std::lock_guard hold(gate);
  try {
    if (current) current->name_object(object, name);
  } catch (const std::exception&) { // no memory: without a name
  }
}

void kernel_begins(std::uint32_t track, std::uint32_t name, std::uint64_t predicted) noexcept {
  write_on(track, event::kernel_begins, name, predicted);
}
void copy_begins(std::uint32_t track, std::uint32_t name, std::uint64_t bytes, std::uint32_t of) noexcept {
  write_on(track, event::copy_begins, name, bytes, of);
}
void device_ends(std::uint32_t track, bool failed) noexcept { write_on(track, event::device_ends, 0, failed); }
void device_counts(std::uint32_t track, std::uint32_t name, double value) noexcept {
  write_on(track, event::counts, name, std::bit_cast<std::uint64_t>(value));
}

void fault(std::string_view text) noexcept {
  ring* const r = my_ring();
  write(r, event::fault, number_of(r, text));
}
void crash(std::string_view text) noexcept {
  ring* const r = my_ring();
  write(r, event::crash, number_of(r, text));
}

} // namespace detail

void region::begin(std::string_view name) noexcept {
  detail::ring* const r = detail::my_ring();
  if (!r) return;
  recording_ = r->recording;
  name_ = detail::number_of(r, name);
  detail::write(r, detail::event::region_begins, name_, r->fiber);
}

void region::end() const noexcept {
  if (recording_ != detail::recording.load(std::memory_order_relaxed)) return; // it ended, or is another one
  detail::ring* const r = detail::my_ring();
  detail::write(r, detail::event::region_ends, name_, r ? r->fiber : 0);
}

void prepare_parts(const std::string& folder, const std::vector<std::string>& keep) {
  namespace fs = std::filesystem;
  std::error_code e;
  fs::create_directories(folder, e);
  if (!fs::is_directory(folder))
    throw error(errc::io,
                "the folder " + folder + " for the parts of a trace cannot be made" +
                    (e ? ": " + e.message() : std::string()),
                "name a trace file in a folder that can be written to");
  e = detail::remove_idle_parts(folder, keep);
  if (e) throw error(errc::io, "an earlier trace's parts in " + folder + " cannot be removed: " + e.message());
}

recorder::recorder(recorder_settings settings) {
  using namespace detail;
  checked(settings);
  static const int once = ::pthread_atfork(before_fork, in_forking_parent, in_forked_child);
  static_cast<void>(once);
  std::lock_guard hold(gate);
  if (current)
    throw error(errc::invalid_state, "a trace is being recorded already, into " + current->path,
                "a process records one trace at a time: end the other recorder first");
  current = std::make_unique<session>(std::move(settings), recordings + 1);
  number_ = ++recordings;
  part_ = current->path;
  recording.store(number_, std::memory_order_release); // after the session; a thread that uses that takes the gate
}

recorder::~recorder() { end(); }

void recorder::clock_offset(std::int64_t at, std::int64_t add) noexcept {
  std::lock_guard hold(detail::gate);
  if (detail::current && detail::current->number == number_) detail::current->clock_offset(at, add);
}

void recorder::end() noexcept {
  std::lock_guard hold(detail::gate);
  if (!detail::current || detail::current->number != number_) return;
  detail::recording.store(0, std::memory_order_relaxed);
  detail::current->finish();
  detail::current.reset();
}

} // namespace tern::trace
