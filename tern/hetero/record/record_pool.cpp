// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/record/record_pool.hpp>

#include <mutex>
#include <new>
#include <string>
#include <utility>

#include <tern/base/error.hpp>

namespace tern::hetero::detail {

using tern::detail::tasklet;
using tern::detail::worker;

namespace {
constexpr std::uint32_t chain_length = 64; // records that change hands together
constexpr std::size_t chunk = 512;         // records
} // namespace

// Magazines lie in blocks that go as records.
record_pool::~record_pool() { static_cast<void>(unpack(take_magazines())); }

task_record* record_pool::allocate() {
  const worker* const w = tern::detail::this_worker();
  const bool mine = parts_.is_mine(w);
  std::unique_lock<tern::detail::spin_lock> hold;
  if (!mine) hold = std::unique_lock(foreign_);
  worker_part& p = parts_[static_cast<std::size_t>(mine ? w->index : parts_.workers())];
  if (!p.free) [[unlikely]] {
    // acquire: pairs with the release in `free`; the last users are done with them. All are taken
    // at once: no ABA.
    p.free = shared_free_.exchange(nullptr, std::memory_order_acquire);
    p.free_count = 0; // how many these are is not known: they are given back one chain later
    if (!p.free) p.free = unpack(take_magazines());
    if (!p.free) {
      auto fresh = std::make_unique<task_record[]>(chunk);
      for (std::size_t i = 0; i < chunk; ++i) fresh[i].tasklet::next = i + 1 < chunk ? &fresh[i + 1] : nullptr;
      p.free = fresh.get();
      const std::lock_guard keep(chunks_lock_);
      chunks_.push_back(std::move(fresh));
    }
  }
  task_record* const t = p.free;
  p.free = static_cast<task_record*>(t->tasklet::next);
  if (p.free_count > 0) --p.free_count;
  if (p.free) { // it has left the caches if many objects keep theirs
    __builtin_prefetch(p.free, 1);
    __builtin_prefetch(p.free->slots, 1);
  }
  return t;
}

void record_pool::renew(task_record* t) noexcept {
  if (t->flags & task_record::extended) { // else that part of the record has left the caches, unused
    for (use_block* b = std::exchange(t->more_uses, nullptr); b;) {
      use_block* const next = b->next;
      free_block(b);
      b = next;
    }
    for (link_block* b = std::exchange(t->more_links, nullptr); b;) {
      link_block* const next = b->next;
      free_block(b);
      b = next;
    }
  }
  // As a new one; no other thread knows it.
  t->pending.store(task_record::not_submitted, std::memory_order_relaxed);
  t->references.store(1, std::memory_order_relaxed);
  t->successors.store(0, std::memory_order_relaxed);
  if (t->failure) t->failure = nullptr;
  t->state.store(task_record::made, std::memory_order_relaxed);
  t->marks.store(0, std::memory_order_relaxed);
  if (t->flags & task_record::extended) {
    t->next = nullptr;
    t->causal = nullptr;
    t->name.store(nullptr, std::memory_order_relaxed);
    t->device_mask = -1;
    t->priority = 0;
    t->note = 0;
  }
  t->work = nullptr;
  t->flags = 0;
  t->kinds = t->use_count = t->link_count = t->device = 0;
}

void record_pool::free(task_record* t) noexcept {
  renew(t);
  const worker* const w = tern::detail::this_worker();
  const bool mine = parts_.is_mine(w);
  std::unique_lock<tern::detail::spin_lock> hold;
  if (!mine) hold = std::unique_lock(foreign_);
  worker_part& p = parts_[static_cast<std::size_t>(mine ? w->index : parts_.workers())];
  t->tasklet::next = p.free;
  p.free = t;
  if (++p.free_count < 2 * chain_length) return;
  // A worker that runs what others submit gives the records back to them.
  task_record* last = t;
  for (std::uint32_t i = 1; i < chain_length; ++i) last = static_cast<task_record*>(last->tasklet::next);
  p.free = static_cast<task_record*>(last->tasklet::next);
  p.free_count -= chain_length;
  task_record* head = shared_free_.load(std::memory_order_relaxed);
  do {
    last->tasklet::next = head;
  } while (!shared_free_.compare_exchange_weak(head, t, std::memory_order_release, std::memory_order_relaxed));
}

void record_pool::free_magazine(record_magazine* m) noexcept {
  record_magazine* head = magazines_.load(std::memory_order_relaxed);
  do { // release: pairs with the acquire in `take_magazines`. Only taken all at once: no ABA.
    m->next = head;
  } while (!magazines_.compare_exchange_weak(head, m, std::memory_order_release, std::memory_order_relaxed));
}

// As one list, with the magazines' own blocks.
task_record* record_pool::unpack(record_magazine* m) noexcept {
  task_record* list = nullptr;
  const auto put = [&list](task_record* t) {
    t->tasklet::next = list;
    list = t;
  };
  while (m) {
    record_magazine* const block = std::exchange(m, m->next);
    for (std::uint32_t i = 0; i < block->count; ++i) put(block->all[i]);
    auto* const t = ::new (static_cast<void*>(block)) task_record;
    renew(t);
    put(t);
  }
  return list;
}

std::size_t record_pool::records_made() noexcept {
  const std::lock_guard hold(chunks_lock_);
  return chunks_.size() * chunk;
}

use_block* record_pool::allocate_use_block(task_record* t) {
  auto* const b = ::new (allocate_block()) use_block;
  b->next = nullptr;
  t->flags |= task_record::extended;
  return b;
}

void record_pool::set_size_number(task_record& t, std::uint64_t number) {
  if (!t.more_uses) t.more_uses = allocate_use_block(&t);
  t.more_uses->size_number = number;
  t.marks.fetch_or(task_record::sized, std::memory_order_relaxed); // as set_key
}

use& record_pool::add_further_use(task_record* t) {
  const std::size_t i = t->use_count;
  if (i >= task_record::inline_uses && (i - task_record::inline_uses) % use_block::capacity == 0) {
    use_block** block = &t->more_uses;
    for (std::size_t n = (i - task_record::inline_uses) / use_block::capacity; n > 0; --n) block = &(*block)->next;
    if (!*block) *block = allocate_use_block(t);
  }
  if (i == 255)
    throw error(errc::invalid_argument, std::string("task '") + t->text_name() + "' uses more than 255 objects",
                "use views of fewer, larger ones");
  ++t->use_count;
  return t->use_at(i);
}

} // namespace tern::hetero::detail
