// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a trace says of objects.
#include <tern/mobile/entry/object_trace.hpp>

#include <string>

#include <tern/trace/record/events.hpp>

namespace tern::mobile::detail {

void trace_object(object_id id, const type_record& type) noexcept {
  trace::detail::works_on(trace::detail::name_number(type.name), id.bits);
}

void trace_name(object_id id, const type_record& type, const void* object) noexcept {
  if (!type.called) return;
  try {
    if (const std::string name = type.called(object); !name.empty()) trace::detail::name_object(id.bits, name);
  } catch (...) { // it is shown by its class and number
  }
}

void trace_departure(object_id id, const type_record& type, int to, std::size_t bytes) noexcept {
  trace_object(id, type);
  trace::detail::departs(trace::detail::name_number(type.name), id.bits, to, bytes);
}

void trace_landing(object_id id, const type_record& type, const void* object, int from, std::size_t bytes) noexcept {
  trace_name(id, type, object);
  trace::detail::lands(trace::detail::name_number(type.name), id.bits, from, bytes);
}

} // namespace tern::mobile::detail
