// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a rank saves.
#include <tern/mobile/checkpoint/rank_saver.hpp>

#include <algorithm>
#include <mutex>

#include <tern/base/error.hpp>
#include <tern/mobile/array/array_table.hpp>
#include <tern/mobile/entry/rank_objects.hpp>
#include <tern/task/fiber.hpp>

namespace tern::mobile::detail {
namespace {

// Nothing is under way, and all entries are at rest: so they are read without their locks.
std::vector<entry*> objects_by_id(rank_objects& objects) {
  std::vector<entry*> all;
  for (shard& s : objects.shards()) {
    const std::lock_guard hold(s.lock);
    for (std::size_t i = 0; i < s.entries.capacity(); ++i)
      if (entry* const e = s.entries.at(i); e && e->is_present()) all.push_back(e);
  }
  std::sort(all.begin(), all.end(), [](const entry* a, const entry* b) { return a->id < b->id; });
  return all;
}

byte_buffer pack_object(const entry& e) {
  try {
    return e.type->pack(e.object);
  } catch (const error& why) {
    throw error(why.code(), "object " + to_string(e.id) + " (" + e.type->name + ") cannot be saved: " + why.message(),
                why.hint(), why.place());
  } catch (const std::exception& why) {
    throw error(errc::remote, "object " + to_string(e.id) + " (" + e.type->name + ") cannot be saved: " + why.what());
  }
}

// One line for each object.
void sum_up(split_recorder::credits& all) {
  std::map<object_id, std::uint64_t> sums;
  for (const auto& [id, credit] : all) sums[id] += credit;
  all.assign(sums.begin(), sums.end());
}

} // namespace

void rank_saver::save_objects() {
  split_recorder given(split_recorder::gives::copies);
  std::uint32_t n = 0;
  for (entry* const e : objects_by_id(all_.objects())) {
    all_.wait_for_tasks(*e);
    save(*e, given);
    if (++n % 64 == 0) this_fiber::yield();
  }
  sum_up(tables_.credits);
}

void rank_saver::save_rest(std::vector<saved_root> roots, split_recorder::credits root_credits) {
  const rank_objects& objects = all_.objects();
  tables_.numbers = objects.adopted();
  tables_.numbers.emplace_back(objects.rank(), objects.next_number());
  tables_.arrays = array_table::here().save(tables_.arrays_made);
  tables_.names = name_table::of(here_).save();
  tables_.roots = std::move(roots);
  tables_.root_credits = std::move(root_credits);
  sum_up(tables_.root_credits);
  const byte_buffer bytes = pack(tables_);
  to_.finish({bytes.data(), bytes.size()});
}

void rank_saver::save(const entry& e, split_recorder& given) {
  saved_object& o = tables_.objects.emplace_back();
  o.id = e.id;
  o.pins = e.pins;
  o.with = e.note();
  o.with.credit = o.with.credit > 0;
  if (const auto& events = e.known().events)
    for (const auto& state : events->all())
      tables_.events.push_back(
          {e.id,
           state->kind->arms->id(),
           {state->number, state->size, state->round, state->armed, state->spent, state->last, {}}});
  saved_class& type = class_of(*e.type, o.type);
  byte_buffer state;
  if (e.at == entry::place::stored) { // as it was packed when it went there
    state = all_.copy_on_disk(e);
    if (const auto& had = e.known().credit_on_disk)
      tables_.credits.insert(tables_.credits.end(), had->begin(), had->end());
  } else {
    state = pack_object(e);
    const auto had = given.take();
    tables_.credits.insert(tables_.credits.end(), had.begin(), had.end());
  }
  o.bytes = state.size();
  o.offset = to_.add({state.data(), state.size()});
  ++type.objects;
  type.bytes += o.bytes;
}

saved_class& rank_saver::class_of(const type_record& type, std::uint32_t& number) {
  const auto [at, is_new] = numbers_.try_emplace(&type, static_cast<std::uint32_t>(tables_.classes.size()));
  number = at->second;
  if (is_new) tables_.classes.push_back({type.name, type.size, type.alignment, type.arrival()->id(), 0, 0});
  return tables_.classes[number];
}

} // namespace tern::mobile::detail
