// SPDX-License-Identifier: Apache-2.0
/// \file
/// Objects of an earlier job, or of an earlier state of this one.
#include <tern/mobile/directory.hpp>

#include <memory>
#include <mutex>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/mobile/directory/directory_parts.hpp>
#include <tern/mobile/entry/object_trace.hpp>
#include <tern/mobile/paging/pager.hpp>
#include <tern/trace/trace.hpp>

namespace tern::mobile {
namespace {

void twice(object_id id) { throw error(errc::invalid_data, "object " + to_string(id) + " is in a checkpoint twice"); }

} // namespace

byte_buffer directory::copy_on_disk(const entry& e) { return pager_->copy_of(e); }

// As after a move from the home, which knows of it: what the home sends is numbered, and all
// streams are at their beginning.
void directory::restore(const type_record& type, void* object, object_id id, const travel_note& with,
                        std::uint32_t pins, std::size_t bytes) {
  std::unique_ptr<void, void (*)(void*)> owned(object, type.destroy);
  auto e = std::make_unique<entry>(id);
  e->type = &type;
  e->object = object;
  e->pins = pins;
  e->take_over(with);
  if (const int home = objects_.home_of(id); home != objects_.rank()) {
    e->version = 1;
    e->travels().streams.push_back({home, 0, 0});
    e->settle();
  }
  objects_.count_bytes(*e, bytes);
  if (objects_.watches()) parts_->loads.weigh_first(*e, object);
  if (trace::built && trace::on()) [[unlikely]]
    detail::trace_name(id, type, object);
  {
    detail::shard& s = objects_.shard_of(id);
    const std::lock_guard hold(s.lock);
    if (s.knows(id)) twice(id);
    detail::class_counts& of_class = s.of(type); // first: it may throw
    s.entries.insert(id, e.get(), true);
    ++of_class.created;
    parts_->loads.add_first(*e);
    e.release();
    static_cast<void>(owned.release());
  }
  if (objects_.attends() & detail::rank_objects::to_memory) pager_->look_again();
}

void directory::restore_event(object_id id, const detail::event_kind& kind, const detail::packed_event& state) {
  detail::shard& s = objects_.shard_of(id);
  const std::lock_guard hold(s.lock);
  entry* const e = s.entries.find(id);
  if (!e || !e->is_present() || !e->known().events) return; // another rank has it
  e->extras->events->add(kind, state);
}

void directory::restore_elsewhere(object_id id, int where) {
  auto e = std::make_unique<entry>(id);
  e->at = entry::place::elsewhere;
  e->where = where;
  e->version = 1;
  e->own_open = true;
  detail::shard& s = objects_.shard_of(id);
  const std::lock_guard hold(s.lock);
  if (s.knows(id)) twice(id);
  s.entries.insert(id, e.get(), false);
  const std::unique_ptr<entry> reduced = s.reduce(*e.release());
}

// Recovery ------------------------------------------------------------------------------------------------------------

void directory::abandon() {
  objects_.abandon(true);
  objects_.begin_restoring();
  admission_.abandon();
  events_.abandon();
}

void directory::settle_disk() { pager_->settle(); }

// Messages that wait go with their entries: nothing counts them any more.
void directory::reset() {
  mail().clear();
  line().clear();
  objects_.labels().clear();
  static_cast<void>(parts_->contacts.take());
  auto* const b = objects_.balancer();
  for (const std::unique_ptr<entry>& e : objects_.take_all()) {
    if (e->is_present()) {
      parts_->loads.set(*e, 0);
      if (b && (e->offered || objects_.watches())) b->left(e->id, e->offered);
    }
    pager_->forget(objects_.discount(*e));
    if (e->object) e->type->destroy(std::exchange(e->object, nullptr));
  }
  pager_->resume();
  objects_.abandon(false);
}

} // namespace tern::mobile
