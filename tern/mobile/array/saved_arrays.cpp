// SPDX-License-Identifier: Apache-2.0
/// \file
/// Arrays in checkpoints.
#include <tern/mobile/array/array_table.hpp>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include <tern/base/error.hpp>

namespace tern::mobile::detail {

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
  const auto wrong = [&](const char* what) {
    return error(errc::invalid_data, "array " + to_string(object_id(s.id)) + " of a checkpoint " + what);
  };
  if (s.firsts.empty() || s.dimensions < 1 || s.dimensions > 3 ||
      s.mapping > static_cast<std::uint8_t>(array_mapping::kind::own))
    throw wrong("cannot be");
  array_plan plan;
  plan.id = s.id;
  plan.dimensions = s.dimensions;
  plan.size = s.size;
  plan.sparse = s.sparse;
  plan.name = s.name;
  plan.type = s.type;
  const auto kind = static_cast<array_mapping::kind>(s.mapping);
  plan.mapping = kind == array_mapping::kind::own ? array_mapping(mapping_record::find(s.own)) : array_mapping(kind);
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
    if (!was) throw wrong("lacks a part");
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
  if (!arrays_.emplace(s.id, made).second) throw wrong("is there already");
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
