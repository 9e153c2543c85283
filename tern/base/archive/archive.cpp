// SPDX-License-Identifier: Apache-2.0
#include <tern/base/archive.hpp>

#include <cstdlib>
#include <cxxabi.h>

namespace tern::detail {
namespace {

constexpr const char* untrusted_hint = "the bytes are damaged, or were not packed as the types that are being read";

std::string at(std::size_t offset) { return " at offset " + std::to_string(offset); }

std::string demangled(const std::type_info& type) {
  int status = 0;
  std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  return status == 0 && name ? name.get() : type.name();
}

} // namespace

void archive_truncated(std::size_t offset, std::size_t wanted, std::size_t available) {
  throw error(errc::invalid_data,
              "archive ends too early" + at(offset) + ": " + std::to_string(wanted) + " bytes wanted, " +
                  std::to_string(available) + " available",
              untrusted_hint);
}

void archive_bad_length(std::size_t offset, std::uint64_t length, std::size_t element, std::size_t available) {
  const auto most = std::numeric_limits<std::uint64_t>::max();
  const bool overflow = length > most / element;
  throw error(errc::invalid_data,
              "archive has an impossible length" + at(offset) + ": " + std::to_string(length) + " elements, so " +
                  (overflow ? "more than " + std::to_string(most) : "at least " + std::to_string(length * element)) +
                  " bytes wanted, " + std::to_string(available) + " available",
              untrusted_hint);
}

void archive_bad_value(std::size_t offset, std::string_view what, std::uint64_t value, std::string_view allowed) {
  throw error(errc::invalid_data,
              "archive has a bad " + std::string(what) + at(offset) + ": " + std::to_string(value) + ", allowed is " +
                  std::string(allowed),
              untrusted_hint);
}

void archive_left_over(std::size_t offset, std::size_t size) {
  throw error(errc::invalid_data,
              "archive goes on after its last value" + at(offset) + ": " + std::to_string(offset) + " bytes wanted, " +
                  std::to_string(size) + " available",
              untrusted_hint);
}

void archive_too_deep(int depth) {
  const bool counted = depth >= archive_max_depth;
  throw error(errc::invalid_data,
              "pointers and containers lie inside each other more than " + std::to_string(depth) + " deep" +
                  (counted ? "" : ", which takes over " + std::to_string(archive_max_stack / 1024) + " KiB of stack"),
              "serialize long chains as a vector of nodes");
}

void archive_cycle(std::string_view type) {
  throw error(errc::invalid_data, "a shared_ptr<" + std::string(type) + "> leads back to the object that holds it",
              "a cycle cannot be serialized: leave one of its pointers out and restore it after loading");
}

void archive_size_mismatch(std::string_view type, std::size_t counted, std::size_t written) {
  throw error(errc::invalid_data,
              (type.empty() ? std::string("a value") : "a value of type " + std::string(type)) + " was counted as " +
                  std::to_string(counted) + " bytes but packed as " + std::to_string(written),
              "its serialize or save must do the same each time it is called, and the value must not change meanwhile");
}

void archive_not_static_type(std::string_view type, const std::type_info& dynamic) {
  throw error(errc::unsupported,
              "a pointer to " + std::string(type) + " holds a " + demangled(dynamic) +
                  ", which would be cut down to its base",
              "polymorphic pointers cannot be serialized yet: point to the concrete class, or use std::variant");
}

void archive_unsavable(std::string_view type, std::string_view why) {
  throw error(errc::invalid_data, "a value of type " + std::string(type) + " cannot be saved: " + std::string(why));
}

saved_objects::saved_objects() = default;
saved_objects::~saved_objects() = default;

saved_objects::entry saved_objects::enter(std::shared_ptr<const void> object, const std::type_info& type) {
  const auto next = static_cast<std::uint32_t>(objects_.size() + 1);
  const auto [position, fresh] = ids_.try_emplace({object.get(), std::type_index(type)}, next);
  if (fresh) objects_.push_back({std::move(object), false});
  return {position->second, fresh, objects_[position->second - 1].finished};
}

} // namespace tern::detail
