// SPDX-License-Identifier: Apache-2.0
/// \file
/// What array.hpp needs of the rank's arrays and objects.
#include <tern/mobile/array.hpp>

#include <algorithm>

#include <tern/base/error.hpp>
#include <tern/mobile/array/array_table.hpp>
#include <tern/trace/record/events.hpp>

namespace tern::mobile::detail {

void null_array() {
  throw error(errc::invalid_argument, "a mobile_array that names no array was used", "make the array first");
}

void name_in_trace(const array_layout& of, std::int64_t linear) noexcept {
  try {
    trace::detail::name_object(of.id_of(linear).bits, of.describe(linear));
  } catch (...) { // it is shown by its class and number
  }
}

void check_plan(const array_plan& plan, int ranks) {
  const array_layout layout(plan, ranks);
  if (!plan.sparse && layout.is_own())
    for (std::int64_t i = 0; i < layout.total(); ++i) static_cast<void>(layout.place_of(i));
}

std::pair<array_ref, std::int64_t> running_element(int dimensions) {
  const auto& running = running_invocation::required("tern::array_index");
  auto found = array_table::here().element_of(running.id());
  if (!found)
    throw error(errc::invalid_state, "tern::array_index was called by an invocation of object " +
                                         to_string(running.id()) + " (" + running.type().name +
                                         "), which is no element of an array");
  if (const array_layout& l = found->first->layout(); l.plan().dimensions != dimensions)
    throw error(errc::invalid_state, "tern::array_index<" + std::to_string(dimensions) + "> was called by " +
                                         l.describe(found->second) + ", whose array has " +
                                         std::to_string(l.plan().dimensions) + " dimensions");
  return *std::move(found);
}

std::vector<std::int64_t> elements_here(const array_record& array, const array_box& box) {
  std::vector<std::int64_t> all;
  const array_layout& layout = array.layout();
  for (const object_load& one : directory::here().loads())
    if (const auto linear = layout.linear_of(one.id);
        linear && box.contains(layout.index_of(*linear), layout.plan().dimensions))
      all.push_back(*linear);
  std::sort(all.begin(), all.end());
  return all;
}

} // namespace tern::mobile::detail
