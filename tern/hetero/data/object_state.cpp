// SPDX-License-Identifier: Apache-2.0
/// \file
/// Fragments and memory of an object.
#include <tern/hetero/data/object_state.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/hetero/data/coherence.hpp>

namespace tern::hetero::detail {

namespace {
// Of the process, not of a runtime: what outlives one, as `recorded` may, must not take another's
// object for its own.
std::atomic<std::uint64_t> next_number{1};
} // namespace

object_state::object_state(runtime& owner, coherence& of, const box& whole, std::size_t bytes_of_element,
                           const char* type_name)
    : large(whole.size() * static_cast<std::int64_t>(bytes_of_element) >= large_bytes), home(owner),
      number(next_number.fetch_add(1, std::memory_order_relaxed)), all(whole), element(bytes_of_element),
      host_layout(layout::packed(whole, bytes_of_element)), type(type_name),
      copies(of), tile{static_cast<std::int32_t>(whole.extent(0)), static_cast<std::int32_t>(whole.extent(1)),
                       static_cast<std::int32_t>(whole.extent(2))},
      instances(1) {
  first.where = whole;
  instances[0].exists = true;
  instances[0].where = whole;
  instances[0].how = host_layout;
  instances[0].bytes = static_cast<std::size_t>(whole.size()) * element;
  if (copies.paging()) paged = std::make_unique<host_block>();
  copies.client().add_reference();
  copies.count_object(static_cast<std::int64_t>(instances[0].bytes));
}

object_state::~object_state() {
  if (std::byte* const p = host.load(std::memory_order_relaxed); p && landed.empty() && (!adopted || left_lent))
    copies.memory().free(p);
  // Lists name tasks of the runtime, which may go with the last object.
  first.writers.clear();
  first.readers.clear();
  first.before_commuting.clear();
  first.next.reset();
  many.clear();
  copies.count_object(-static_cast<std::int64_t>(instances[0].bytes));
  copies.client().release();
}

std::byte* object_state::host_memory() {
  if (std::byte* const p = host.load(std::memory_order_relaxed)) return p;
  try {
    std::byte* const p = copies.memory().allocate(instances[0].bytes);
    host.store(p, std::memory_order_release);
    return p;
  } catch (const std::bad_alloc&) {
    throw error(errc::out_of_memory,
                text() + " needs " + std::to_string(instances[0].bytes) +
                    " bytes of the host's memory, which has not so many",
                "use smaller objects, or fewer at a time");
  }
}

bool object_state::leave_lent_memory() {
  bool possible = instances[0].users == 0;
  each(all, [&](const fragment& f) { possible = possible && f.valid != bit(0); });
  if (!possible) return false;
  std::byte* const lent = host.exchange(nullptr, std::memory_order_relaxed);
  try {
    host_memory();
  } catch (...) {
    host.store(lent, std::memory_order_relaxed);
    throw;
  }
  left_lent = true;
  each(all, [&](fragment& f) {
    if (f.valid & bit(0)) set_valid(f, f.valid & ~bit(0));
  });
  update_on_host();
  return true;
}

std::string object_state::text() const { return text(all); }

std::string object_state::text(const box& part) const {
  std::string shape;
  bool started = false;
  for (std::size_t d = 0; d < 3; ++d) {
    if (!started && d < 2 && all.extent(d) == 1) continue;
    shape += (started ? " x " : "") + std::to_string(all.extent(d));
    started = true;
  }
  std::string s;
  if (!(part == all)) {
    started = false;
    for (std::size_t d = 0; d < 3; ++d) {
      if (!started && d < 2 && all.extent(d) == 1) continue;
      s += (started ? " x [" : "[") + std::to_string(part.low[d]) + ", " + std::to_string(part.high[d]) + ")";
      started = true;
    }
    s += " of ";
  }
  return s + "hetero_object<" + type + ">" + (name.empty() ? "" : " '" + name + "'") + " of " + shape;
}

std::unique_ptr<fragment> object_state::piece(const fragment& of, const box& where) {
  auto p = std::make_unique<fragment>();
  p->where = where;
  for (task_record* t : of.writers) p->writers.add(t);
  for (task_record* t : of.readers) p->readers.add(t);
  for (task_record* t : of.before_commuting) p->before_commuting.add(t);
  p->commuting = of.commuting;
  p->lost = of.lost;
  p->valid = of.valid;
  p->coming = of.coming;
  p->writing = of.writing;
  not_on_host += (p->valid & 1) == 0 ? 1 : 0;
  return p;
}

void object_state::cut(const box& part) {
  each(part, [&](fragment& f) {
    if (part.contains(f.where)) return;
    f.writers.prune();
    f.readers.prune();
    if (f.writers.size() == 0 && std::exchange(f.commuting, false)) f.before_commuting.clear();
    const box inner = f.where.common(part);
    f.where.without(part, [&](const box& outer) { // before the others in the list, which is being gone through
      auto p = piece(f, outer);
      p->next = std::move(f.next);
      f.next = std::move(p);
    });
    f.where = inner;
  });
}

void object_state::cut_tiles(const std::array<std::int32_t, 3>& size) {
  if (!uncut()) return;
  std::array<std::int32_t, 3> count{};
  for (std::size_t d = 0; d < 3; ++d) count[d] = static_cast<std::int32_t>((all.extent(d) + size[d] - 1) / size[d]);
  std::vector<fragment> cells;
  cells.reserve(static_cast<std::size_t>(count[0]) * static_cast<std::size_t>(count[1]) *
                static_cast<std::size_t>(count[2]));
  if (cells.capacity() == 1) return;
  for (std::int32_t z = 0; z < count[0]; ++z)
    for (std::int32_t y = 0; y < count[1]; ++y)
      for (std::int32_t x = 0; x < count[2]; ++x) {
        box b;
        const std::array<std::int32_t, 3> at{z, y, x};
        for (std::size_t d = 0; d < 3; ++d) {
          b.low[d] = at[d] * size[d];
          b.high[d] = static_cast<std::int32_t>(std::min<std::int64_t>(all.high[d], std::int64_t{b.low[d]} + size[d]));
        }
        cells.push_back(std::move(*piece(first, b)));
      }
  not_on_host -= (first.valid & 1) == 0 ? 1 : 0;
  first = fragment();
  tile = size;
  cell_count = count;
  many = std::move(cells);
  tiled = true;
}

} // namespace tern::hetero::detail
