// SPDX-License-Identifier: Apache-2.0
/// \file
/// The memory of tasklets: slabs that belong to a worker. What another worker has run goes
/// home in chains, so that a program that spawns here and runs there needs no more memory than it
/// has tasklets at once.
#include <tern/task/tasklet/tasklet.hpp>

#include <cstdlib>
#include <new>

namespace tern::detail {
namespace {

constexpr int chain_length = 64;

} // namespace

tasklet* worker_base::refill(int kind) {
  // acquire: pairs with the release in flush_returns; the memory's last user is done with it.
  if (tasklet* t = returned[kind].exchange(nullptr, std::memory_order_acquire)) {
    free[kind] = t->next;
    return t;
  }
  void* memory = std::aligned_alloc(slab_bytes, slab_bytes);
  if (!memory) throw std::bad_alloc();
  slabs = ::new (memory) slab{this, kind, slabs};
  const std::size_t size = tasklet_bytes[kind];
  auto* bytes = static_cast<std::byte*>(memory);
  tasklet* list = nullptr;
  for (std::size_t at = slab_bytes - size; at >= size; at -= size) { // the first place holds the slab's head
    auto* t = ::new (bytes + at) tasklet;
    t->next = list;
    list = t;
  }
  free[kind] = list->next; // NOLINT(clang-analyzer-core.NullDereference): a slab has room for many
  return list;
}

void worker_base::release_remote(tasklet* t, const slab& s) noexcept {
  if (back_first && (back_to != s.owner || back_kind != s.kind)) flush_returns();
  t->next = back_first;
  if (!back_first) {
    back_last = t;
    back_to = s.owner;
    back_kind = s.kind;
  }
  back_first = t;
  if (++back_count >= chain_length) flush_returns();
}

void worker_base::flush_returns() noexcept {
  if (!back_first) return;
  auto& list = back_to->returned[back_kind];
  tasklet* head = list.load(std::memory_order_relaxed);
  do {
    back_last->next = head;
    // Only its owner takes, and takes all: the head cannot come back while we look (no ABA).
  } while (!list.compare_exchange_weak(head, back_first, std::memory_order_release, std::memory_order_relaxed));
  back_first = back_last = nullptr;
  back_count = 0;
}

worker_base::~worker_base() {
  while (slabs) {
    slab* s = slabs;
    slabs = s->older;
    std::free(s);
  }
}

} // namespace tern::detail
