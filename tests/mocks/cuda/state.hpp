// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the mock CUDA driver keeps. All of it is used under one mutex, which a `call` holds.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <tern/hetero/device/cuda/cuda_api.hpp>

#include "exports.hpp"
#include "kernel_image.hpp"
#include "tests/hetero/support/mock_cuda.hpp"

#define MOCK_EXPORT extern "C" __attribute__((visibility("default")))

namespace mock {

namespace cu = tern::hetero::detail::cu;

// Results that Tern does not ask for by name.
constexpr cu::result invalid_value = 1, not_initialized = 3, device_unavailable = 46, invalid_device = 101,
                     invalid_context = 201, ecc_uncorrectable = 214, invalid_ptx = 218, invalid_handle = 400,
                     illegal_address = 700, context_is_destroyed = 709, not_registered = 713, launch_failed = 719,
                     not_supported = 801, capture_unsupported = 900, capture_invalidated = 901, capture_merge = 902,
                     capture_unmatched = 903, capture_unjoined = 904, capture_isolation = 905, captured_event = 907,
                     capture_wrong_thread = 908, update_failure = 910, unknown_error = 999;

struct settings {
  int devices = 1;
  std::size_t memory = std::size_t{1} << 30;
  std::uint64_t seed = 1;
  std::int64_t delay = 0;
  int capability = 90, driver = 13000, mode = 0;
  std::uint64_t fail_alloc = 0, fail_copy = 0, fail_launch = 0, fail_graph = 0, fault_kernel = 0,
                lose = 0; ///< counted down
  bool fail_context = false, no_init = false, quiet = false, lenient = false;
  bool peers = true;
  bool by_itself = false;                ///< operations go on with every call, not with questions alone
  bool sticky = false;                   ///< what breaks a context breaks all later ones
  std::size_t memlock = ~std::size_t{0}; ///< bytes of the host's memory that can be registered
  int most_items = 1024;                 ///< of a group, by registers
  // The virtual clock, if one of them is set: what a call takes, a launch or copy until it begins,
  // and a kernel, in nanoseconds.
  std::int64_t call_time = 0, start_time = 0, kernel_time = 0;
  std::size_t bandwidth = 0; ///< bytes a second
  bool has_clock() const { return call_time > 0 || start_time > 0 || kernel_time > 0 || bandwidth > 0; }
};
settings parse(const char* text);

/// A handle: counted up, never given twice, so what is gone is known. It points to nothing.
using handle = std::uint64_t;
/// A place in a stream: has everything before it been done, and when, by the virtual clock?
struct moment {
  bool done = false;
  std::int64_t end = 0;  ///< nanoseconds
  std::int64_t seen = 0; ///< when it was done, by the machine's clock, in nanoseconds
};
using point = std::shared_ptr<moment>;

struct range {
  std::uintptr_t begin, end;
};

struct code;
struct function {
  handle number;
  code* of; ///< which has it
  const tern_mock_kernel* kernel;
  std::size_t shared = 0; ///< bytes, not counting dynamic ones
  int dynamic = 0;        ///< most dynamic bytes that were asked for, if more than usual
};
/// A loaded module. Its functions live as long.
struct code {
  int device = 0;
  bool kept = false; ///< by a library, until the context goes
  void* library = nullptr;
  const tern_mock_image* image = nullptr;
  std::deque<function> functions;
  ~code();
};

/// Rows, from and to host addresses: device memory has them too.
struct copy_work {
  const char* from = nullptr;
  char* to = nullptr;
  std::size_t row_bytes = 0, rows = 1, slices = 1;
  std::size_t from_pitch = 0, from_slice = 0, to_pitch = 0, to_slice = 0;
  std::shared_ptr<std::vector<char>> kept; ///< what `from` points into, if the host's memory was read at once
  int way = 0;                             ///< 0 to the device, 1 from it, 2 within, 3 from another
  int source = -1;                         ///< number of that
};
struct kernel_work {
  std::shared_ptr<code> owner;
  const function* what = nullptr;
  tern_mock_index groups{}, items{};
  unsigned dynamic = 0;
  std::vector<std::vector<std::uint64_t>> values;
  std::vector<std::uintptr_t> points; ///< parameters that point into a device's memory
};
struct executable;
struct graph_work {
  std::shared_ptr<executable> what;
  std::vector<char> done; ///< of its nodes
};

enum class work { record, wait, copy, kernel, graph };
struct operation {
  work is = work::record;
  copy_work copy;
  kernel_work kernel;
  graph_work graph;
  std::vector<range> uses;  ///< memory of devices, or registered
  std::vector<point> after; ///< must be there first, besides what the stream has before
  point at;                 ///< becomes true when it is done
  std::int64_t ready = 0;   ///< not before
  std::int64_t given = 0;   ///< when, by the virtual clock
  bool timed = false;       ///< a record of an event that keeps its time
};
std::string describe(const operation& op);

struct node {
  operation op;
  std::vector<std::size_t> after; ///< nodes before it
};
/// What is put into streams between BeginCapture and EndCapture; or a graph that is made node by
/// node.
struct capture {
  std::vector<node> nodes;
  std::map<handle, std::size_t> names; ///< of nodes that were added by themselves
  handle origin = 0;
  int device = 0, mode = 0;
  std::thread::id thread;
  bool broken = false, over = false;
};
struct executable {
  std::vector<node> nodes;
  std::map<handle, std::size_t> names;
  int device = 0;
  point last; ///< of its launch before: launches of one do not overlap
};

struct stream {
  handle number = 0;
  int device = 0;
  bool destroyed = false; ///< what is in it is done yet
  std::int64_t end = 0;   ///< of what is done, by the virtual clock
  std::deque<operation> pending;
  std::shared_ptr<capture> capturing;
  std::vector<std::size_t> last; ///< nodes that the next one comes after
};
struct event {
  int device = 0;
  bool timed = true; ///< keeps its time
  point last;        ///< null: never recorded
  std::shared_ptr<capture> captured;
  std::vector<std::size_t> captured_after;
};
struct allocation {
  int device = 0;
  std::size_t bytes = 0;
  std::uint64_t serial = 0;
};
struct registration {
  int device = 0;
  std::size_t bytes = 0;
  bool portable = false;
};
struct device {
  int retains = 0;
  handle context = 0; ///< 0: there is none
  std::size_t used = 0;
  cu::result lost = 0;
  bool told = false; ///< a call has returned that it is lost
  std::shared_ptr<stream> usual;
  std::set<handle> reached; ///< contexts with memory that this one may access
};

struct state {
  settings set;
  std::uint64_t generation = 0;
  bool initialized = false;
  tern_mock_counters counted{};
  std::map<std::string, std::uint64_t, std::less<>> calls; ///< by their names
  std::int64_t clock = 0;                                  ///< the host's, virtual
  std::vector<std::uintptr_t> opened;                      ///< devices' memory that can be accessed
  const char* runs = nullptr;                              ///< the kernel that does
  std::vector<std::string> misuse;
  std::mt19937_64 random;
  std::vector<device> devices;
  handle given = 0;
  std::uint64_t allocated = 0; ///< serial numbers
  std::map<std::uintptr_t, allocation> memory;
  std::map<std::uintptr_t, std::size_t> freed; ///< where no memory is since
  std::map<std::uintptr_t, registration> registered;
  std::map<handle, std::shared_ptr<stream>> streams;
  std::map<handle, std::shared_ptr<event>> events;
  std::map<handle, std::shared_ptr<code>> modules;
  std::map<handle, std::shared_ptr<capture>> graphs;
  std::map<handle, std::shared_ptr<executable>> executables;
  std::vector<std::weak_ptr<capture>> captures;
};
std::mutex& global_mutex();
state& global(); ///< \pre the mutex is held
/// Frees all that is alive and begins anew.
void reset(const char* text);
/// Records what is left of a device's context, or of what belongs to none (-1), and drops it.
void drop(state& s, int device);

template <class T> T as_handle(handle number) { // NOLINTNEXTLINE(performance-no-int-to-ptr): it points to nothing
  return reinterpret_cast<T>(static_cast<std::uintptr_t>(number));
}
template <class T> handle number_of(T* given) { // address: a number that counts up
  return static_cast<handle>(reinterpret_cast<std::uintptr_t>(given));
}
inline std::uintptr_t address(const void* p) { // address: ranges are compared
  return reinterpret_cast<std::uintptr_t>(p);
}
inline char* bytes_at(cu::pointer p) { // NOLINTNEXTLINE(performance-no-int-to-ptr): device memory is the host's here
  return reinterpret_cast<char*>(static_cast<std::uintptr_t>(p));
}
std::string hex(std::uint64_t n);

enum class needs { nothing, init, context, context_even_lost };

/// A call of the driver: holds the mutex, counts, and checks what nearly all need.
class call {
  std::unique_lock<std::mutex> lock_; // first: the state is got under it

public:
  call(const char* name, needs what);
  ~call();
  call(const call&) = delete;
  call& operator=(const call&) = delete;

  cu::result failed = 0; ///< to return at once, unless 0
  state& s;
  int at = -1; ///< the device with the current context, if the call needs one

  device& here() { return s.devices[static_cast<std::size_t>(at)]; }
  /// Notes what was wrong. \return r, or success if it can go on and the mock is lenient.
  cu::result misuse(cu::result r, const std::string& what, bool can_go_on = false);
  /// What the device says now: also what was found since the call began.
  cu::result status();

  /// The stream for a handle, null being the device's own; null and `failed` if there is none, or
  /// it is another's.
  std::shared_ptr<stream> find_stream(cu::stream h);
  std::shared_ptr<event> find_event(cu::event h, bool of_this_device);
  /// Lets some operations be done, or none.
  void go_on();
  /// Lets operations be done until this one is, or its device is lost.
  void finish(const point& until, int device);
  /// Puts an operation into a stream, or into what is captured of it. \return its point; null if
  /// captured
  point put(stream& to, operation&& op);
  /// Notes whether it touches, before or after or at once, what another one in a stream writes.
  /// (order.cpp)
  void check_order(const stream& to, const operation& op);
  /// Is it refused because something is captured?
  bool forbidden_in_capture();
  /// Has an operation to use a part of this memory? Then it is done first, and told.
  std::string pending_use(range r, std::vector<std::pair<point, int>>& which);
  const char* name() const { return name_; }

private:
  const char* const name_;
};

/// A launch as an operation, checked. \return what is wrong with it, or 0. (modules.cpp)
cu::result make_kernel(call& c, operation& op, cu::function h, tern_mock_index groups, tern_mock_index items,
                       unsigned dynamic, void** parameters, void** extra);

/// Notes that a call runs on a fiber's stack, which the driver might find too small.
void note_stack(state& s);
/// The text behind "unknown stream" or the like.
std::string gone(const state& s, handle number);
/// What was set by cuCtxSetCurrent in this thread; 0: nothing.
handle& current_context(const state& s);

/// Lets up to `most` operations that are ready be done, in streams chosen by chance. \return how
/// many were
int advance(state& s, int most);
/// Nanoseconds until some operation may be ready; -1 if none is pending.
std::int64_t poll_delay(const state& s);
void lose(state& s, int device, cu::result r);
/// The allocation that has all of it; the memory's end if there is none.
std::map<std::uintptr_t, allocation>::const_iterator find_memory(const state& s, std::uintptr_t at);

/// Has it been done, as far as the host can see? By the virtual clock, that may be later.
bool is_over(const state& s, const point& p);

// guarded.cpp
/// \return null: there is none.
char* map_memory(std::size_t bytes);
void unmap_memory(std::uintptr_t at, std::size_t bytes);
/// Blocks of which a part is used can be accessed, until `close_memory`, which the end of a call
/// does.
void open_memory(state& s, const std::vector<range>& uses);
void close_memory(state& s);

void run_copy(const copy_work& what);
/// \return success, launch_failed
cu::result run_kernel(state& s, const kernel_work& what);

} // namespace mock
