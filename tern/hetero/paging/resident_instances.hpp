// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The instances that lie in a device's memory. Internal.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include <tern/hetero/data/object_state.hpp>
#include <tern/hetero/eviction/eviction_rank.hpp>

namespace tern::hetero::detail {

/// Which objects have instances in the memory of one device. Any thread. An object is in the list
/// as long as it has an instance there, so those in the list may be locked while the list is;
/// without waiting, since a thread that has locked an object may want the list.
class resident_instances {
public:
  /// Under the object's lock.
  void add(object_state& o, std::size_t instance);
  void remove(object_state& o, std::size_t instance) noexcept;
  bool empty() const noexcept;
  /// As device_queue::each_held.
  bool each(const std::function<eviction_rank(object_state& o, std::size_t instance)>& rank,
            const std::function<bool(object_state& o, std::size_t instance)>& f);
  /// The same for all, in the order of objects.
  bool each(const std::function<void(object_state& o, std::size_t instance)>& f);

private:
  struct held {
    object_state* object;
    std::uint64_t number; ///< the object's
    std::size_t instance;
    eviction_rank rank;
  };
  std::vector<held> in_order(const std::function<eviction_rank(object_state& o, std::size_t instance)>& rank,
                             bool& skipped) noexcept;
  object_state* lock(const held& h, bool& skipped) noexcept;

  mutable tern::detail::spin_lock guard_;
  std::map<std::pair<std::uint64_t, std::size_t>, object_state*> all_; // by the object's number and the instance
};

} // namespace tern::hetero::detail
