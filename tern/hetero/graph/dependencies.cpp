// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/graph/dependencies.hpp>

#include <algorithm>
#include <array>
#include <mutex>
#include <vector>

#include <tern/hetero/record/failure.hpp>

namespace tern::hetero::detail {

namespace {
// address: to be taken out again; nothing is compared but for being the same
std::uintptr_t word_of(const void* p) noexcept { return reinterpret_cast<std::uintptr_t>(p); }

// Is this link one of the task's own, and does it bring all that one of that kind would? A task
// that reads what another wrote and overwrites what that one read would follow it twice. Only own
// links are looked into: the task of another may be gone.
bool follows_already(const task_record& t, const link* l, std::uintptr_t kind) noexcept {
  const std::uintptr_t at = word_of(l), in_place = word_of(&t.slots[0]);
  const bool mine = at - in_place < sizeof t.slots ||
                    (t.more_links && at - word_of(t.more_links->links) < sizeof t.more_links->links);
  return mine && (kind == order_edge || (l->target & edge_bits) == kind);
}
} // namespace

bool dependencies::follow(task_record* t, task_record* before, std::uintptr_t kind) {
  // acquire: if it is closed, what the task did is ours to see.
  std::uintptr_t head = before->successors.load(std::memory_order_acquire);
  if (head != closed_list) {
    if (follows_already(*t, first_link(head), kind)) return true;
    link* l = nullptr;
    if (t->link_count < task_record::inline_uses) {
      l = &t->slots[t->link_count].edge;
    } else {
      if (!t->more_links || t->more_links->used == link_block::capacity) {
        auto* const b = ::new (records_.allocate_block()) link_block;
        b->next = t->more_links;
        b->used = 0;
        t->more_links = b;
        t->flags |= task_record::extended;
      }
      l = &t->more_links->links[t->more_links->used];
    }
    l->target = word_of(t) | kind;
    do {
      l->next = first_link(head);
      // release: the link. A head that comes back is no harm: links are only ever pushed, then all
      // taken at once.
      const std::uintptr_t watched = head & watched_list;
      if (before->successors.compare_exchange_weak(head, word_of(l) | watched, std::memory_order_acq_rel,
                                                   std::memory_order_acquire)) {
        if (watched) t->device = before->device;
        if (t->link_count < task_record::inline_uses)
          ++t->link_count;
        else
          ++t->more_links->used;
        return true;
      }
    } while (head != closed_list);
  }
  if (kind == data_edge && before->has_failed()) [[unlikely]]
    inherit_failure(*t, *before);
  return false;
}

bool dependencies::hook(task_record* t, completion_hook& h) noexcept {
  h.edge.target = word_of(&h) | hook_edge;
  std::uintptr_t head = t->successors.load(std::memory_order_acquire);
  while (head != closed_list) {
    h.edge.next = first_link(head);
    if (t->successors.compare_exchange_weak(head, word_of(&h.edge) | (head & watched_list), std::memory_order_acq_rel,
                                            std::memory_order_acquire))
      return true;
  }
  return false;
}

void dependencies::order(task_record* t, access_mode how, fragment& f, task_record*& gates) {
  const auto others = [t](task_record* x) { return x != t; };
  switch (how) {
  case access_mode::read:
    for (task_record* w : f.writers)
      if (others(w)) follow(t, w, data_edge);
    f.readers.add_pruned(t);
    return;
  case access_mode::write:
  case access_mode::read_write: {
    const std::uintptr_t kind = reads(how) ? data_edge : order_edge;
    for (task_record* w : f.writers) // also if there are readers: those without an order have not followed them
      if (others(w)) follow(t, w, kind);
    for (task_record* r : f.readers)
      if (others(r)) follow(t, r, order_edge);
    const bool had_writers = f.writers.size() > 0; // else they do not commute: that line is not looked at
    f.readers.clear();
    f.writers.clear();
    f.writers.add_new(t);
    if (had_writers && f.commuting) {
      f.commuting = false;
      f.before_commuting.clear();
    }
    return;
  }
  case access_mode::commute:
    if (f.commuting && f.writers.ends_with(t)) return; // by another of its uses: no task came between
    if (!f.commuting || f.readers.size() > 0) {
      f.before_commuting.clear();
      if (f.writers.size() == 1 && f.readers.size() == 0 && others(*f.writers.begin())) {
        f.before_commuting.add(*f.writers.begin());
      } else if (f.writers.size() + f.readers.size() > 0) { // one for all, or each would follow each
        task_record* const gate = records_.allocate();
        gate->home = t->home;
        gate->flags = task_record::hidden | task_record::extended;
        gate->name.store("all before", std::memory_order_relaxed); // no other thread knows it
        for (task_record* w : f.writers)
          if (others(w)) follow(gate, w, data_edge);
        for (task_record* r : f.readers)
          if (others(r)) follow(gate, r, order_edge);
        f.before_commuting.add(gate);
        gate->next = gates;
        gates = gate;
      }
      f.readers.clear();
      f.writers.clear();
      f.commuting = true;
    }
    for (task_record* b : f.before_commuting) follow(t, b, data_edge);
    f.writers.add_pruned(t);
    return;
  }
}

void dependencies::depend(task_record* t, use& u, task_record*& gates) {
  object_state& o = *u.object;
  if (!u.ordered) [[unlikely]] { // it follows no task, but later ones follow it, and so does the end of the object
    const auto know = [&](fragment& f) { (writes(u.how) ? f.writers : f.readers).add_new(t); };
    if (u.whole && o.uncut()) {
      know(o.first);
    } else {
      o.cut(u.part);
      o.each(u.part, know);
    }
    return;
  }
  if (u.whole && o.uncut()) {
    order(t, u.how, o.first, gates);
    return;
  }
  o.cut(u.part);
  o.each(u.part, [&](fragment& f) { order(t, u.how, f, gates); });
}

namespace {
/// Does it write all of one object, in the order of submission, and nothing else?
bool writes_one(const task_record& t) noexcept {
  const use& u = t.slots[0].of;
  return t.use_count == 1 && u.whole && u.ordered && (u.how == access_mode::read_write || u.how == access_mode::write);
}
/// Under the lock. Has the object one fragment, with at most one task that wrote it and none else?
bool has_writer_only(const object_state& o) noexcept {
  return o.uncut() && o.first.writers.size() < 2 && o.first.readers.size() == 0;
}
} // namespace

bool dependencies::take_over(task_record* t, task_record*& before) noexcept {
  if (!writes_one(*t)) return false;
  object_state& o = *t->slots[0].of.object;
  const std::lock_guard hold(o.lock);
  if (!has_writer_only(o)) return false;
  task_list& writers = o.first.writers;
  if (writers.size() == 0) {
    before = nullptr;
    writers.add_first(t);
    return true;
  }
  if (o.first.commuting) return false;
  // acquire, both: what it did is ours to see. Its list of successors may not be closed yet, but it
  // has nothing to tell any more.
  if (const task_record* const last = *writers.begin(); !last->is_done() || last->has_failed()) return false;
  before = writers.replace_only(t);
  return true;
}

bool dependencies::leave(task_record* t) noexcept {
  if (!writes_one(*t)) return false;
  object_state& o = *t->slots[0].of.object;
  const std::lock_guard hold(o.lock); // what comes later sees what the task did by this lock
  // If it is the writer, the fragment is not `commuting`: that line is not looked at.
  return has_writer_only(o) && o.first.writers.release_only(t);
}

task_record* dependencies::enter(task_record* t) {
  task_record* gates = nullptr;
  if (t->use_count == 1) {
    use& u = t->slots[0].of;
    const std::lock_guard hold(u.object->lock);
    depend(t, u, gates);
    if (u.how == access_mode::commute) t->flags |= task_record::commutes | task_record::extended;
    return gates;
  }
  if (t->use_count == 0) return nullptr;
  // All at once, in the order of their numbers.
  std::array<object_state*, 8> few;
  std::vector<object_state*> many;
  object_state** all = few.data();
  if (t->use_count > few.size()) {
    many.resize(t->use_count);
    all = many.data();
  }
  std::size_t n = 0;
  for (std::size_t i = 0; i < t->use_count; ++i) {
    object_state* const o = t->use_at(i).object;
    if (std::find(all, all + n, o) == all + n) all[n++] = o;
    if (t->use_at(i).how == access_mode::commute) t->flags |= task_record::commutes | task_record::extended;
  }
  std::sort(all, all + n, [](const object_state* a, const object_state* b) { return a->number < b->number; });
  for (std::size_t i = 0; i < n; ++i) all[i]->lock.lock();
  // What it needs first: where it follows a task for that, it need not follow it for the order,
  // too.
  for (const bool writing : {false, true})
    for (std::size_t i = 0; i < t->use_count; ++i)
      if (use& u = t->use_at(i); writes(u.how) == writing) depend(t, u, gates);
  for (std::size_t i = n; i-- > 0;) all[i]->lock.unlock();
  return gates;
}

} // namespace tern::hetero::detail
