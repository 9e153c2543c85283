// SPDX-License-Identifier: Apache-2.0
/// \file
/// Numbers and homes of an array's elements.
#include <tern/mobile/layout/array_layout.hpp>

#include <algorithm>
#include <span>
#include <utility>

#include <tern/base/error.hpp>

namespace tern::mobile::detail {
namespace {

// Numbers of objects have 40 bits, of which one array may not take all.
constexpr std::int64_t most_elements = std::int64_t{1} << 38;

std::string joined(std::span<const std::int64_t> numbers, const char* between) {
  std::string text;
  for (const std::int64_t n : numbers) text += (text.empty() ? "" : between) + std::to_string(n);
  return text;
}

// The mappings of the program, the last one first. Before main.
const mapping_record*& first_mapping() {
  static const mapping_record* first = nullptr;
  return first;
}

void take_no_message(net::node&, int source, const net::wire_header&, net::payload&) {
  throw error(errc::invalid_data, "rank " + std::to_string(source) + " sent a message to an array's mapping");
}

} // namespace

mapping_record::mapping_record(const std::type_info& identity, std::string_view pretty, const char* file,
                               int dimensions, function maps)
    : known_as_(identity, pretty, file, &take_no_message), dimensions_(dimensions), maps_(maps),
      next_(std::exchange(first_mapping(), this)) {}

const mapping_record& mapping_record::find(std::uint32_t id) {
  for (const mapping_record* m = first_mapping(); m; m = m->next_)
    if (m->id() == id) return *m;
  throw error(errc::invalid_data, "a message speaks of mapping " + std::to_string(id) + ", which is none");
}

array_layout::array_layout(array_plan plan, int ranks)
    : size_(plan.size), kind_(plan.mapping.what()), ranks_(static_cast<std::uint64_t>(ranks)), plan_(std::move(plan)) {
  const auto used = std::span(plan_.size).first(static_cast<std::size_t>(plan_.dimensions));
  const auto wrong = [&](const std::string& what, const char* hint) {
    return error(errc::invalid_argument,
                 "the extents of " + title() + " (" + plan_.type + ") are " + size_text() + what, hint);
  };
  for (const std::int64_t n : used)
    if (n < 1) throw wrong("", "an array has at least one element in each dimension");
  for (const std::int64_t n : used) {
    if (n > most_elements / total_) throw wrong(": these are more than 2^38 elements", "divide the array");
    total_ *= n;
  }
  if (is_own() && plan_.mapping.own().dimensions() != plan_.dimensions)
    throw error(errc::invalid_argument,
                "the mapping '" + plan_.mapping.own().name() + "' of " + title() + " is for " +
                    std::to_string(plan_.mapping.own().dimensions()) + " dimensions, and the array has " +
                    std::to_string(plan_.dimensions),
                "take indices and extents of the array's dimensions");
  const auto [each, rest] = ranks_(static_cast<std::uint64_t>(total_));
  more_ = static_cast<int>(rest);
  large_ = divisor(each + 1);
  small_ = divisor(std::max<std::uint64_t>(each, 1));
  larger_ = rest * (each + 1);
}

void array_layout::place_at(const std::vector<std::uint64_t>& firsts) {
  first_ids_.clear();
  for (std::size_t home = 0; home < firsts.size(); ++home)
    first_ids_.emplace_back(static_cast<int>(home), firsts[home]);
}

std::vector<std::uint64_t> array_layout::firsts() const {
  std::vector<std::uint64_t> all;
  for (const object_id id : first_ids_) all.push_back(id.number());
  return all;
}

std::array<std::int64_t, 3> array_layout::index_of(std::int64_t linear) const noexcept {
  std::array<std::int64_t, 3> at{};
  for (std::size_t d = static_cast<std::size_t>(plan_.dimensions); d-- > 0;) {
    at[d] = linear % plan_.size[d];
    linear /= plan_.size[d];
  }
  return at;
}

std::optional<std::int64_t> array_layout::linear_of(object_id id) const noexcept {
  const int home = id.home();
  if (static_cast<std::size_t>(home) >= first_ids_.size()) return {};
  const std::uint64_t first = first_ids_[static_cast<std::size_t>(home)].bits, number = id.bits - first;
  if (id.bits < first || number >= numbers_of(home)) return {};
  if (is_own()) return static_cast<std::int64_t>(number);
  const range r = range_of(home);
  return r.first + r.step * static_cast<std::int64_t>(number);
}

std::uint64_t array_layout::numbers_of(int home) const noexcept {
  return static_cast<std::uint64_t>(is_own() ? total_ : range_of(home).count);
}

array_layout::range array_layout::range_of(int home) const noexcept {
  const auto h = static_cast<std::int64_t>(home), all = static_cast<std::int64_t>(ranks_.value());
  if (plan_.mapping.what() == array_mapping::kind::cyclic) return {h, all, h < total_ ? (total_ - 1 - h) / all + 1 : 0};
  const std::int64_t each = total_ / all;
  return {h * each + std::min<std::int64_t>(h, more_), 1, each + (home < more_ ? 1 : 0)};
}

int array_layout::own_home(std::int64_t linear) const {
  const auto index = index_of(linear);
  const int home = plan_.mapping.own()(index.data(), plan_.size.data(), ranks());
  if (home < 0 || home >= ranks()) [[unlikely]]
    throw error(errc::invalid_argument,
                "the mapping '" + plan_.mapping.own().name() + "' of " + title() + " puts element " + text_of(linear) +
                    " on rank " + std::to_string(home) + ", but the job has " + std::to_string(ranks()),
                "a mapping gives a rank from 0 to the number of ranks - 1");
  return home;
}

void array_layout::outside(std::initializer_list<std::int64_t> index) const {
  throw error(errc::invalid_argument,
              "index (" + joined({index.begin(), index.size()}, ", ") + ") is outside of " + title() + " (" +
                  plan_.type + "), whose extents are " + size_text(),
              "count from 0");
}

std::string array_layout::title() const {
  return plan_.name.empty() ? "array " + to_string(object_id(plan_.id)) : "'" + plan_.name + "'";
}
std::string array_layout::text_of(std::int64_t linear) const {
  const auto index = index_of(linear);
  return "(" + joined(std::span(index).first(static_cast<std::size_t>(plan_.dimensions)), ", ") + ")";
}
std::string array_layout::size_text() const {
  return joined(std::span(plan_.size).first(static_cast<std::size_t>(plan_.dimensions)), " x ");
}

} // namespace tern::mobile::detail
