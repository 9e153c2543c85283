// SPDX-License-Identifier: Apache-2.0
/// \file
/// Which fiber waits for what: dumps and deadlocks.
#include <tern/task/report/dump.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <sys/uio.h>
#include <unistd.h>

#include <tern/task/boundary/diagnosis.hpp>
#include <tern/task/boundary/registry.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/fiber/sanitizer.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::detail {
namespace {

std::string address(const void* p) {
  char text[32];
  std::snprintf(text, sizeof text, "%p", p);
  return text;
}

// All fibers in the order of their ids: what is said of them, and of which, is the same wherever
// they lie.
struct roster {
  /// \param limit how long to wait for a thread that makes stacks just now: it may have crashed. 0:
  /// as long as it takes.
  explicit roster(scheduler_core& c, std::chrono::milliseconds limit = {}) {
    const auto note = [&](const fiber& f) { in_order.emplace_back(f.id.load(std::memory_order_relaxed), &f); };
    complete = limit.count() == 0 ? (c.fibers.each(note), true) : c.fibers.each_within(limit, note);
    std::sort(in_order.begin(), in_order.end(), [](auto& a, auto& b) { return a.first < b.first; });
    for (const auto& [id, f] : in_order) known.insert(f);
  }

  std::vector<std::pair<std::uint64_t, const fiber*>> in_order;
  std::unordered_set<const fiber*> known; // address: only asked whether it holds one, never gone through
  bool complete = false;
};

// What `f` waits for may be gone while we look, and its memory too: then the read fails, and what
// it gives counts only if it is the address of a fiber.
const fiber* owner_of(const fiber& f, const roster& all) noexcept {
  if (f.waits.load(std::memory_order_acquire) == wait_kind::none) return nullptr;
  const auto* on = f.waits_on.load(std::memory_order_relaxed);
  if (!on) return nullptr;
  std::uintptr_t owner = 0;
  const iovec to{&owner, sizeof owner}, from{const_cast<std::atomic<std::uintptr_t>*>(on), sizeof owner};
  if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != static_cast<ssize_t>(sizeof owner)) return nullptr;
  const auto found = all.known.find(reinterpret_cast<const fiber*>(owner));
  return found == all.known.end() ? nullptr : *found;
}

#ifdef TERN_TSAN
#define TERN_UNSYNCHRONISED __attribute__((no_sanitize("thread"), noinline))
#else
#define TERN_UNSYNCHRONISED
#endif
// While others run, what is read here may change, and a name may be torn: the text is for people.
TERN_UNSYNCHRONISED void copy_as_it_is(void* to, const void* from, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i) static_cast<volatile char*>(to)[i] = static_cast<const volatile char*>(from)[i];
}

std::string called(const fiber& f) {
  char name[sizeof f.name];
  copy_as_it_is(name, f.name, sizeof name);
  name[sizeof name - 1] = 0;
  return std::to_string(f.id.load(std::memory_order_relaxed)) + (name[0] ? " '" + std::string(name) + "'" : "");
}

std::string origin(const fiber& f, const scheduler_core& c) {
  std::source_location made;
  copy_as_it_is(&made, &f.made, sizeof made);
  // Where a layer starts its main fiber says nothing to the program's author. address: is it the
  // same place?
  if (!c.main_is.empty() && made.line() == c.main_made.line() && made.file_name() == c.main_made.file_name())
    return c.main_is;
  return "made at " + std::string(made.file_name()) + ":" + std::to_string(made.line());
}

std::string waits_for(const fiber& f) {
  const wait_kind kind = f.waits.load(std::memory_order_acquire);
  const void* object = f.waits_for.load(std::memory_order_relaxed);
  if (kind == wait_kind::join) return "waits for fiber " + called(*static_cast<const fiber*>(object)) + " to end";
  if (kind == wait_kind::sleep) return "sleeps";
  return std::string("waits for ") + name_of(kind) + (object ? " " + address(object) : std::string());
}

fiber_note note(const fiber& f, const scheduler_core& c, const roster& all) {
  fiber_note n;
  n.who = &f;
  n.id = f.id.load(std::memory_order_relaxed);
  n.called = called(f);
  n.made = origin(f, c);
  const bool running = std::any_of(c.workers.begin(), c.workers.end(), [&](const auto& w) { return w->running == &f; });
  if (f.joiner.load(std::memory_order_relaxed) == fiber::done) {
    n.state = fiber_state::ended;
    n.kind = n.text = "has ended and was not joined";
  } else if (running) {
    n.state = fiber_state::runs;
    n.kind = n.text = "runs";
  } else if (f.waits.load(std::memory_order_acquire) == wait_kind::none) {
    const bool idle = f.runner.load(std::memory_order_relaxed) && !f.group.load(std::memory_order_relaxed);
    n.state = idle ? fiber_state::idle : fiber_state::ready;
    n.kind = n.text = idle ? "has no tasklet to run" : "can run";
  } else {
    n.state = fiber_state::waits;
    n.kind = name_of(f.waits.load(std::memory_order_relaxed));
    n.text = waits_for(f);
    if (const fiber* owner = f.waits.load(std::memory_order_relaxed) != wait_kind::join ? owner_of(f, all) : nullptr)
      n.text += " that fiber " + called(*owner) + " has";
    n.since = c.waited_seconds(f);
  }
  return n;
}

std::string describe(const fiber& f, const scheduler_core& c, const roster& all) {
  const fiber_note n = note(f, c, all);
  char since[48] = "";
  if (n.state == fiber_state::waits) std::snprintf(since, sizeof since, ", since %.3f s", n.since);
  return "fiber " + n.called + ": " + n.text + since + ", " + n.made;
}

} // namespace

std::string describe_fiber_at(std::uintptr_t address) {
  const std::lock_guard hold(schedulers_lock);
  std::string text = "a fiber that has ended";
  for (scheduler_core* c : tern_schedulers)
    if (c)
      c->fibers.each([&](const fiber& f) {
        // address: is it the same one?
        if (reinterpret_cast<std::uintptr_t>(&f) == address) text = "fiber " + called(f);
      });
  return text;
}

std::string describe_context(std::uintptr_t context) {
  if (context == 0) return "no fiber";
  if ((context & 1) == 0) return describe_fiber_at(context);
  return context == this_context() ? "thread " + std::to_string(syscall(SYS_gettid)) : "a thread";
}

bool note_fibers(scheduler_core& c, std::vector<fiber_note>& notes, std::chrono::milliseconds limit) {
  const roster all(c, limit);
  for (const auto& [id, f] : all.in_order) notes.push_back(note(*f, c, all));
  return all.complete;
}

std::string describe_fibers(scheduler_core& c) {
  std::string text;
  const roster all(c);
  for (const auto& [id, f] : all.in_order) text += "\n  " + describe(*f, c, all);
  std::string above = describe_extension(c, std::chrono::milliseconds(200));
  if (above.empty()) return text;
  above.pop_back(); // its last line break
  return text + "\n" + above;
}

std::string describe_extension(scheduler_core& c, std::chrono::milliseconds limit) {
  scheduler_extension* const x = c.extension.get();
  return x ? x->describe(limit) : std::string();
}

int devices_at_work(const scheduler_core& c) noexcept {
  const scheduler_extension* const x = c.extension.get();
  return x ? x->at_work() : 0;
}

std::string find_deadlock(scheduler_core& c) {
  const roster all(c);
  // address: only looked up, never gone through
  std::unordered_map<const fiber*, const fiber*> seen; // and the fiber where the search that saw it began
  for (const auto& [id, first] : all.in_order) {
    const fiber* f = first;
    while (f && seen.emplace(f, first).second) f = owner_of(*f, all);
    if (!f || seen[f] != first) continue;
    std::string text = "fibers wait for each other and can never go on:";
    const fiber* const begin = f;
    do {
      text += "\n  " + describe(*f, c, all);
      f = owner_of(*f, all);
    } while (f != begin);
    return text;
  }
  return {};
}

} // namespace tern::detail

std::string tern::dump_fibers() {
  const std::lock_guard hold(detail::schedulers_lock);
  std::string text;
  for (detail::scheduler_core* c : tern_schedulers)
    if (c) text += "scheduler '" + c->cfg.name + "':" + detail::describe_fibers(*c) + "\n";
  return text;
}
