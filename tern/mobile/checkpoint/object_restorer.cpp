// SPDX-License-Identifier: Apache-2.0
/// \file
/// Objects that were saved are made again.
#include <tern/mobile/checkpoint/object_restorer.hpp>

#include <algorithm>
#include <string>

#include <tern/base/error.hpp>

namespace tern::mobile::detail {

void object_restorer::restore(const object_source& from, const type_record& type, const saved_object& o,
                              std::uint64_t credit) {
  const std::span<const std::byte> bytes = read(from, o);
  void* object = nullptr;
  try {
    object = type.unpack(bytes);
  } catch (const std::exception& e) {
    throw error(errc::invalid_argument,
                "object " + to_string(o.id) + " (" + type.name + ") of " + from.name() +
                    " cannot be unpacked: " + e.what(),
                "its class reads something else than it has written, or has changed since");
  }
  travel_note with = o.with;
  if (with.credit > 0) with.credit = credit;
  all_.restore(type, object, o.id, with, o.pins, bytes.size());
}

// Objects stand in their order: so many are read at a time.
std::span<const std::byte> object_restorer::read(const object_source& from, const saved_object& o) {
  const bool there = &from == of_ && o.offset >= begin_ && o.offset + o.bytes <= begin_ + filled_;
  if (!there) {
    of_ = nullptr;
    filled_ = static_cast<std::size_t>(
        std::min<std::uint64_t>(std::max<std::uint64_t>(o.bytes, most_together), from.bytes() - o.offset));
    if (window_.size() < filled_) window_ = byte_buffer(filled_);
    begin_ = o.offset;
    from.read(begin_, {window_.data(), filled_});
    of_ = &from;
  }
  return {window_.data() + (o.offset - begin_), static_cast<std::size_t>(o.bytes)};
}

} // namespace tern::mobile::detail
