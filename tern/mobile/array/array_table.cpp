// SPDX-License-Identifier: Apache-2.0
/// \file
/// The arrays that a rank knows, and what their elements are called.
#include <tern/mobile/array/array_table.hpp>

#include <algorithm>
#include <mutex>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/mobile/directory.hpp>
#include <tern/mobile/entry/rank_objects.hpp>
#include <tern/mobile/object/element_name.hpp>
#include <tern/net/report/reporter.hpp>
#include <tern/net/runtime.hpp>

namespace tern::mobile::detail {
namespace {

const rank_local<array_table> the_arrays;

error no_array(std::uint64_t id) {
  return error(errc::not_found, "array " + to_string(object_id(id)) + " does not exist: it has been destroyed",
               "do not use arrays that have been destroyed");
}

} // namespace

// One array ----------------------------------------------------------------------------------------------------------

array_record::array_record(array_plan plan, std::span<const int> homes, int ranks) : layout_(std::move(plan), ranks) {
  for (const int home : homes) present_.emplace_back(home, present_elements(layout_, home));
}

array_record::array_record(array_plan plan, const std::vector<std::uint64_t>& firsts,
                           std::vector<std::pair<int, present_elements>> present)
    : layout_(std::move(plan), static_cast<int>(firsts.size())), present_(std::move(present)) {
  std::sort(present_.begin(), present_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  place_at(firsts);
  queue_.open();
}

void array_record::place_at(const std::vector<std::uint64_t>& firsts) {
  layout_.place_at(firsts);
  is_placed_.store(true, std::memory_order_release); // a thread that sees it sees the table
  if (!is_open_.exchange(true)) placing_.count_down();
}

void array_record::wait_until_placed() const {
  placing_.wait();
  if (!is_placed())
    throw error(errc::invalid_state, layout_.title() + " was given up before it was made, since a rank has died");
}

void array_record::abandon() noexcept {
  if (!is_open_.exchange(true)) placing_.count_down();
  queue_.close();
}

void array_record::go_back(std::vector<std::pair<int, present_elements>> present) {
  std::sort(present.begin(), present.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  {
    const std::lock_guard hold(lock_);
    present_ = std::move(present);
  }
  queue_.close();
  queue_.reopen();
  const std::lock_guard hold(sending_);
  sent_.clear();
}

array_route array_record::next_route(int here, std::span<const std::int32_t> ranks) {
  std::vector<rank_run> runs;
  // From this rank on, so that it comes first if it is one of them.
  const auto cut = static_cast<std::size_t>(std::lower_bound(ranks.begin(), ranks.end(), here) - ranks.begin());
  const std::lock_guard hold(sending_);
  if (const auto most = static_cast<std::size_t>(ranks.back()) + 1; sent_.size() < most) sent_.resize(most);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::int32_t rank = ranks[(i + cut) % ranks.size()];
    const std::uint64_t number = sent_[static_cast<std::size_t>(rank)]++;
    if (!runs.empty() && runs.back().first + runs.back().count == rank && runs.back().number == number)
      ++runs.back().count;
    else
      runs.push_back({rank, 1, number});
  }
  return {here, std::move(runs)};
}

// Mostly there is one.
const present_elements* array_record::home_of(std::int64_t linear) const {
  if (present_.size() == 1) return &present_.front().second;
  const int home = layout_.place_of(linear).home;
  for (const auto& [h, elements] : present_)
    if (h == home) return &elements;
  return nullptr;
}
present_elements* array_record::home_of(std::int64_t linear) {
  return const_cast<present_elements*>(std::as_const(*this).home_of(linear));
}

std::vector<int> array_record::homes() const {
  std::vector<int> all;
  for (const auto& one : present_) all.push_back(one.first);
  return all;
}

present_elements array_record::present(int home) const {
  const std::lock_guard hold(lock_);
  for (const auto& [h, elements] : present_)
    if (h == home) return elements;
  throw error(errc::invalid_state, "rank has no elements of home " + std::to_string(home));
}

std::size_t array_record::size() const {
  const std::lock_guard hold(lock_);
  std::size_t n = 0;
  for (const auto& one : present_) n += one.second.size();
  return n;
}

bool array_record::contains(std::int64_t linear) const {
  const std::lock_guard hold(lock_);
  const present_elements* const at = home_of(linear);
  return at && at->contains(linear);
}

// They will be looked up. Of a million, each look-up would wait for memory; these wait together.
void array_record::bring_near(std::span<const std::int64_t> elements) const {
  const rank_objects& objects = directory::here().objects();
  for (const std::int64_t linear : elements) {
    const object_id id = layout_.id_of(linear);
    objects.shard_of(id).entries.prefetch(id);
  }
}

std::size_t array_record::list(std::int64_t from, std::span<std::int64_t> room) const {
  const std::lock_guard hold(lock_);
  if (present_.size() == 1) return present_.front().second.list(from, room);
  std::vector<std::int64_t> all(present_.size() * room.size());
  std::size_t n = 0;
  for (const auto& one : present_) n += one.second.list(from, std::span(all).subspan(n, room.size()));
  all.resize(n);
  std::sort(all.begin(), all.end());
  n = std::min(n, room.size());
  std::copy_n(all.begin(), n, room.begin());
  return n;
}

void array_record::reserve(std::int64_t linear) {
  bool there = false;
  {
    const std::lock_guard hold(lock_);
    present_elements* const at = home_of(linear);
    if (at && !at->was_used(linear)) return at->reserve(linear);
    there = at && at->contains(linear);
  }
  throw error(errc::already_exists,
              layout_.describe(linear) + (there ? " exists already" : " existed, or is being made by another caller"),
              "an index has one element, and no second one after that has been erased");
}

void array_record::give_back(std::int64_t linear) noexcept {
  const std::lock_guard hold(lock_);
  if (present_elements* const at = home_of(linear)) at->give_back(linear);
}

void array_record::insert(std::int64_t linear) {
  const std::lock_guard hold(lock_);
  if (present_elements* const at = home_of(linear)) at->insert(linear);
}

void array_record::erase(std::int64_t linear) {
  {
    const std::lock_guard hold(lock_);
    if (present_elements* const at = home_of(linear); at && at->erase(linear)) return;
  }
  throw error(errc::not_found, layout_.describe(linear) + " does not exist: it was never inserted, or has been erased");
}

// All of a rank's -----------------------------------------------------------------------------------------------------

array_table::array_table() : node_(net::node::here()) { node_.report_on(*this); }
array_table::~array_table() { node_.forget_part(*this); }
array_table& array_table::here() { return *the_arrays; }
array_table* array_table::if_made(net::node& here) noexcept { return the_arrays.if_made(here); }

std::uint64_t array_table::next_id() {
  const std::lock_guard hold(lock_);
  return object_id(node_.rank(), ++made_).bits;
}

std::vector<std::pair<std::int32_t, std::uint64_t>> array_table::add(const array_plan& plan) {
  rank_objects& objects = directory::of(node_).objects();
  std::vector<int> homes{node_.rank()};
  if (!objects.homes().is_identity())
    for (int h = 0; h < node_.size(); ++h)
      if (h != node_.rank() && objects.homes().rank_of(h) == node_.rank()) homes.push_back(h);
  std::sort(homes.begin(), homes.end());
  const auto made = std::make_shared<array_record>(plan, homes, node_.size());
  std::vector<std::pair<std::int32_t, std::uint64_t>> firsts;
  for (const int h : homes) firsts.emplace_back(h, objects.reserve_of(h, made->layout().numbers_of(h)));
  const std::uint64_t numbers = made->layout().numbers_of(node_.rank());
  const auto own = std::find_if(firsts.begin(), firsts.end(), [&](const auto& f) { return f.first == node_.rank(); });
  const std::lock_guard hold(lock_);
  if (!arrays_.emplace(plan.id, made).second)
    throw error(errc::invalid_data, "array " + to_string(object_id(plan.id)) + " is made twice");
  if (numbers > 0) by_first_.emplace(own->second, made.get());
  return firsts;
}

array_ref array_table::find(std::uint64_t id) {
  const std::lock_guard hold(lock_);
  const auto at = arrays_.find(id);
  return at == arrays_.end() ? nullptr : at->second;
}

array_ref array_table::need(std::uint64_t id) {
  if (auto found = find(id)) return found;
  throw no_array(id);
}

void array_table::remove(std::uint64_t id) noexcept {
  array_ref last; // goes without the lock
  const std::lock_guard hold(lock_);
  const auto at = arrays_.find(id);
  if (at == arrays_.end()) return;
  std::erase_if(by_first_, [&](const auto& one) { return one.second == at->second.get(); });
  last = std::move(at->second);
  arrays_.erase(at);
}

template <class Lock>
std::optional<std::pair<array_ref, std::int64_t>> array_table::look_for(object_id id, const Lock&) {
  const auto look = [&](const array_ref& one) -> std::optional<std::int64_t> {
    if (!one->is_placed()) return {};
    return one->layout().linear_of(id);
  };
  if (id.home() == node_.rank()) {
    auto at = by_first_.upper_bound(id.number());
    if (at == by_first_.begin()) return {};
    const auto found = arrays_.find((--at)->second->layout().plan().id);
    if (found == arrays_.end()) return {};
    if (const auto linear = look(found->second)) return {{found->second, *linear}};
    return {};
  }
  for (const auto& [number, one] : arrays_)
    if (const auto linear = look(one)) return {{one, *linear}};
  return {};
}

std::optional<std::pair<array_ref, std::int64_t>> array_table::element_of(object_id id) {
  const std::lock_guard hold(lock_);
  return look_for(id, hold);
}

std::string array_table::name_of(net::node* here, object_id id) {
  if (!here) return {};
  array_table* const all = the_arrays.if_made(*here);
  if (!all) return {};
  const auto hold = net::try_for_a_while(all->lock_);
  if (!hold) return {};
  const auto found = all->look_for(id, hold);
  return found ? found->first->layout().describe(found->second) : std::string();
}

std::string array_table::describe() {
  const auto hold = net::try_for_a_while(lock_);
  if (!hold) return "  (arrays of objects: another thread holds the lock on their table)\n";
  std::string text;
  for (const auto& [id, one] : arrays_)
    if (const std::string waits = one->queue().describe(); !waits.empty())
      text += (one->layout().plan().name.empty() ? "  " : "  array ") + one->layout().title() + ": " + waits + "\n";
  return text;
}

const bool array_table::names_ = name_elements_by(&array_table::name_of);

array_ref find_array(std::uint64_t id) { return array_table::here().find(id); }
array_ref need_array(std::uint64_t id) { return array_table::here().need(id); }
std::uint64_t next_array_id() { return array_table::here().next_id(); }

} // namespace tern::mobile::detail
