// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A task, as the runtime sees it, and the edges between tasks. Internal.
///
/// A task's record comes from a pool, so that in steady state nothing is allocated for it: 512
/// bytes, of which one that uses one object touches three cache lines. What does not fit lies in
/// further blocks of the same pool.
///
/// Contract
/// - `pending` counts what the task waits for: its predecessors, and 1 until it has been submitted.
///   The thread that brings it to zero makes the task ready. Before that, the submitter alone
///   touches the rest of the record, but for `failure`: a predecessor that fails writes it, and
///   reads `work`, the closure and `name` for its text.
/// - `successors` is a list of links, pushed by compare-and-swap, which completion takes as a whole
///   and closes by one exchange: so a task that is to follow is in the list in time, or finds it
///   closed and sees what the task did. A link is part of the record of the successor, which cannot
///   run, and so cannot be freed, before that link has been followed.
/// - A task may be put behind its predecessors on a device before these have ended: when those that
///   `pending` still counts are all in streams of one device. They can then end in no other place
///   than its worker, which has the task for itself from that moment on: nothing but that worker
///   brings `pending` to zero (device/worker/followers.hpp).
/// - `references`: one of the task itself until it has completed, one for each list of an object
///   that it stands in, one for each handle of the user's. The last one gives the record back.
///
/// Source: StarPU's counters of dependencies, instead of lists to poll. Memory orders: beside each
/// operation.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>

#include <tern/hetero/access.hpp>
#include <tern/hetero/device/device.hpp>
#include <tern/hetero/record/box.hpp>
#include <tern/task/tasklet/tasklet.hpp>

namespace tern::hetero {

namespace detail {

class runtime;
struct object_state;
struct task_record;
struct use_block;
struct link_block;

/// Of a task that has not been submitted: in an object of the reduction's own it will read and
/// write. `use::address` says how (a reduce_block).
constexpr access_mode reducing_access{8};

constexpr bool reads(access_mode a) noexcept { return (static_cast<unsigned>(a) & 1u) != 0; }
constexpr bool writes(access_mode a) noexcept { return (static_cast<unsigned>(a) & 2u) != 0; }

/// What a list of successors is made of.
struct link {
  link* next;
  std::uintptr_t target; ///< of a task_record or a completion_hook, with what it is in the lowest bits
};

/// Something else that happens when a task has completed. Called once, on any thread or fiber; must
/// not wait.
struct completion_hook {
  void (*fire)(completion_hook& self, task_record& of) noexcept;
  link edge{};
};
constexpr std::uintptr_t data_edge = 0; ///< needs what the predecessor wrote: fails if that did
constexpr std::uintptr_t order_edge = 1;
constexpr std::uintptr_t hook_edge = 2;
constexpr std::uintptr_t edge_bits = 3;

/// How a task uses a part of an object.
struct use {
  object_state* object;
  box part;
  access_mode how;
  std::uint8_t instance; ///< of the object, once acquired
  bool whole;            ///< all of the object
  bool ordered : 1;      ///< by the order of submission
  bool writing : 1;      ///< it is counted in its fragments' `writing`
  bool noted : 1;        ///< in upcoming_uses
  std::int32_t pitch;    ///< elements from row to row, once acquired
  void* address;         ///< of the part's first element, once acquired: the host's, or a memory_handle
};
static_assert(sizeof(use) == 48);

/// A kernel of the program's and how often it runs; null: it is no kernel.
struct kernel_at {
  const kernel_code* code = nullptr;
  const grid* shape = nullptr;
};

/// What a record's closure is. One object for each type.
struct work_type {
  device_kinds kinds; ///< it can run there
  /// In a fiber of the host, or a tasklet. May throw and wait. Null: not on the host.
  void (*run)(task_record&);
  /// What the closure owns goes.
  void (*destroy)(task_record&) noexcept;
  /// What a device launches, with the task's arguments put into `arguments`, which has room for
  /// `arguments_most`.
  void (*describe)(task_record&, launch_request& what, argument* arguments);
  const char* (*name)(const task_record&) noexcept;
  /// What it launches on devices of the kind, if that is one kernel. Null: it never is.
  kernel_at (*kernel)(task_record&, device_kind) noexcept = nullptr;
  /// Calls `f(of, code)` for all kernels that it launches on devices of the kind, until one says
  /// no. \return whether none has. Null: `kernel` is all.
  bool (*all_kernels)(task_record&, device_kind, bool (*f)(void* of, const kernel_code&), void* of) = nullptr;
  /// What its times are kept by where it runs a function on devices of the kind; null: they are
  /// not kept. Null: it never runs one.
  kernel_at (*function)(task_record&, device_kind) noexcept = nullptr;
};
/// Calls `f(code)`, as `all_kernels` does. `f` returns a bool.
template <class F> bool all_kernels(task_record& t, device_kind kind, F&& f);
constexpr std::size_t arguments_most = 48;

struct alignas(64) task_record : tern::detail::tasklet {
  enum state_of : std::uint8_t { made, waiting, begun, done };
  enum flag : std::uint16_t {
    placed = 1,          ///< a policy chooses where it runs
    acquired = 2,        ///< its uses hold instances
    commutes = 4,        ///< and must lock
    on_account = 8,      ///< `causal` is counted
    hidden = 16,         ///< the runtime's own: no user sees it
    waits_release = 32,  ///< it completes when the user says so
    extended = 64,       ///< what is rarely touched has been
    handled = 128,       ///< the user has a handle: it may be cancelled
    of_reduction = 1024, ///< it adds the parts
    pins = 512,          ///< the instance that it has got stays
    given = 2048,        ///< it is in a stream of its device, and what it writes counts as written there
    behind = 4096,       ///< it has gone to its device before its predecessors had ended
    reduces = 8192,      ///< it adds to a part of a reduction
    unsampled = 1 << 14, ///< its time on the host is not to be taken: known, brief, and not its turn
    planned = 1 << 15,   ///< `device_mask` is a plan's: if that device is lost, it runs elsewhere
    order_only = 256     ///< what it uses is for its order: no data are brought to it
  };
  /// `failed`: one thread has taken it upon itself to write the reason; `failure_set`: it has;
  /// `failure_seen`: the program learns of it by other means than wait_all; `inherited`: because
  /// another task failed. `keyed`: it has a key; `sized`: and a number of its size
  /// class, in its first use_block. Both are set before it is submitted. `across`: it may be behind
  /// tasks of another device; `repeated`: it has been launched a second time, as what was before it
  /// on its device failed.
  enum mark : std::uint8_t {
    failed = 1,
    failure_set = 2,
    failure_seen = 4,
    inherited = 8,
    keyed = 16,
    sized = 32,
    across = 64,
    repeated = 128
  };

  static constexpr std::int32_t not_submitted = 1 << 30;
  std::atomic<std::int32_t> pending{not_submitted}, references{1};
  std::atomic<std::uintptr_t> successors{0};
  const work_type* work = nullptr;
  runtime* home = nullptr;
  /// Why it failed, or is not going to run. Written by the thread that sets the mark `failed`
  /// first, which then sets `failure_set`.
  std::exception_ptr failure;
  std::atomic<std::uint8_t> state{made}, marks{0};
  std::uint16_t flags = 0;
  device_kinds kinds = 0;
  std::uint8_t use_count = 0, link_count = 0;
  /// Where it runs. Until it is submitted: where one of those runs that it follows and of which the
  /// device looks for such tasks; 0: there is none.
  std::uint8_t device = 0;

  static constexpr std::size_t inline_uses = 4, closure_bytes = 128;
  struct slot {
    use of;
    link edge;
  } slots[inline_uses];

  // Rarely touched: `extended` says so.
  task_record* next = nullptr; ///< in queues
  tern::detail::causal_context* causal = nullptr;
  /// The user's; lives as long as the program. It may be given, release, while a predecessor's
  /// failure asks, acquire.
  std::atomic<const char*> name{nullptr};
  use_block* more_uses = nullptr;
  link_block* more_links = nullptr;
  std::int64_t device_mask = -1; ///< devices that it may run on, by number
  std::uint64_t key = 0;         ///< of its affinity, if it is `keyed`
  int priority = 0;
  float note = 0; ///< the policy's

  alignas(64) std::byte closure[closure_bytes];

  template <class W> static constexpr bool fits = sizeof(W) <= closure_bytes && alignof(W) <= 64;
  /// The closure: in the record, or on the heap if it does not fit.
  template <class W> W& work_as() noexcept {
    if constexpr (fits<W>)
      return *std::launder(reinterpret_cast<W*>(closure));
    else
      return **std::launder(reinterpret_cast<W**>(closure));
  }
  use& use_at(std::size_t i) noexcept;
  /// How many links it has in others' lists of successors. By the submitter.
  std::int32_t links() const noexcept;
  const char* text_name() const noexcept {
    const char* const users = name.load(std::memory_order_acquire);
    return users ? users : work && work->name ? work->name(*this) : "task";
  }
  bool sound() const noexcept { return (marks.load(std::memory_order_relaxed) & failed) == 0; }
  void set_key(std::uint64_t k) noexcept {
    key = k;
    marks.fetch_or(keyed, std::memory_order_relaxed); // others may mark it as failed at the same time
  }
  bool has_key() const noexcept { return (marks.load(std::memory_order_relaxed) & keyed) != 0; }
  /// What the user says that its time depends on; 0: nothing.
  std::uint64_t size_number() const noexcept;
  bool is_done() const noexcept { return state.load(std::memory_order_acquire) == done; }
  bool has_failed() const noexcept { return (marks.load(std::memory_order_acquire) & failed) != 0; }
};
static_assert(sizeof(task_record) == 512);

/// A list of successors that has been closed; in the head of one that a device's worker looks at.
constexpr std::uintptr_t closed_list = 1, watched_list = 2;

/// What further uses lie in: 512 bytes of the same pool.
struct alignas(64) use_block {
  use_block* next;
  static constexpr std::size_t capacity = 10;
  use uses[capacity];
  std::uint64_t size_number; ///< of the task, if it is `sized`
};
/// How parts of a reduction are added to each other.
struct reducer {
  void (*combine)(std::byte* into, const std::byte* from, std::int64_t n);
  const std::byte* identity;
};
struct alignas(64) reduce_block {
  void (*combine)(std::byte* into, const std::byte* from, std::int64_t n);
  static constexpr std::size_t capacity = 448; ///< an element's bytes, at most
  std::byte identity[capacity];
};
struct alignas(64) link_block {
  link_block* next;
  std::size_t used;
  static constexpr std::size_t capacity = 31;
  link links[capacity];
};
static_assert(sizeof(use_block) == 512 && sizeof(link_block) == 512 && sizeof(reduce_block) == 512);

/// Gives the record back to the pool of its runtime.
void free_record(task_record* t) noexcept;
/// Drops a reference; the last one gives the record back.
inline void unreference(task_record* t) noexcept {
  // As record_pool::unreference.
  if (t->references.load(std::memory_order_acquire) == 1 || t->references.fetch_sub(1, std::memory_order_acq_rel) == 1)
    free_record(t);
}

inline std::int32_t task_record::links() const noexcept {
  std::int32_t n = link_count;
  for (const link_block* b = more_links; b; b = b->next) n += static_cast<std::int32_t>(b->used);
  return n;
}

template <class F> bool all_kernels(task_record& t, device_kind kind, F&& f) {
  if (!t.work) return true;
  if (t.work->all_kernels)
    return t.work->all_kernels(
        t, kind, [](void* of, const kernel_code& code) -> bool { return (*static_cast<F*>(of))(code); }, &f);
  const kernel_at only = t.work->kernel ? t.work->kernel(t, kind) : kernel_at();
  return !only.code || f(*only.code);
}

inline std::uint64_t task_record::size_number() const noexcept {
  return (marks.load(std::memory_order_relaxed) & sized) != 0 ? more_uses->size_number : 0;
}

inline use& task_record::use_at(std::size_t i) noexcept {
  if (i < inline_uses) return slots[i].of;
  use_block* b = more_uses;
  for (i -= inline_uses; i >= use_block::capacity; i -= use_block::capacity) b = b->next;
  return b->uses[i];
}

} // namespace detail
} // namespace tern::hetero
