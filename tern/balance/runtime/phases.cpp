// SPDX-License-Identifier: Apache-2.0
/// \file
/// Ends of phases, of all objects or of an array's elements, and what a policy knows of arrays.
#include <tern/balance/runtime/balancer.hpp>

#include <algorithm>
#include <mutex>
#include <tuple>
#include <utility>

#include <tern/mobile/array/array_table.hpp>

namespace tern::balance::detail {
namespace {

bool is_of(const mobile::detail::array_record* array, object_id object) {
  return !array || array->layout().linear_of(object);
}

bool comes_before(const mobile::object_contact& a, const mobile::object_contact& b) noexcept {
  return std::tie(a.from, a.to) < std::tie(b.from, b.to);
}

} // namespace

// All that this phase had to do is done on all ranks.
void balancer::begin_round(std::uint64_t array) {
  const mobile::detail::array_ref of = array ? mobile::detail::array_table::here().need(array) : nullptr;
  if (of) static_cast<void>(of->placed());
  const std::vector<mobile::object_contact> talks = talks_of_phase(of.get());
  const std::vector<mobile::object_load> here = objects_.loads();
  if (recorder_) recorder_->phase_ends(talks);
  happen({.is = event::kind::call,
          .call =
              [this, of, talks, here] {
                begin_phase(of.get(), talks, here);
                {
                  const std::lock_guard hold(guard_);
                  round_array_ = of;
                }
                keeps_history_.store(true, std::memory_order_relaxed);
                round_load_.store(-1, std::memory_order_relaxed);
                round_device_load_.store(-1, std::memory_order_relaxed);
                in_round_.store(true, std::memory_order_relaxed);
              },
          .counted = true});
  happen({.is = event::kind::trigger, .why = trigger::phase, .counted = true});
}

void balancer::end_round() {
  in_round_.store(false, std::memory_order_relaxed);
  round_load_.store(-1, std::memory_order_relaxed);
  round_device_load_.store(-1, std::memory_order_relaxed);
  const std::lock_guard hold(guard_);
  round_array_.reset();
}

// What others' elements have said is kept until their phase ends.
std::vector<mobile::object_contact> balancer::talks_of_phase(const mobile::detail::array_record* array) {
  std::vector<mobile::object_contact> all = objects_.take_contacts();
  const std::lock_guard hold(guard_);
  if (!talks_.empty()) {
    const std::vector<mobile::object_contact> newer = std::exchange(all, {});
    std::merge(talks_.begin(), talks_.end(), newer.begin(), newer.end(), std::back_inserter(all), comes_before);
    std::size_t kept = 0;
    for (const mobile::object_contact& t : all) {
      if (kept > 0 && all[kept - 1].from == t.from && all[kept - 1].to == t.to) {
        all[kept - 1].messages += t.messages;
        all[kept - 1].bytes += t.bytes;
      } else {
        all[kept++] = t;
      }
    }
    all.resize(kept);
  }
  talks_.clear();
  std::erase_if(all, [&](const mobile::object_contact& t) {
    const bool others = !is_of(array, t.from);
    if (others) talks_.push_back(t);
    return others;
  });
  return all;
}

void balancer::begin_phase(const mobile::detail::array_record* array, const std::vector<mobile::object_contact>& talks,
                           const std::vector<mobile::object_load>& here) {
  contacts_.clear();
  for (const mobile::object_contact& t : talks)
    contacts_.push_back({t.from, {t.to, where_is(t.to), t.bytes, t.messages}});
  const std::lock_guard hold(guard_);
  // Those that have gone, or left of their own accord, are forgotten.
  std::unordered_map<std::uint64_t, carried> kept;
  for (const mobile::object_load& o : here) {
    carried h;
    if (const auto at = histories_.find(o.id.bits); at != histories_.end()) h = at->second;
    h.id = o.id;
    if (is_of(array, o.id)) {
      h.moves = 0;
      h.past = {h.seconds, h.past[0], h.past[1]};
      h.past_device = {h.device, h.past_device[0], h.past_device[1]};
      h.seconds = h.device = 0;
    }
    kept.emplace(o.id.bits, h);
  }
  histories_.swap(kept);
  phased_ = true;
  unmovable_.clear();
}

// What a policy sees --------------------------------------------------------------------------------------------------

// In a phase of an array its elements alone.
std::vector<mobile::object_load> balancer::seen_objects() const {
  std::vector<mobile::object_load> all = objects_.loads();
  mobile::detail::array_ref array;
  {
    const std::lock_guard hold(guard_);
    array = round_array_;
  }
  if (array) std::erase_if(all, [&](const mobile::object_load& o) { return !is_of(array.get(), o.id); });
  return all;
}

std::uint64_t balancer::array_of_phase() const noexcept {
  const std::lock_guard hold(guard_);
  return round_array_ ? round_array_->layout().plan().id : 0;
}

std::optional<array_place> balancer::element(object_id object) const {
  const auto found = mobile::detail::array_table::here().element_of(object);
  if (!found) return {};
  const mobile::detail::array_plan& plan = found->first->layout().plan();
  return array_place{plan.id, plan.dimensions, found->first->layout().index_of(found->second), plan.size};
}

std::vector<contact> balancer::neighbours(object_id object) const {
  const auto found = mobile::detail::array_table::here().element_of(object);
  if (!found) return {};
  const mobile::detail::array_layout& layout = found->first->layout();
  const std::array<std::int64_t, 3> at = layout.index_of(found->second);
  std::vector<contact> all;
  std::int64_t step = 1; // between linear indices, along the dimension
  for (std::size_t d = static_cast<std::size_t>(layout.plan().dimensions); d-- > 0;) {
    for (const std::int64_t way : {-1, 1}) {
      if (at[d] + way < 0 || at[d] + way >= layout.plan().size[d]) continue;
      const object_id with = layout.id_of(found->second + way * step);
      all.push_back({with, where_is(with), 0, 0});
    }
    step *= layout.plan().size[d];
  }
  return all;
}

} // namespace tern::balance::detail
