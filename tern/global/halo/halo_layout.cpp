// SPDX-License-Identifier: Apache-2.0
#include <tern/global/halo/halo_layout.hpp>

#include <bit>
#include <cstddef>
#include <limits>

#include <tern/base/error.hpp>

namespace tern::global::detail {
namespace {

std::string digits(std::int64_t n) { return std::to_string(n); }

[[noreturn]] void wrong_halo(const std::string& what, const std::string& hint) {
  throw error(errc::invalid_argument, what, hint);
}

} // namespace

halo_layout::halo_layout(const halo_numbers& n) : n_(n) {
  if (n.width < 1) wrong_halo("a halo with a width of " + digits(n.width), "it has one ghost layer at least");
  const std::string all = place_text(n.grid, " x ");
  for (int d = 3 - n.dimensions; d < 3; ++d) {
    const auto i = static_cast<std::size_t>(d);
    const std::string dimension = " in dimension " + digits(d - (3 - n.dimensions));
    if (n.grid[i] < 1)
      wrong_halo("a halo in a grid of " + all + " blocks", "a grid has one block at least in each dimension");
    if (n.block[i] < 0 || n.block[i] >= n.grid[i])
      wrong_halo("a halo of block (" + place_text(n.block) + "), which a grid of " + all + " blocks has not" +
                     dimension,
                 "places of blocks begin with 0");
    if (n.cells[i] < n.width)
      wrong_halo(text() + " is " + digits(n.width) + " wide, and the block has " + digits(n.cells[i]) + " cells" +
                     dimension,
                 "take larger blocks, or fewer layers: what a neighbour needs is of one block");
    if (n.cells[i] + 2 * n.width > std::numeric_limits<std::int32_t>::max())
      wrong_halo(text() + ": no field has " + digits(n.cells[i]) + " cells and ghost layers" + dimension,
                 "objects have less than 2^31 elements in each dimension");
  }
  for (int side = 0; side < halo_side_count; ++side) {
    const halo_place step = step_to(side);
    int apart = 0;
    bool there = true;
    for (std::size_t d = 0; d < 3; ++d) {
      if (step[d] == 0) continue;
      ++apart;
      const std::int64_t at = n.block[d] + step[d];
      if (static_cast<int>(d) < 3 - n.dimensions) there = false;
      if ((n.periodic >> d & 1) == 0 && (at < 0 || at >= n.grid[d])) there = false;
    }
    if (there && apart > 0 && apart <= n.diagonal) sides_ |= 1u << side;
  }
}

int halo_layout::count() const noexcept { return std::popcount(sides_); }

int halo_layout::index_of(int side) const noexcept { return std::popcount(sides_ & ((1u << side) - 1)); }

halo_place halo_layout::neighbour(int side) const noexcept {
  halo_place p = step_to(side);
  for (std::size_t d = 0; d < 3; ++d) p[d] = (p[d] + n_.block[d] + n_.grid[d]) % n_.grid[d];
  return p;
}

halo_place halo_layout::field_size() const noexcept {
  halo_place p = n_.cells;
  for (std::size_t d = 0; d < 3; ++d) p[d] += 2 * width(d);
  return p;
}

std::int64_t halo_layout::cells_at(int side) const noexcept {
  const halo_place step = step_to(side);
  std::int64_t n = 1;
  for (std::size_t d = 0; d < 3; ++d) n *= step[d] == 0 ? n_.cells[d] : n_.width;
  return n;
}

std::int64_t halo_layout::all_cells() const noexcept {
  std::int64_t n = 0;
  for (int side = 0; side < halo_side_count; ++side)
    if (has(side)) n += cells_at(side);
  return n;
}

std::string halo_layout::place_text(const halo_place& p, const char* separator) const {
  std::string all;
  for (int d = 3 - n_.dimensions; d < 3; ++d)
    all += (all.empty() ? "" : separator) + digits(p[static_cast<std::size_t>(d)]);
  return all;
}

std::string halo_layout::text() const {
  return "the halo of block (" + place_text(n_.block) + ") of " + place_text(n_.grid, " x ");
}

std::string halo_layout::side_text(int side) const { return "side (" + place_text(step_to(side)) + ")"; }

void halo_layout::check_made() const {
  if (n_.dimensions == 0)
    throw error(errc::invalid_state, "a halo of no block is used", "make it with the shape of a grid and neighbours");
}

void halo_layout::check_field(const hetero::detail::box& part, const std::string& field) const {
  check_made();
  const halo_place wanted = field_size();
  const halo_place found{part.extent(0), part.extent(1), part.extent(2)};
  if (found != wanted)
    wrong_halo(text() + ": " + field + " has extents " + place_text(found, " x ") + ", and " +
                   place_text(n_.cells, " x ") + " cells with ghost layers have " + place_text(wanted, " x "),
               "a field has ghost layers on both sides of each dimension: halo::field_size()");
}

void halo_layout::check_neighbours(const std::uint64_t* objects) const {
  for (int side = 0; side < halo_side_count; ++side) {
    if (!has(side)) continue;
    const std::uint64_t object = objects[index_of(side)];
    if (object == 0)
      wrong_halo(text() + ": there is no object for the neighbour at (" + place_text(neighbour(side)) + "), beyond " +
                     side_text(side),
                 "give a pointer for each block of the grid, or a grid of the blocks that there are");
    for (int other = 0; other < side; ++other)
      if (has(other) && (objects[index_of(other)] == object) != (neighbour(other) == neighbour(side)))
        wrong_halo(text() + ": the neighbours beyond " + side_text(other) + " and " + side_text(side) +
                       " are blocks (" + place_text(neighbour(other)) + ") and (" + place_text(neighbour(side)) +
                       "), but " + (objects[index_of(other)] == object ? "one object" : "two objects"),
                   "a block of the grid is one object");
  }
}

void halo_arrivals::arrived(const halo_layout& of, std::int64_t k, int from, std::int64_t cells) {
  of.check_made();
  const auto what = [&] { return of.text() + ": cells of step " + digits(k) + " from "; };
  if (from < 0 || from >= halo_side_count)
    wrong_halo(what() + "side number " + digits(from) + ", which is none", "send what pack() gave as `from`");
  if (!of.has(from))
    wrong_halo(what() + of.side_text(from) + ", where it has no neighbour",
               "blocks have the same grid, and exchange the same faces, edges or corners");
  if (cells != of.cells_at(from))
    wrong_halo(what() + of.side_text(from) + " are " + (cells < 0 ? "no object" : digits(cells) + " cells") +
                   " in place of " + digits(of.cells_at(from)),
               "send the part that pack() gave for this neighbour; widths are the same, and extents along the side");
  if (k < step_)
    throw error(
        errc::invalid_state,
        what() + of.side_text(from) +
            (k < 0 ? ", but steps begin with 0" : " again: that step has been unpacked, " + digits(step_) + " is next"),
        "send each part once, with the step that it is of");
  if (k > step_ + 1)
    throw error(errc::invalid_state,
                what() + of.side_text(from) + " are " + digits(k - step_) + " steps ahead: step " + digits(step_) +
                    " has not been unpacked",
                "a neighbour sends a step when it has unpacked the one before");
  std::uint32_t& there = there_[slot(k)];
  if ((there >> from & 1) != 0)
    throw error(errc::invalid_state, what() + of.side_text(from) + " come twice",
                "send each part once, with the step that it is of");
  there |= 1u << from;
}

void halo_arrivals::check_unpack(const halo_layout& of, std::int64_t k) const {
  of.check_made();
  if (k != step_)
    throw error(errc::invalid_state,
                of.text() + ": step " + digits(k) + " is to be unpacked, and step " + digits(step_) + " is next",
                "unpack the steps one after the other");
  if (!complete(of, k)) {
    std::string missing;
    for (int side = 0; side < halo_side_count; ++side)
      if (of.has(side) && (there_[slot(k)] >> side & 1) == 0)
        missing += (missing.empty() ? "" : ", ") + of.side_text(side);
    throw error(errc::invalid_state,
                of.text() + ": step " + digits(k) + " is to be unpacked, and nothing has come from " + missing,
                "unpack it when complete(" + digits(k) + ") says so");
  }
}

} // namespace tern::global::detail
