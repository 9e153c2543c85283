// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which objects of a rank send to which objects, and how much. Internal.

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <tern/mobile/object_id.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::mobile {

/// How often one object has sent to another, and how much.
struct object_contact {
  object_id from, to;
  std::uint64_t messages = 0;
  double bytes = 0;
};

namespace detail {

/// Thread-safe. Knows a million pairs at most; others are not counted until these are taken.
class contact_counter {
public:
  void note(object_id from, object_id to, std::size_t bytes) noexcept;
  /// What was counted since the last call, ordered by the ids.
  std::vector<object_contact> take();

private:
  tern::detail::spin_lock guard_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, object_contact> contacts_; ///< by ids' bits
};

} // namespace detail
} // namespace tern::mobile
