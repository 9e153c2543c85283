// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a trace says of objects. To be called only while one is recorded. Internal.

#include <cstddef>

#include <tern/mobile/object/type.hpp>
#include <tern/mobile/object_id.hpp>

namespace tern::mobile::detail {

/// The calling fiber works on it.
void trace_object(object_id id, const type_record& type) noexcept;
/// What the object calls itself, if its class has a `name()`. By the fiber that has the object
/// alone.
void trace_name(object_id id, const type_record& type, const void* object) noexcept;
void trace_departure(object_id id, const type_record& type, int to, std::size_t bytes) noexcept;
void trace_landing(object_id id, const type_record& type, const void* object, int from, std::size_t bytes) noexcept;

} // namespace tern::mobile::detail
