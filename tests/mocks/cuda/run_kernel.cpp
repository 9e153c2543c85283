// SPDX-License-Identifier: Apache-2.0
// Runs a kernel's groups, one after the other. Items of a group take turns on stacks: one that
// meets no barrier runs to its end on a stack that the next uses then; one that does waits on its
// stack until all others have come or ended.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>

#include <tern/task/fiber/context_switch.hpp>

#include "state.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define MOCK_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MOCK_ASAN
#endif
#endif
#ifdef MOCK_ASAN
#include <sanitizer/asan_interface.h>
#endif

// Sanitizers would take another stack for this thread's own.
#ifdef __clang__
#define ON_ITEM_STACK __attribute__((noinline, disable_sanitizer_instrumentation))
#else
#define ON_ITEM_STACK __attribute__((noinline, no_sanitize("thread", "address", "undefined")))
#endif

namespace mock {
namespace {

using tern::detail::switch_point;

#ifdef MOCK_ASAN
constexpr std::size_t stack_bytes = 128 * 1024;
#else
constexpr std::size_t stack_bytes = 64 * 1024;
#endif
constexpr std::size_t guard_bytes = 4096;
constexpr std::size_t watched_bytes = 256; // behind dynamic memory
constexpr int fresh = 0xa5;

enum class waits { nothing, group, warp };

struct fiber {
  switch_point at;
  char* low = nullptr;
  unsigned item = 0;
  waits waiting = waits::nothing;
};

// The kernel that runs: there is never more than one, under the mutex.
struct runner {
  tern_mock_items now{};
  void (*run)(void**) = nullptr;
  void** parameters = nullptr;
  unsigned next = 0;
  bool backwards = false, trapped = false;
  switch_point home;
  fiber* current = nullptr;
  std::vector<fiber*> idle, parked;
};
runner* running = nullptr;

ON_ITEM_STACK void set_item(unsigned item) {
  runner& r = *running;
  const unsigned i = r.backwards ? r.now.count - 1 - item : item;
  r.now.linear = i;
  r.now.item.x = i % r.now.items.x;
  r.now.item.y = i / r.now.items.x % r.now.items.y;
  r.now.item.z = i / r.now.items.x / r.now.items.y;
}

ON_ITEM_STACK void go_home(fiber& f) { tern::detail::switch_stack(f.at, running->home); }

// What a stack does for ever.
ON_ITEM_STACK void run_items() {
  for (;;) {
    while (running->next < running->now.count) {
      running->current->item = running->next;
      set_item(running->next++);
      running->run(running->parameters);
    }
    running->current->waiting = waits::nothing;
    go_home(*running->current);
  }
}

ON_ITEM_STACK void meet(int warp) {
  fiber& me = *running->current;
  me.waiting = warp ? waits::warp : waits::group;
  go_home(me);
}

ON_ITEM_STACK void trap() {
  running->trapped = true;
  go_home(*running->current); // which never comes back here
}

ON_ITEM_STACK void enter(fiber& f) {
  running->current = &f;
  tern::detail::switch_stack(running->home, f.at);
}

void prepare(fiber& f) {
#ifdef MOCK_ASAN
  __asan_unpoison_memory_region(f.low, stack_bytes);
#endif
  f.at = {};
#ifndef TERN_BOOST_CONTEXT
  tern::detail::inherit_control_words(f.at);
#endif
  tern::detail::prepare_stack<run_items>(f.at, f.low + stack_bytes, stack_bytes);
}

// Stacks are kept for the next kernel.
std::vector<fiber*>& pool() {
  static auto* const all = new std::vector<fiber*>;
  return *all;
}

fiber* take_fiber() {
  if (!running->idle.empty()) {
    fiber* const f = running->idle.back();
    running->idle.pop_back();
    return f;
  }
  void* const at = mmap(nullptr, guard_bytes + stack_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (at == MAP_FAILED || mprotect(at, guard_bytes, PROT_NONE) != 0) {
    std::fprintf(stderr, "mock CUDA: no memory for the stack of a kernel's item\n");
    std::abort();
  }
  auto* const f = new fiber;
  f->low = static_cast<char*>(at) + guard_bytes;
  prepare(*f);
  pool().push_back(f);
  return f;
}

void sort_in(fiber* f) { (f->waiting == waits::nothing ? running->idle : running->parked).push_back(f); }

// \return whether no item has trapped
bool run_group() {
  runner& r = *running;
  r.next = 0;
  for (;;) {
    if (r.next < r.now.count) {
      fiber* const f = take_fiber();
      enter(*f);
      if (r.trapped) return false;
      sort_in(f);
      continue;
    }
    if (r.parked.empty()) return true;
    // All items that have not ended wait. A wait for the warp needs fewer items than one for the
    // group, so those go first.
    const bool warp =
        std::any_of(r.parked.begin(), r.parked.end(), [](const fiber* f) { return f->waiting == waits::warp; });
    std::vector<fiber*> go, stay;
    for (fiber* const f : r.parked) ((f->waiting == waits::warp) == warp ? go : stay).push_back(f);
    r.parked.swap(stay);
    for (fiber* const f : go) {
      set_item(f->item);
      enter(*f);
      if (r.trapped) return false;
      sort_in(f);
    }
  }
}

} // namespace

cu::result run_kernel(state& s, const kernel_work& what) {
  const tern_mock_image& image = *what.owner->image;
  const tern_mock_kernel& k = *what.what->kernel;
  std::vector<void*> parameters;
  std::vector<std::vector<std::uint64_t>> values = what.values; // a kernel may change its own
  for (auto& v : values) parameters.push_back(v.data());
  static unsigned long long slots[1024];
  runner r;
  r.run = k.run;
  r.parameters = parameters.data();
  r.now.groups = what.groups;
  r.now.items = what.items;
  r.now.count = what.items.x * what.items.y * what.items.z;
  r.now.dynamic = what.dynamic;
  r.now.slots = slots;
  r.now.meet = meet;
  r.now.trap = trap;
  r.backwards = s.random() % 2 != 0;
  r.idle = pool();
  running = &r;
  s.runs = k.name;
  *image.now = &r.now;
  const std::size_t watched =
      image.dynamic ? std::min<std::size_t>(tern_mock_dynamic_bytes, what.dynamic + watched_bytes) : 0;
  bool beyond = false;
  const std::uint64_t groups = std::uint64_t{what.groups.x} * what.groups.y * what.groups.z;
  for (std::uint64_t n = 0; n < groups && !r.trapped; ++n) {
    const std::uint64_t g = r.backwards ? groups - 1 - n : n;
    r.now.group = {static_cast<unsigned>(g % what.groups.x), static_cast<unsigned>(g / what.groups.x % what.groups.y),
                   static_cast<unsigned>(g / what.groups.x / what.groups.y)};
    for (const tern_mock_shared* v = image.shared; v != image.shared_end; ++v)
      if (v->at && std::strcmp(v->kernel, k.name) == 0) std::memset(v->at, fresh, v->bytes);
    if (watched > 0) std::memset(image.dynamic, fresh, watched);
    run_group();
    for (std::size_t i = what.dynamic; i < watched; ++i)
      beyond = beyond || image.dynamic[i] != static_cast<char>(fresh);
  }
  if (beyond)
    s.misuse.push_back("the kernel '" + std::string(k.name) + "' wrote beyond its " + std::to_string(what.dynamic) +
                       " bytes of dynamic memory");
  *image.now = nullptr;
  running = nullptr;
  s.runs = nullptr;
  if (!r.trapped) return 0;
  for (fiber* const f : pool()) prepare(*f); // some stand in the middle of it
  return launch_failed;
}

} // namespace mock
