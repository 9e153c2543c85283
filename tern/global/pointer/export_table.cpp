// SPDX-License-Identifier: Apache-2.0
#include <tern/global/pointer/export_table.hpp>

#include <algorithm>
#include <mutex>
#include <utility>

namespace tern::global::detail {
namespace {

constexpr std::size_t least_free = 64; // so many numbers have ended before one is used again

std::string text_of(std::source_location where) {
  return std::string(where.file_name()) + ':' + std::to_string(where.line());
}

} // namespace

export_table::~export_table() {
  for (entry& e : entries_)
    if (e.object) hetero::detail::drop_handle(e.object);
}

global_place export_table::enter(hetero::detail::object_state* handle, const hetero::detail::box& part,
                                 const element_type& of, std::source_location where) {
  std::string text = hetero::detail::text_of(*handle, part), place = text_of(where);
  const std::lock_guard hold(guard_);
  std::uint32_t slot = 0;
  if (free_.size() >= least_free || (!free_.empty() && entries_.size() > global_place::most_slots)) {
    slot = free_.front();
    free_.pop_front();
  } else {
    if (entries_.size() > global_place::most_slots)
      throw error(errc::out_of_memory,
                  "rank " + std::to_string(rank_) + " exports " + std::to_string(size_) + " objects already",
                  "export fewer and larger ones, and narrow the pointers with part()");
    slot = static_cast<std::uint32_t>(entries_.size());
    entries_.emplace_back();
  }
  entry& e = entries_[slot];
  e.object = handle;
  e.part = part;
  e.element = of.hash;
  e.generation = e.generation + 1 == global_place::generations ? 1 : e.generation + 1; // 0 stands for no pointer
  e.text = std::move(text);
  e.where = std::move(place);
  ++size_;
  return global_place::make(rank_, slot, e.generation, of, part);
}

bool export_table::is(const entry& e, const global_place& place) const noexcept {
  return e.object && e.generation == place.generation();
}

void export_table::remove(const global_place& place) noexcept {
  hetero::detail::object_state* object = nullptr;
  {
    const std::lock_guard hold(guard_);
    if (place.slot() >= entries_.size()) return;
    entry& e = entries_[place.slot()];
    if (!is(e, place)) return;
    object = std::exchange(e.object, nullptr);
    --size_;
    try {
      free_.push_back(place.slot());
    } catch (...) { // no memory: the number is not used again
    }
  }
  hetero::detail::drop_handle(object);
}

hetero::detail::object_state* export_table::find(const global_place& place, std::uint64_t element) {
  const std::lock_guard hold(guard_);
  const entry* const e = place.slot() < entries_.size() ? &entries_[place.slot()] : nullptr;
  if (!e || !is(*e, place)) throw gone(place, e);
  if (e->element != element)
    throw error(errc::invalid_data,
                "a global pointer to " + e->text + " of rank " + std::to_string(rank_) +
                    " has elements of another type",
                "all ranks must run the same program, and send pointers as what they are");
  if (!place.sound() || !e->part.contains(place.part()))
    throw error(errc::invalid_argument,
                "a global pointer names elements outside of " + e->text + " of rank " + std::to_string(rank_) +
                    ", exported at " + e->where,
                "it is damaged: only part() and rows() narrow pointers");
  hetero::detail::add_handle(*e->object);
  return e->object;
}

// What is said of a number that has been used again is of the one after.
error export_table::gone(const global_place& place, const entry* e) const {
  const std::string rank = " of rank " + std::to_string(rank_);
  if (!e || e->text.empty() || place.generation() > e->generation)
    return error(errc::not_found, "rank " + std::to_string(rank_) + " has exported nothing that a global pointer names",
                 "it is damaged, or of another job");
  if (place.generation() != e->generation)
    return error(errc::not_found, "what a global pointer names" + rank + " is not exported any more",
                 "keep its exported<> until all that use the pointer have done so");
  return error(errc::not_found, e->text + rank + ", exported at " + e->where + ", is not exported any more",
               "keep its exported<> until all that use the pointer have done so");
}

std::size_t export_table::size() noexcept {
  const std::lock_guard hold(guard_);
  return size_;
}

} // namespace tern::global::detail
