// SPDX-License-Identifier: Apache-2.0
/// \file
/// Memory for boxes of objects on devices and the host, and the end of an object.
#include <mutex>

#include <tern/hetero/data/coherence.hpp>

namespace tern::hetero::detail {

std::size_t coherence::add_instance(object_state& o, const box& where, std::uint8_t space) {
  std::size_t n = 1;
  while (n < o.instances.size() && (o.instances[n].exists || o.instances[n].users > 0)) ++n;
  if (n == instances_most) { // very many views
    devices_.queue(space)->set_over_limit(o);
    return 0;
  }
  if (n == o.instances.size()) o.instances.emplace_back();
  instance fresh;
  fresh.where = where;
  fresh.how = layout::packed(fresh.where, o.element);
  fresh.bytes = static_cast<std::size_t>(fresh.where.size()) * o.element;
  fresh.space = space;
  fresh.memory = devices_.queue(space)->allocate(fresh.bytes);
  if (!fresh.memory) return 0;
  fresh.exists = true;
  o.instances[n] = fresh;
  ++o.elsewhere;
  o.update_on_host();
  devices_.queue(space)->holds(o, n);
  return n;
}

bool coherence::find_instance(object_state& o, use& u, std::uint8_t space) {
  if (space == 0) {
    if (!o.paged)
      o.host_memory();
    else
      o.instances[0].unwanted = o.instances[0].leaving = false;
    ++o.instances[0].users;
    u.instance = 0;
    u.pitch = static_cast<std::int32_t>(o.host_layout.pitch / o.element);
    return true;
  }
  std::size_t best = 0;
  std::uint64_t valid = ~std::uint64_t{0};
  o.each(u.part, [&](fragment& f) { valid &= f.valid; });
  for (std::size_t i = 1; i < o.instances.size(); ++i) {
    const instance& x = o.instances[i];
    if (!x.exists || x.space != space || !x.where.contains(u.part)) continue;
    if (x.how.offset(x.where, u.part) % devices_.queue(space)->of().alignment() != 0) continue; // one of its own, then
    if (best == 0 || (valid & bit(i)) > (valid & bit(best)) ||
        (!(valid & bit(best)) && x.bytes < o.instances[best].bytes))
      best = i;
  }
  if (best == 0 && (best = add_instance(o, u.whole ? o.all : u.part, space)) == 0) return false;
  instance& x = o.instances[best];
  ++x.users;
  x.unwanted = x.leaving = false;
  x.last_used = tick();
  u.instance = static_cast<std::uint8_t>(best);
  u.pitch = static_cast<std::int32_t>(x.how.pitch / o.element);
  return true;
}

void coherence::drop_use(use& u) noexcept {
  const std::lock_guard hold(u.object->lock);
  --u.object->instances[u.instance].users;
}

void coherence::forget(object_state& o, std::size_t i) noexcept {
  instance& x = o.instances[i];
  device_queue* const d = devices_.queue(x.space);
  o.each(x.where, [&](fragment& f) {
    if (f.valid & bit(i)) o.set_valid(f, f.valid & ~bit(i));
  });
  if (x.memory) // before it is out of the list: a search for memory sees one of the two
    d->free_later(x.memory, x.bytes);
  d->held_no_more(o, i);
  x = instance();
  --o.elsewhere;
  o.update_on_host();
}

// A transfer from or to the host: its block is in memory and stays there, or the pager has it now.
// What others may wait for that hold blocks never waits for a block that is there.
bool coherence::holds_host_block(transfer& x) noexcept {
  if (x.out_of || (x.from != 0 && x.to != 0) || !x.object->paged) return true;
  object_state& o = *x.object;
  {
    const std::lock_guard hold(o.lock);
    if (o.paged->at == host_block::here) {
      if (x.to == 0) paging_->changes(o);
      return true;
    }
    ++o.paged->parked;
  }
  paging_->arrive(&x);
  return false;
}

// The same for what a task uses, under the object's lock. What it uses is counted: so what is in
// memory stays there.
bool coherence::holds_host_block(const task_record& t, const use& u) noexcept {
  host_block& b = *u.object->paged;
  if (b.at != host_block::here) return false;
  if (t.flags & task_record::waits_release) ++b.open;
  if (writes(u.how)) paging_->changes(*u.object);
  return true;
}

// Not all is in memory. (What waits for its release has one use, which does not count as open yet.)
void coherence::park(task_record& t) noexcept {
  for (std::size_t i = 0; i < t.use_count; ++i) {
    object_state& o = *t.use_at(i).object;
    if (!o.paged) continue;
    const std::lock_guard hold(o.lock);
    ++o.paged->parked;
  }
  t.pending.fetch_add(1, std::memory_order_relaxed); // until it is admitted
  paging_->arrive(&t);
}

void coherence::destroy(object_state* o) noexcept {
  {
    const std::lock_guard hold(o->lock);
    for (const instance& x : o->instances) o->orphan = o->orphan || x.users > 0;
    if (o->orphan) return; // a copy that frees memory is under way: its end comes back here
    for (std::size_t i = 1; i < o->instances.size(); ++i)
      if (o->instances[i].exists) forget(*o, i);
    if (o->paged) paging_->forget(*o);
  }
  delete o;
}

} // namespace tern::hetero::detail
