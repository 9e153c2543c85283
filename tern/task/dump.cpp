// SPDX-License-Identifier: Apache-2.0
/// \file
/// Who waits for what: dumps and deadlocks.
#include <algorithm>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <sys/uio.h>
#include <unistd.h>

#include <tern/base/clock.hpp>
#include <tern/base/log.hpp>
#include <tern/task/detail/core.hpp>
#include <tern/task/detail/engine.hpp>
#include <tern/task/detail/registry.hpp>
#include <tern/task/fiber.hpp>

// What the debugger's script starts from; see tools/gdb.
extern "C" {
__attribute__((visibility("default"))) tern::detail::scheduler_core* tern_schedulers[256] = {};
}

namespace tern::detail {
namespace {

std::mutex cores_lock;

std::int64_t counter() noexcept {
#if defined(__x86_64__)
  return static_cast<std::int64_t>(__builtin_ia32_rdtsc());
#elif defined(__aarch64__)
  std::int64_t t = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(t));
  return t;
#else
  return std::chrono::steady_clock::now().time_since_epoch().count();
#endif
}

// The counter's speed is measured over the time since the program began.
struct beginning {
  std::int64_t count = counter();
  double seconds = steady_seconds();
};
const beginning start;

const char* name_of(wait_kind k) noexcept {
  static constexpr const char* names[] = {"nothing",   "mutex",     "shared_mutex", "condition_variable",
                                          "semaphore", "latch",     "barrier",      "once",
                                          "channel",   "future",    "join",         "group",
                                          "sleep",     "predicate", "something"};
  return names[std::min<std::size_t>(static_cast<std::size_t>(k), std::size(names) - 1)];
}

std::string address(const void* p) {
  char text[32];
  std::snprintf(text, sizeof text, "%p", p);
  return text;
}

// What `f` waits for may be gone while we look, and its memory too: then the read fails, and what it gives counts only
// if it is the address of a fiber.
const fiber* owner_of(const fiber& f, const std::unordered_set<const fiber*>& known) noexcept {
  if (f.waits.load(std::memory_order_acquire) == wait_kind::none) return nullptr;
  const auto* on = f.waits_on.load(std::memory_order_relaxed);
  if (!on) return nullptr;
  std::uintptr_t owner = 0;
  const iovec to{&owner, sizeof owner}, from{const_cast<std::atomic<std::uintptr_t>*>(on), sizeof owner};
  if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != static_cast<ssize_t>(sizeof owner)) return nullptr;
  const auto found = known.find(reinterpret_cast<const fiber*>(owner));
  return found == known.end() ? nullptr : *found;
}

std::unordered_set<const fiber*> fibers_of(scheduler_core& c) {
  std::unordered_set<const fiber*> all;
  c.each_fiber([&](const fiber& f) { all.insert(&f); });
  return all;
}

#if defined(__has_feature) || defined(__SANITIZE_THREAD__)
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

std::string place(const fiber& f) {
  std::source_location made;
  copy_as_it_is(&made, &f.made, sizeof made);
  return std::string(made.file_name()) + ":" + std::to_string(made.line());
}

std::string waits_for(const fiber& f) {
  const wait_kind kind = f.waits.load(std::memory_order_acquire);
  const void* object = f.waits_for.load(std::memory_order_relaxed);
  if (kind == wait_kind::join) return "waits for fiber " + called(*static_cast<const fiber*>(object)) + " to end";
  if (kind == wait_kind::sleep) return "sleeps";
  return std::string("waits for ") + name_of(kind) + (object ? " " + address(object) : std::string());
}

std::string describe(const fiber& f, const scheduler_core& c, const std::unordered_set<const fiber*>& known) {
  std::string text = "fiber " + called(f) + ": ";
  const bool running = std::any_of(c.workers.begin(), c.workers.end(), [&](const auto& w) { return w->running == &f; });
  if (f.joiner.load(std::memory_order_relaxed) == fiber::done) {
    text += "has ended and was not joined";
  } else if (running) {
    text += "runs";
  } else if (f.waits.load(std::memory_order_acquire) == wait_kind::none) {
    text += f.runner && !f.group ? "has no tasklet to run" : "can run";
  } else {
    text += waits_for(f);
    if (const fiber* owner = f.waits.load(std::memory_order_relaxed) != wait_kind::join ? owner_of(f, known) : nullptr)
      text += " that fiber " + called(*owner) + " has";
    char since[48];
    std::snprintf(since, sizeof since, ", since %.3f s", c.waited_seconds(f));
    text += since;
  }
  return text + ", made at " + place(f);
}

} // namespace

std::int64_t ticks() noexcept {
  const worker* w = this_worker();
  return w && w->home->engine ? w->home->engine->now() : counter();
}

double scheduler_core::waited_seconds(const fiber& f) const noexcept {
  const std::int64_t since = f.waits_since.load(std::memory_order_relaxed);
  if (engine) return 1e-9 * static_cast<double>(engine->now() - since);
  const std::int64_t now = counter();
  const double per_second = static_cast<double>(now - start.count) / std::max(1e-9, steady_seconds() - start.seconds);
  return static_cast<double>(now - since) / per_second;
}

void register_core(scheduler_core& c) {
  const std::lock_guard hold(cores_lock);
  for (auto& place : tern_schedulers)
    if (!place) {
      place = &c;
      return;
    } // more than that are not shown
}

void unregister_core(scheduler_core& c) noexcept {
  const std::lock_guard hold(cores_lock);
  for (auto& place : tern_schedulers)
    if (place == &c) place = nullptr;
}

std::string describe_fiber_at(std::uintptr_t address) {
  const std::lock_guard hold(cores_lock);
  std::string text = "a fiber that has ended";
  for (scheduler_core* c : tern_schedulers)
    if (c)
      c->each_fiber([&](const fiber& f) {
        if (reinterpret_cast<std::uintptr_t>(&f) == address) text = "fiber " + called(f);
      });
  return text;
}

std::string describe_fibers(scheduler_core& c) {
  std::string text;
  std::multimap<std::uint64_t, const fiber*> in_order;
  const auto known = fibers_of(c);
  for (const fiber* f : known) in_order.emplace(f->id.load(std::memory_order_relaxed), f);
  for (const auto& [id, f] : in_order) text += "\n  " + describe(*f, c, known);
  return text;
}

std::string scheduler_core::find_deadlock() {
  const auto all = fibers_of(*this);
  std::unordered_map<const fiber*, const fiber*> seen; // in whose search
  for (const fiber* first : all) {
    const fiber* f = first;
    while (f && seen.emplace(f, first).second) f = owner_of(*f, all);
    if (!f || seen[f] != first) continue;
    std::string text = "fibers wait for each other and can never go on:";
    const fiber* const begin = f;
    do {
      text += "\n  " + describe(*f, *this, all);
      f = owner_of(*f, all);
    } while (f != begin);
    return text;
  }
  return {};
}

std::uint64_t scheduler_core::entered() const noexcept {
  std::uint64_t all = 1;
  for (const auto& w : workers) all += w->entered.load(std::memory_order_relaxed);
  return all;
}

void scheduler_core::look_for_deadlock() noexcept {
  const std::lock_guard hold(freeze);
  if (asleep.load(std::memory_order_seq_cst) != static_cast<int>(workers.size())) return;
  const std::uint64_t now = entered();
  if (looked_at.exchange(now, std::memory_order_relaxed) == now) return;
  deadlock = find_deadlock();
  if (deadlock.empty()) return;
  log_error(deadlock);
  over.store(true, std::memory_order_seq_cst);
  wake_all();
}

} // namespace tern::detail

std::string tern::dump_fibers() {
  const std::lock_guard hold(detail::cores_lock);
  std::string text;
  for (detail::scheduler_core* c : tern_schedulers)
    if (c) text += "scheduler '" + c->cfg.name + "':" + detail::describe_fibers(*c) + "\n";
  return text;
}
