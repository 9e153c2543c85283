// SPDX-License-Identifier: Apache-2.0
/// \file
/// Classes of objects and their bases.
#include <tern/mobile/object/type.hpp>

#include <string>
#include <utility>

#include <tern/mobile/object/element_name.hpp>
#include <tern/mobile/object_id.hpp>

namespace tern::mobile {
namespace {

// The last one first. Before main.
const movable_class*& first_movable_class() {
  static const movable_class* first = nullptr;
  return first;
}

} // namespace

movable_class::movable_class(const net::handler_record& arrival, const type_record* (*type)())
    : arrival_(arrival), type_(type), next_(std::exchange(first_movable_class(), this)) {}

const type_record* movable_class::find(std::uint32_t arrival) {
  for (const movable_class* c = first_movable_class(); c; c = c->next_)
    if (c->arrival_.id() == arrival) return c->type_();
  return nullptr;
}

void* cast_object(const type_record& type, void* object, const type_record& wanted) noexcept {
  if (&type == &wanted) return object;
  for (const auto& base : type.bases)
    if (void* const as = cast_object(*base.type, base.cast(object), wanted)) return as;
  return nullptr;
}

bool derives_from(const type_record& type, const type_record& wanted) noexcept {
  if (&type == &wanted) return true;
  for (const auto& base : type.bases)
    if (derives_from(*base.type, wanted)) return true;
  return false;
}

namespace detail {
namespace {

element_namer names_elements = nullptr; // set before main

} // namespace

bool name_elements_by(element_namer f) noexcept {
  names_elements = f;
  return true;
}
std::string element_name(net::node* here, object_id id) {
  return names_elements ? names_elements(here, id) : std::string();
}

} // namespace detail

std::string to_string(object_id id) { return std::to_string(id.home()) + ":" + std::to_string(id.number()); }

} // namespace tern::mobile
