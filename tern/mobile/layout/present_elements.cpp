// SPDX-License-Identifier: Apache-2.0
/// \file
/// Which elements of an array exist.
#include <tern/mobile/layout/present_elements.hpp>

#include <algorithm>

#include <tern/base/error.hpp>

namespace tern::mobile::detail {

present_elements::present_elements(const array_layout& of, int home) : is_range_(!of.plan().sparse && !of.is_own()) {
  if (is_range_) {
    range_ = of.range_of(home);
  } else if (!of.plan().sparse) {
    for (std::int64_t i = 0; i < of.total(); ++i)
      if (of.place_of(i).home == home) listed_.insert(listed_.end(), i);
    used_ = listed_;
  }
}

present_elements::saved present_elements::save() const {
  saved s;
  for (std::size_t n = 0; n < gone_.size(); ++n)
    if (gone_[n]) s.gone.push_back(static_cast<std::int64_t>(n));
  s.listed.assign(listed_.begin(), listed_.end());
  s.used.assign(used_.begin(), used_.end());
  return s;
}

present_elements::present_elements(const array_layout& of, int home, const saved& was)
    : is_range_(!of.plan().sparse && !of.is_own()) {
  const auto within = [&](const std::vector<std::int64_t>& all, std::int64_t end) {
    for (const std::int64_t n : all)
      if (n < 0 || n >= end) throw error(errc::invalid_data, "an array has elements outside of its extents");
  };
  if (is_range_) {
    range_ = of.range_of(home);
    within(was.gone, range_.count);
    if (was.gone.empty()) return;
    gone_.resize(static_cast<std::size_t>(range_.count));
    for (const std::int64_t n : was.gone) {
      if (gone_[static_cast<std::size_t>(n)]) throw error(errc::invalid_data, "an element of an array is gone twice");
      gone_[static_cast<std::size_t>(n)] = true;
    }
    gone_count_ = static_cast<std::int64_t>(was.gone.size());
  } else {
    within(was.listed, of.total());
    within(was.used, of.total());
    listed_.insert(was.listed.begin(), was.listed.end());
    used_.insert(was.used.begin(), was.used.end());
  }
}

std::int64_t present_elements::number(std::int64_t linear) const noexcept {
  const std::int64_t apart = linear - range_.first;
  return apart < 0 || apart % range_.step != 0 || apart / range_.step >= range_.count ? -1 : apart / range_.step;
}

bool present_elements::contains(std::int64_t linear) const noexcept {
  if (!is_range_) return listed_.contains(linear);
  const std::int64_t n = number(linear);
  return n >= 0 && (gone_.empty() || !gone_[static_cast<std::size_t>(n)]);
}

bool present_elements::was_used(std::int64_t linear) const noexcept {
  return is_range_ ? number(linear) >= 0 : used_.contains(linear);
}

bool present_elements::erase(std::int64_t linear) {
  if (!is_range_) return listed_.erase(linear) > 0;
  if (!contains(linear)) return false;
  if (gone_.empty()) gone_.resize(static_cast<std::size_t>(range_.count));
  gone_[static_cast<std::size_t>(number(linear))] = true;
  ++gone_count_;
  return true;
}

std::size_t present_elements::list(std::int64_t from, std::span<std::int64_t> room) const {
  std::size_t n = 0;
  if (!is_range_) {
    for (auto at = listed_.lower_bound(from); n < room.size() && at != listed_.end(); ++at) room[n++] = *at;
    return n;
  }
  std::int64_t i = from <= range_.first ? 0 : (from - range_.first - 1) / range_.step + 1;
  for (; n < room.size() && i < range_.count; ++i)
    if (gone_.empty() || !gone_[static_cast<std::size_t>(i)]) room[n++] = range_.first + i * range_.step;
  return n;
}

} // namespace tern::mobile::detail
