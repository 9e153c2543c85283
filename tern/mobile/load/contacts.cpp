// SPDX-License-Identifier: Apache-2.0
/// \file
/// Which objects send to which.
#include <tern/mobile/load/contacts.hpp>

#include <mutex>

namespace tern::mobile::detail {
namespace {

constexpr std::size_t most_contacts = 1'000'000;

} // namespace

void contact_counter::note(object_id from, object_id to, std::size_t bytes) noexcept {
  const std::lock_guard hold(guard_);
  const std::pair key(from.bits, to.bits);
  if (contacts_.size() >= most_contacts && !contacts_.contains(key)) return;
  object_contact& c = contacts_[key];
  c.from = from;
  c.to = to;
  ++c.messages;
  c.bytes += static_cast<double>(bytes);
}

std::vector<object_contact> contact_counter::take() {
  std::map<std::pair<std::uint64_t, std::uint64_t>, object_contact> all;
  {
    const std::lock_guard hold(guard_);
    all.swap(contacts_);
  }
  std::vector<object_contact> list;
  list.reserve(all.size());
  for (const auto& [key, one] : all) list.push_back(one);
  return list;
}

} // namespace tern::mobile::detail
