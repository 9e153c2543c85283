// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The names under which objects were published, for reports. Internal.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <tern/mobile/object_id.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::mobile::detail {

/// The names of the objects that were born on one rank. Thread-safe.
class object_labels {
public:
  object_labels();
  ~object_labels();
  object_labels(const object_labels&) = delete;
  object_labels& operator=(const object_labels&) = delete;

  void add(object_id id, const std::string& name);
  void remove(object_id id, const std::string& name) noexcept;
  /// The object has been destroyed.
  void forget(object_id id) noexcept;
  void clear() noexcept;
  /// "'a', 'b'"; empty: it has none, or another thread holds the lock for too long. For reports.
  std::string describe(object_id id);

private:
  tern::detail::spin_lock lock_;                             // a few instructions at a time; reports look, too
  std::map<std::uint64_t, std::vector<std::string>> labels_; // by the id's bits
};

} // namespace tern::mobile::detail
