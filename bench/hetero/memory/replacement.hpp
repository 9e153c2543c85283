// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What must be copied if tasks run in a given order, one at a time, in a memory for so many tiles:
/// by the rule that knows the future, and by the usual one.

#include <cstddef>
#include <limits>
#include <stdexcept>
#include <vector>

namespace tern::bench::hetero {

struct tile_use {
  std::size_t tile;
  bool reads, writes;
};
using tile_uses = std::vector<tile_use>; ///< of a task, each tile once

struct traffic {
  std::size_t loads = 0, saves = 0; ///< tiles
  std::size_t all() const { return loads + saves; }
};

enum class replacement {
  furthest,    ///< Belady's: what is used again last goes first; of what is never used again, what need not be saved
  least_recent ///< what has not been used for the longest time
};

/// Each task has all its tiles in the memory while it runs. What it only writes is not loaded; what
/// has been written since it was loaded is saved when it goes; what is left at the end is not.
/// \throws std::invalid_argument for a task of more tiles than there is room for.
inline traffic traffic_of(const std::vector<tile_uses>& tasks, std::size_t room, replacement how) {
  constexpr std::size_t never = std::numeric_limits<std::size_t>::max();
  struct state {
    bool here = false, dirty = false;
    std::size_t last = 0, next = 0; // in `uses`, the next that has not been
    std::vector<std::size_t> uses;  // the tasks that use it
  };
  std::vector<state> tiles;
  for (std::size_t t = 0; t < tasks.size(); ++t)
    for (const tile_use& u : tasks[t]) {
      if (u.tile >= tiles.size()) tiles.resize(u.tile + 1);
      tiles[u.tile].uses.push_back(t);
    }
  traffic moved;
  std::size_t held = 0;
  const auto next_of = [&](const state& s) { return s.next < s.uses.size() ? s.uses[s.next] : never; };
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    if (tasks[t].size() > room) throw std::invalid_argument("a task of more tiles than there is room for");
    const auto needed_now = [&](const state& s) { return next_of(s) == t; };
    for (const tile_use& u : tasks[t]) {
      state& s = tiles[u.tile];
      if (s.here) continue;
      if (held == room) {
        state* victim = nullptr;
        const auto before = [&](const state& a, const state& b) { // does `a` go before `b`?
          if (how == replacement::least_recent) return a.last < b.last;
          const std::size_t x = next_of(a), y = next_of(b);
          return x != y ? x > y : !a.dirty && b.dirty;
        };
        for (state& other : tiles)
          if (other.here && !needed_now(other) && (!victim || before(other, *victim))) victim = &other;
        moved.saves += victim->dirty ? 1 : 0;
        victim->here = victim->dirty = false;
        --held;
      }
      s.here = true;
      ++held;
      moved.loads += u.reads ? 1 : 0;
    }
    for (const tile_use& u : tasks[t]) {
      state& s = tiles[u.tile];
      s.dirty = s.dirty || u.writes;
      s.last = t;
      ++s.next;
    }
  }
  return moved;
}

} // namespace tern::bench::hetero
