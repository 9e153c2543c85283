// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/paging/resident_instances.hpp>

#include <algorithm>
#include <mutex>

namespace tern::hetero::detail {

void resident_instances::add(object_state& o, std::size_t instance) {
  const std::lock_guard hold(guard_);
  all_.emplace(std::pair(o.number, instance), &o);
}

void resident_instances::remove(object_state& o, std::size_t instance) noexcept {
  const std::lock_guard hold(guard_);
  all_.erase({o.number, instance});
}

bool resident_instances::empty() const noexcept {
  const std::lock_guard hold(guard_);
  return all_.empty();
}

bool resident_instances::each(const std::function<eviction_rank(object_state& o, std::size_t instance)>& rank,
                              const std::function<bool(object_state& o, std::size_t instance)>& f) {
  bool skipped = false;
  for (const held& h : in_order(rank, skipped)) {
    object_state* const o = lock(h, skipped);
    if (!o) continue;
    const std::unique_lock hold(o->lock, std::adopt_lock);
    if (o->instances[h.instance].exists && !f(*o, h.instance)) break;
  }
  return skipped;
}

bool resident_instances::each(const std::function<void(object_state& o, std::size_t instance)>& f) {
  return each([](object_state&, std::size_t) { return eviction_rank(); },
              [&](object_state& o, std::size_t instance) {
                f(o, instance);
                return true;
              });
}

std::vector<resident_instances::held>
resident_instances::in_order(const std::function<eviction_rank(object_state& o, std::size_t instance)>& rank,
                             bool& skipped) noexcept {
  std::vector<held> all;
  {
    const std::lock_guard hold(guard_);
    for (const auto& [key, o] : all_)
      if (o->lock.try_lock()) {
        all.push_back({o, o->number, key.second, rank(*o, key.second)});
        o->lock.unlock();
      } else {
        skipped = true;
      }
  }
  std::sort(all.begin(), all.end(), [](const held& a, const held& b) { // those of a rank in the order of the list
    if (a.rank != b.rank) return a.rank < b.rank;
    return a.number != b.number ? a.number < b.number : a.instance < b.instance;
  });
  return all;
}

object_state* resident_instances::lock(const held& h, bool& skipped) noexcept {
  const std::lock_guard hold(guard_);
  if (!all_.contains({h.number, h.instance})) { // went meanwhile
    skipped = true;
    return nullptr;
  }
  if (h.object->lock.try_lock()) return h.object;
  skipped = true;
  return nullptr;
}

} // namespace tern::hetero::detail
