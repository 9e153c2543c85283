// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/device/device_kind.hpp>

#include <algorithm>

#include <tern/base/error.hpp>

namespace tern::hetero {

namespace detail {
// A kind of this tree defines its entry in device/NAME/.
#define TERN_DEVICE_KIND(name) extern const device_kind_entry name##_kind;
#include "device_kinds.inc" // of the folders that CMakeLists.txt adds
#undef TERN_DEVICE_KIND

namespace {

/// \pre what has a value of its own comes first. \throws as device_kind_registration.
device_kind add(std::vector<device_kind_entry>& all, device_kind_entry entry) {
  unsigned next = 1; // 0: the host
  for (const device_kind_entry& other : all) {
    if (std::string(other.name) == entry.name)
      throw error(errc::already_exists, std::string("two kinds of devices are called '") + entry.name + "'",
                  "give one of them another name");
    next = std::max(next, static_cast<unsigned>(other.kind) + 1);
  }
  if (entry.kind == device_kind::host) {
    if (next >= device_kinds_most)
      throw error(errc::unsupported, std::string("there is no place for the devices of the kind '") + entry.name + "'",
                  "at most " + std::to_string(device_kinds_most) + " kinds are told apart");
    entry.kind = static_cast<device_kind>(next);
  }
  all.push_back(entry);
  return entry.kind;
}

std::vector<device_kind_entry>& all_kinds() {
  static auto& all = *[] { // never destroyed: runtimes may end after static objects
    std::vector<device_kind_entry> those{
#define TERN_DEVICE_KIND(name) name##_kind,
#include "device_kinds.inc"
#undef TERN_DEVICE_KIND
    };
    constexpr auto last = device_kind::host; // its value is not known yet
    std::sort(those.begin(), those.end(), [](const device_kind_entry& a, const device_kind_entry& b) {
      return (a.kind == last) != (b.kind == last) ? b.kind == last : a.kind < b.kind;
    });
    auto* const made = new std::vector<device_kind_entry>;
    for (const device_kind_entry& one : those) add(*made, one);
    return made;
  }();
  return all;
}

} // namespace

const std::vector<device_kind_entry>& registered_kinds() { return all_kinds(); }

} // namespace detail

device_kind_registration::device_kind_registration(const detail::device_kind_entry& entry)
    : kind_(detail::add(detail::all_kinds(), entry)) {}

const char* name_of(device_kind kind) noexcept {
  if (kind == device_kind::host) return "host";
  for (const detail::device_kind_entry& one : detail::registered_kinds())
    if (one.kind == kind) return one.name;
  return "unknown";
}

} // namespace tern::hetero
