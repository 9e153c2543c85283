// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What one worker knows of the objects of others that it sends to. Internal.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include <tern/mobile/object_id.hpp>

namespace tern::mobile::detail {

/// For objects that belong to another worker: which, and how far the ring to that one must have
/// been read before a message to the object may go another way. An object is asked for its home
/// anew after some messages; what is not known is found out by sending the usual way.
///
/// Guarantee: what has been handed over (`handed`) is named once by `take_unsettled` of its object;
/// if too many objects are in use for the table, perhaps by that of others before.
class known_homes {
public:
  static constexpr std::size_t capacity = 256;
  static constexpr unsigned most_uses = 64;

  /// What was handed to a worker, up to that place of the ring to it.
  struct mark {
    int home;
    std::uint32_t upto;
  };

  /// \return -1: not known.
  int home_of(object_id id) noexcept {
    if (!all_) return -1;
    known& one = at(id);
    if (one.id != id) return -1;
    if (one.uses == most_uses) {
      one.uses = 0;
      return -1;
    }
    ++one.uses;
    return one.home;
  }
  /// It has been handed to its home, which `home_of` has just said.
  void handed(object_id id, std::uint32_t upto) noexcept {
    known& one = at(id);
    one.handed = true;
    one.upto = upto;
  }
  /// Calls `settle(mark)` for what must have been taken before a message to the object goes another
  /// way.
  template <class Settle> void take_unsettled(object_id id, Settle&& settle) {
    if (!all_) return;
    for (; !lost_.empty(); lost_.pop_back()) settle(lost_.back());
    if (known& one = at(id); one.id == id && std::exchange(one.handed, false)) settle(mark{one.home, one.upto});
  }
  /// Its home is another worker. \pre `take_unsettled` of it. Without memory, it stays unknown.
  void learn(object_id id, int home) noexcept {
    if (!all_) all_.reset(new (std::nothrow) std::array<known, capacity>);
    if (!all_) return;
    known& one = at(id);
    if (one.id != id && one.handed && !keep_mark({one.home, one.upto})) return;
    one = {id, 0, static_cast<std::int16_t>(home), 0, false};
  }
  /// Its home is this worker. \pre as of `learn`.
  void forget(object_id id) noexcept {
    if (all_ && at(id).id == id) at(id) = {};
  }

private:
  struct known {
    object_id id;
    std::uint32_t upto = 0;
    std::int16_t home = -1;
    std::uint8_t uses = 0;
    bool handed = false;
  };
  static_assert(sizeof(known) == 16 && most_uses < 256);

  // Objects that were made one after the other are neighbours here.
  known& at(object_id id) noexcept { return (*all_)[id.bits % capacity]; }
  bool keep_mark(mark m) noexcept {
    const auto same = std::find_if(lost_.begin(), lost_.end(), [&](const mark& x) { return x.home == m.home; });
    if (same != lost_.end()) {
      if (static_cast<std::int32_t>(m.upto - same->upto) > 0) same->upto = m.upto;
      return true;
    }
    try {
      lost_.push_back(m);
    } catch (const std::bad_alloc&) {
      return false;
    }
    return true;
  }

  std::unique_ptr<std::array<known, capacity>> all_;
  std::vector<mark> lost_; // of objects that the table has no space for any more
};

} // namespace tern::mobile::detail
