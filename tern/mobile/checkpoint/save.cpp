// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a rank saves.
#include <tern/mobile/checkpoint.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>

#include <tern/base/error.hpp>
#include <tern/mobile/checkpoint/agreement.hpp>
#include <tern/mobile/checkpoint/checkpoint_file.hpp>
#include <tern/mobile/checkpoint/restored_job.hpp>
#include <tern/mobile/checkpoint/saved_tables.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>
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

class rank_saver {
public:
  rank_saver(net::node& here, checkpoint_writer& to) : here_(here), all_(directory::of(here)), to_(to) {}

  void save_program() {
    std::vector<std::string> names;
    for (const net::handler_record* h : net::handler_table::all()) names.push_back(h->name());
    const byte_buffer bytes = pack(names);
    to_.part(checkpoint_part::program, {bytes.data(), bytes.size()});
  }
  void save_objects() {
    split_recorder given(split_recorder::gives::copies);
    std::uint32_t n = 0;
    for (entry* const e : objects_by_id(all_.objects())) {
      save(*e, given);
      if (++n % 64 == 0) this_fiber::yield();
    }
    sum_up(tables_.credits);
  }
  void save_rest(std::vector<saved_root> roots, split_recorder::credits root_credits) {
    const rank_objects& objects = all_.objects();
    tables_.numbers = restored_job::of(here_).other_numbers(objects);
    tables_.numbers.emplace_back(objects.rank(), objects.next_number());
    tables_.arrays = array_table::here().save(tables_.arrays_made);
    tables_.names = name_table::of(here_).save();
    tables_.roots = std::move(roots);
    tables_.root_credits = std::move(root_credits);
    sum_up(tables_.root_credits);
    const byte_buffer bytes = pack(tables_);
    to_.finish({bytes.data(), bytes.size()});
  }

private:
  void save(const entry& e, split_recorder& given) {
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
      state = pack(e);
      const auto had = given.take();
      tables_.credits.insert(tables_.credits.end(), had.begin(), had.end());
    }
    o.bytes = state.size();
    o.offset = to_.add({state.data(), state.size()});
    ++type.objects;
    type.bytes += o.bytes;
  }
  static byte_buffer pack(const entry& e) {
    try {
      return e.type->pack(e.object);
    } catch (const error& why) {
      throw error(why.code(), "object " + to_string(e.id) + " (" + e.type->name + ") cannot be saved: " + why.message(),
                  why.hint(), why.place());
    } catch (const std::exception& why) {
      throw error(errc::remote, "object " + to_string(e.id) + " (" + e.type->name + ") cannot be saved: " + why.what());
    }
  }
  template <class T> static byte_buffer pack(const T& what) { return tern::pack(what); }
  saved_class& class_of(const type_record& type, std::uint32_t& number) {
    const auto [at, is_new] = numbers_.try_emplace(&type, static_cast<std::uint32_t>(tables_.classes.size()));
    number = at->second;
    if (is_new) tables_.classes.push_back({type.name, type.size, type.alignment, type.arrival()->id(), 0, 0});
    return tables_.classes[number];
  }
  // One line for each object.
  static void sum_up(split_recorder::credits& all) {
    std::map<object_id, std::uint64_t> sums;
    for (const auto& [id, credit] : all) sums[id] += credit;
    all.assign(sums.begin(), sums.end());
  }

  net::node& here_;
  directory& all_;
  checkpoint_writer& to_;
  saved_tables tables_;
  std::map<const type_record*, std::uint32_t> numbers_; // address: looked up only; of classes
};

std::uint64_t seconds_now() {
  // address: only told to people, and not in a simulation
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(since).count());
}

} // namespace

bool saves_roots() { return net::node::here().rank() == 0; }

void save_job(const std::string& path, std::vector<saved_root> roots, split_recorder::credits credit) {
  net::node& here = net::node::here();
  if (const auto* const inside = running_invocation::here())
    throw error(errc::invalid_state,
                "tern::checkpoint was called by an invocation of object " + to_string(inside->id()) + " (" +
                    inside->type().name + ")",
                "all ranks call it from their main functions");
  restored_job& job = restored_job::of(here);
  job.check_before_saving(here);
  directory& all = directory::of(here);
  const frozen_objects rest(all.objects());
  quiesce();
  together(true, [] { check_nothing_open(); });
  const checkpoint_folder folder(path);
  const bool first = here.rank() == 0, durable = !here.simulated();
  checkpoint_head head;
  together(first, [&] { head.generation = folder.begin(); });
  head.seconds = first && durable ? seconds_now() : 0;
  head.generation = broadcast(head.generation);
  head.seconds = broadcast(head.seconds);
  head.rank = static_cast<std::uint32_t>(here.rank());
  head.ranks = static_cast<std::uint32_t>(here.size());
  head.homes = static_cast<std::uint32_t>(all.homes().count());
  head.program = net::handler_table::fingerprint();
  try {
    together(true, [&] {
      checkpoint_writer to(folder.file(head.generation, here.rank(), false), head, durable);
      rank_saver saver(here, to);
      saver.save_program();
      saver.save_objects();
      saver.save_rest(std::move(roots), std::move(credit));
    });
    together(first, [&] { folder.commit(head.generation, durable); });
  } catch (...) {
    if (first) folder.give_up(head.generation);
    throw;
  }
  if (first) folder.keep(head.generation, job.last_saved(path).value_or(head.generation));
  job.note_saved(path, head.generation);
}

} // namespace tern::mobile::detail
