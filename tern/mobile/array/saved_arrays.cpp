// SPDX-License-Identifier: Apache-2.0
/// \file
/// Arrays in checkpoints.
#include <tern/mobile/array/array_table.hpp>

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/mobile/entry/homes.hpp>

namespace tern::mobile::detail {
namespace {

constexpr std::uint64_t most_numbers = std::uint64_t{1} << 40; // of a home
constexpr std::uint64_t small_array = std::uint64_t{1} << 24;  // a bit each

error wrong(const saved_array& s, const std::string& what) {
  return error(errc::invalid_data, "array " + to_string(object_id(s.id)) + " of a checkpoint " + what);
}

array_plan plan_of(const saved_array& s) {
  if (s.firsts.empty() || s.dimensions < 1 || s.dimensions > 3 ||
      s.mapping > static_cast<std::uint8_t>(array_mapping::kind::own))
    throw wrong(s, "cannot be");
  array_plan plan;
  plan.id = s.id;
  plan.dimensions = s.dimensions;
  plan.size = s.size;
  plan.sparse = s.sparse;
  plan.name = s.name;
  plan.type = s.type;
  const auto kind = static_cast<array_mapping::kind>(s.mapping);
  plan.mapping = kind == array_mapping::kind::own ? array_mapping(mapping_record::find(s.own)) : array_mapping(kind);
  return plan;
}

} // namespace

void check_array(const saved_array& a, int homes, std::uint64_t bytes) {
  array_plan plan = plan_of(a);
  for (std::size_t d = static_cast<std::size_t>(a.dimensions); d < a.size.size(); ++d)
    if (a.size[d] != 1) throw wrong(a, "has more dimensions than it says");
  if (a.id == 0 || object_id(a.id).home() >= homes || a.firsts.size() > static_cast<std::size_t>(homes))
    throw wrong(a, "was made on a rank that there was not");
  const array_layout layout = [&] {
    try {
      return array_layout(std::move(plan), static_cast<int>(a.firsts.size()));
    } catch (const error& e) {
      throw wrong(a, "cannot be: " + e.message());
    }
  }();
  // A bit for each element that is gone or not; a listed one has more bytes in the file.
  if (!a.sparse && !layout.is_own() && static_cast<std::uint64_t>(layout.total()) / 8 > small_array / 8 + bytes)
    throw wrong(a, "has more elements than the checkpoint has room for");
  for (int home = 0; home < layout.ranks(); ++home) {
    const std::uint64_t first = a.firsts[static_cast<std::size_t>(home)], count = layout.numbers_of(home);
    if (first > most_numbers || count > most_numbers - first) throw wrong(a, "has numbers that no object can have");
  }
  for (const auto& part : a.present)
    if (part.first < 0 || part.first >= layout.ranks()) throw wrong(a, "has elements of a home that it does not have");
}

std::vector<saved_array> array_table::save(std::uint64_t& made) const {
  std::vector<array_ref> there;
  {
    const std::lock_guard hold(lock_);
    made = made_;
    for (const auto& [id, one] : arrays_) there.push_back(one);
  }
  std::vector<saved_array> all;
  for (const array_ref& one : there) {
    const array_layout& of = one->placed();
    const array_plan& plan = of.plan();
    saved_array& s = all.emplace_back();
    s.id = plan.id;
    s.dimensions = plan.dimensions;
    s.size = plan.size;
    s.sparse = plan.sparse;
    s.mapping = static_cast<std::uint8_t>(plan.mapping.what());
    if (of.is_own()) s.own = plan.mapping.own().id();
    s.name = plan.name;
    s.type = plan.type;
    s.firsts = of.firsts();
    for (const int home : one->homes()) s.present.emplace_back(home, one->present(home).save());
  }
  return all;
}

void array_table::restore(const std::vector<saved_array>& all) {
  const saved_array& s = all.front();
  array_plan plan = plan_of(s);
  const home_table& where = directory::of(node_).homes();
  const int homes = static_cast<int>(s.firsts.size());
  const array_layout layout(plan, homes);
  std::vector<std::pair<int, present_elements>> present;
  for (int home = 0; home < homes; ++home) {
    if (where.rank_of(home) != node_.rank()) continue;
    const present_elements::saved* was = nullptr;
    for (const saved_array& part : all)
      for (const auto& [h, elements] : part.present)
        if (h == home) was = &elements;
    if (!was) throw wrong(s, "lacks a part");
    present.emplace_back(home, present_elements(layout, home, *was));
  }
  array_ref made;
  {
    const std::lock_guard hold(lock_);
    if (const auto at = before_.find(s.id); at != before_.end()) made = at->second;
  }
  if (made)
    made->go_back(std::move(present));
  else
    made = std::make_shared<array_record>(std::move(plan), s.firsts, std::move(present));
  const std::lock_guard hold(lock_);
  if (!arrays_.emplace(s.id, made).second) throw wrong(s, "is there already");
  if (const auto rank = static_cast<std::size_t>(node_.rank());
      rank < s.firsts.size() && made->layout().numbers_of(node_.rank()) > 0)
    by_first_.emplace(s.firsts[rank], made.get());
}

void array_table::abandon() noexcept {
  const std::lock_guard hold(lock_);
  for (const auto& [id, one] : arrays_) one->abandon();
}

void array_table::begin_reset() {
  std::map<std::uint64_t, array_ref> more; // of a reset that was not ended
  const std::lock_guard hold(lock_);
  by_first_.clear();
  more.swap(arrays_);
  before_.merge(more);
}

void array_table::end_reset() noexcept {
  std::map<std::uint64_t, array_ref> last; // go without the lock
  const std::lock_guard hold(lock_);
  last.swap(before_);
}

void array_table::go_on_from(std::uint64_t made) noexcept {
  const std::lock_guard hold(lock_);
  made_ = std::max(made_, made);
}

} // namespace tern::mobile::detail
