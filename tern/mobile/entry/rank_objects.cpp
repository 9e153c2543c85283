// SPDX-License-Identifier: Apache-2.0
/// \file
/// The shards of a rank's entries.
#include <tern/mobile/entry/rank_objects.hpp>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>

#include <tern/base/error.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::mobile {

travel_state::travel_state() = default;
travel_state::~travel_state() = default;

} // namespace tern::mobile

namespace tern::mobile::detail {

rank_objects::rank_objects(net::node& here, directory_services& services)
    : node_(here), rank_(here.rank()), services_(services), homes_(here.size()) {
  if (node_.size() > 1 << address::origin_bits)
    throw error(errc::unsupported, "mobile objects know 2^24 ranks, no more");
  if (node_.one_thread() || node_.simulated())
    for (shard& s : shards_) s.entries.has_one_thread();
  if (!node_.one_thread()) return;
  const tern::detail::asymmetric_barrier barrier(tern::detail::asymmetric_barrier::available(true));
  for (shard& s : shards_) s.lock.own(barrier);
}

void rank_objects::clear() noexcept {
  for (shard& s : shards_)
    for (std::size_t i = 0; i < s.entries.capacity(); ++i) {
      const std::unique_ptr<entry> e(s.entries.at(i));
      if (!e) continue;
      s.entries.forget(i);
      if (e->object) e->type->destroy(e->object);
    }
}

entry* shard::find_any(object_id id) {
  if (entry* const e = entries.find(id)) return e;
  const auto number = entries.number(id);
  if (!number) return nullptr;
  const far_place f = far_place::of(*number);
  auto e = std::make_unique<entry>(id);
  e->at = entry::place::elsewhere;
  e->where = f.where;
  e->version = f.version;
  e->sent = f.sent;
  e->used = f.used;
  e->own_open = true;
  entries.put_entry(id, e.get());
  return e.release();
}

std::unique_ptr<entry> shard::reduce(entry& e) noexcept {
  if (e.travel && e.at == entry::place::elsewhere && e.travel->is_quiet() && e.travel->streams.empty())
    e.travel.reset();
  const auto far = e.far();
  if (!far || e.box) return {};
  entries.put_number(e.id, far->number());
  return std::unique_ptr<entry>(&e);
}

std::uint64_t rank_objects::reserve(std::uint64_t count) {
  // relaxed: numbers need only differ
  const std::uint64_t number = next_.fetch_add(count, std::memory_order_relaxed);
  if ((number + count - 1) >> 40) throw error(errc::unsupported, "a rank can make 2^40 objects, no more");
  return number;
}

bool rank_objects::keep_credit(object_id id, std::uint64_t credit) {
  if (!restoring_.load(std::memory_order_acquire)) [[likely]]
    return false;
  const std::lock_guard hold(keeping_);
  if (!restoring_.load(std::memory_order_relaxed)) return false;
  kept_credit_.emplace_back(id, credit);
  return true;
}

std::vector<std::pair<object_id, std::uint64_t>> rank_objects::end_restoring() {
  const std::lock_guard hold(keeping_);
  restoring_.store(false, std::memory_order_release);
  return std::exchange(kept_credit_, {});
}

void rank_objects::drop_kept_credit() noexcept {
  const std::lock_guard hold(keeping_);
  kept_credit_.clear();
}

void rank_objects::adopt(int home, std::uint64_t next) {
  const std::lock_guard hold(keeping_);
  std::uint64_t& number = adopted_[home];
  number = std::max({number, next, std::uint64_t{1}});
}

std::uint64_t rank_objects::reserve_of(int home, std::uint64_t count) {
  if (home == rank_) return reserve(count);
  const std::lock_guard hold(keeping_);
  std::uint64_t& next = adopted_.try_emplace(home, 1).first->second;
  if ((next + count - 1) >> 40) throw error(errc::unsupported, "a rank can make 2^40 objects, no more");
  return std::exchange(next, next + count);
}

std::vector<std::pair<std::int32_t, std::uint64_t>> rank_objects::adopted() const {
  const std::lock_guard hold(keeping_);
  std::vector<std::pair<std::int32_t, std::uint64_t>> all;
  for (const auto& [home, next] : adopted_)
    if (homes_.rank_of(home) == rank_) all.emplace_back(home, next);
  return all;
}

std::vector<std::unique_ptr<entry>> rank_objects::take_all() {
  std::vector<std::unique_ptr<entry>> all;
  for (shard& s : shards_) {
    const std::lock_guard hold(s.lock);
    for (std::size_t i = 0; i < s.entries.capacity(); ++i) {
      entry* const e = s.entries.at(i);
      if (!e) continue;
      all.emplace_back(e);
      if (e->type) s.add_runs(*e->type, *e);
      if (e->object || e->is_out()) ++s.of(*e->type).destroyed;
    }
    s.entries.clear();
    s.posting = 0;
    s.to_open.clear();
    s.remote = s.hand = 0;
  }
  return all;
}

void rank_objects::bad_pointer(object_id id) const {
  if (!id) throw error(errc::invalid_argument, "a null mobile_ptr was invoked", "create the object first");
  throw error(errc::invalid_argument,
              "a mobile_ptr names object " + to_string(id) + ", but the job has " + std::to_string(node_.size()) +
                  " ranks",
              "pointers are valid within the job that made them only");
}

// An object's class is there from its first moment on this rank.
class_counts& shard::of(const type_record& type) {
  for (class_counts& c : counts)
    if (c.type == &type) return c;
  counts.push_back({&type});
  return counts.back();
}

void shard::add_runs(const type_record& type, entry& e) noexcept { of(type).invocations += std::exchange(e.runs, 0); }

} // namespace tern::mobile::detail
