// SPDX-License-Identifier: Apache-2.0
#include <tern/global/halo/halo_layout.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/base/error.hpp>

namespace tern::global::detail {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Of two dimensions.
halo_numbers plane(std::int64_t rows, std::int64_t columns, std::int64_t width = 1, int diagonal = 3) {
  halo_numbers of;
  of.dimensions = 2;
  of.cells = {1, 4, 6};
  of.grid = {1, rows, columns};
  of.width = width;
  of.diagonal = static_cast<std::uint8_t>(diagonal);
  return of;
}
/// In the order of numbers: (-1, -1), (-1, 0), …
constexpr std::array sides_of_plane{9, 10, 11, 12, 14, 15, 16, 17};

std::string halo_error(errc code, const std::function<void()>& f) {
  try {
    f();
  } catch (const error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  return "nothing was thrown";
}

TEST(halo_layout, knows_its_neighbours) {
  halo_numbers of = plane(3, 3);
  of.block = {0, 1, 1};
  const halo_layout middle(of);
  EXPECT_EQ(middle.count(), 8);
  EXPECT_EQ(middle.neighbour(9), (halo_place{0, 0, 0}));
  EXPECT_EQ(middle.neighbour(14), (halo_place{0, 1, 2}));
  of.block = {0, 0, 2};
  const halo_layout corner(of);
  EXPECT_EQ(corner.count(), 3);
  for (const int side : sides_of_plane) EXPECT_EQ(corner.has(side), side == 12 || side == 15 || side == 16) << side;
  of.periodic = 2; // rows
  const halo_layout around(of);
  EXPECT_EQ(around.count(), 5);
  EXPECT_EQ(around.neighbour(10), (halo_place{0, 2, 2}));
  EXPECT_EQ(around.index_of(10), 1);
  of.diagonal = 1;
  EXPECT_EQ(halo_layout(of).count(), 3);
}

TEST(halo_layout, has_the_faces_edges_and_corners_of_a_box) {
  halo_numbers of;
  of.dimensions = 3;
  of.cells = {4, 5, 6};
  of.grid = {1, 2, 3};
  of.width = 2;
  of.periodic = 7;
  std::array<int, 4> expected{0, 6, 18, 26};
  for (std::size_t diagonal = 1; diagonal <= 3; ++diagonal) {
    of.diagonal = static_cast<std::uint8_t>(diagonal);
    EXPECT_EQ(halo_layout(of).count(), expected[diagonal]);
  }
  const halo_layout l(of);
  EXPECT_EQ(l.field_size(), (halo_place{8, 9, 10}));
  EXPECT_EQ(l.cells_at(13 - 9), 2 * 5 * 6);
  EXPECT_EQ(l.cells_at(13 + 3 + 1), 4 * 2 * 2);
  EXPECT_EQ(l.cells_at(26), 8);
  EXPECT_EQ(l.all_cells(), 8 * 9 * 10 - 4 * 5 * 6);
  EXPECT_EQ(l.neighbour(13 - 9), (halo_place{0, 0, 0})); // itself
}

TEST(halo_layout, says_what_cannot_be) {
  const auto made = [](const halo_numbers& of) {
    return halo_error(errc::invalid_argument, [&] { static_cast<void>(halo_layout(of)); });
  };
  EXPECT_THAT(made(plane(2, 2, 0)),
              AllOf(HasSubstr("a halo with a width of 0"), HasSubstr("one ghost layer at least")));
  EXPECT_THAT(made(plane(2, 2, 5)),
              HasSubstr("the halo of block (0, 0) of 2 x 2 is 5 wide, and the block has 4 cells in dimension 0"));
  EXPECT_THAT(made(plane(2, 0)), HasSubstr("a halo in a grid of 2 x 0 blocks"));
  halo_numbers of = plane(2, 3);
  of.block = {0, 1, 3};
  EXPECT_THAT(made(of), HasSubstr("a halo of block (1, 3), which a grid of 2 x 3 blocks has not in dimension 1"));
  of = plane(2, 3);
  of.cells[2] = std::int64_t{1} << 31;
  EXPECT_THAT(made(of), HasSubstr("no field has 2147483648 cells and ghost layers in dimension 1"));
}

TEST(halo_layout, compares_the_grid_with_its_neighbours) {
  halo_numbers of = plane(2, 3, 1, 1);
  of.periodic = 4;         // columns
  const halo_layout l(of); // sides 12, 14, 16
  ASSERT_EQ(l.count(), 3);
  const auto given = [&](const std::vector<std::uint64_t>& objects) {
    return halo_error(errc::invalid_argument, [&] { l.check_neighbours(objects.data()); });
  };
  EXPECT_EQ(given({1, 2, 3}), "nothing was thrown");
  EXPECT_THAT(given({1, 2, 0}), HasSubstr("the halo of block (0, 0) of 2 x 3: there is no object for the neighbour at "
                                          "(1, 0), beyond side (1, 0)"));
  EXPECT_THAT(given({1, 2, 1}), HasSubstr("the neighbours beyond side (0, -1) and side (1, 0) are blocks (0, 2) and "
                                          "(1, 0), but one object"));
  of.grid = {1, 1, 2};
  const halo_layout two(of);
  ASSERT_EQ(two.count(), 2);
  const std::uint64_t same[] = {4, 4}, other[] = {4, 5};
  two.check_neighbours(same);
  EXPECT_THAT(halo_error(errc::invalid_argument, [&] { two.check_neighbours(other); }), HasSubstr("but two objects"));
}

TEST(halo_layout, looks_at_fields) {
  const halo_layout l(plane(2, 2));
  hetero::detail::box part;
  part.high = {1, 6, 8};
  l.check_field(part, "temperature");
  part.high = {1, 6, 6};
  EXPECT_THAT(halo_error(errc::invalid_argument, [&] { l.check_field(part, "temperature"); }),
              HasSubstr("the halo of block (0, 0) of 2 x 2: temperature has extents 6 x 6, and 4 x 6 cells with ghost "
                        "layers have 6 x 8"));
  EXPECT_THAT(halo_error(errc::invalid_state, [&] { halo_layout().check_field(part, "temperature"); }),
              HasSubstr("a halo of no block is used"));
}

class halo_arrivals_of : public testing::Test {
protected:
  halo_arrivals_of()
      : of_([] {
          halo_numbers of = plane(1, 3, 1, 1);
          of.block = {0, 0, 1};
          return of;
        }()) {}
  void come(std::int64_t k, int from, std::int64_t cells = 4) { steps_.arrived(of_, k, from, cells); }
  std::string error_of(errc code, std::int64_t k, int from, std::int64_t cells = 4) {
    return halo_error(code, [&] { come(k, from, cells); });
  }
  void next() {
    steps_.check_unpack(of_, steps_.step());
    steps_.unpacked();
  }
  static constexpr int west = 12, east = 14;
  const halo_layout of_;
  halo_arrivals steps_;
};

TEST_F(halo_arrivals_of, a_step_is_complete_when_all_have_come) {
  for (std::int64_t k = 0; k < 5; ++k) {
    EXPECT_FALSE(steps_.complete(of_, k));
    come(k, east);
    EXPECT_FALSE(steps_.complete(of_, k));
    come(k, west);
    EXPECT_TRUE(steps_.complete(of_, k));
    EXPECT_FALSE(steps_.complete(of_, k + 2));
    next();
    EXPECT_FALSE(steps_.complete(of_, k));
  }
}

TEST_F(halo_arrivals_of, neighbours_may_be_a_step_ahead) {
  come(0, east);
  come(1, east);
  come(1, west); // overtakes that of step 0
  EXPECT_TRUE(steps_.complete(of_, 1));
  EXPECT_FALSE(steps_.complete(of_, 0));
  come(0, west);
  next();
  EXPECT_EQ(steps_.step(), 1);
  EXPECT_TRUE(steps_.complete(of_, 1));
  come(2, west);
  next();
  EXPECT_FALSE(steps_.complete(of_, 2));
}

TEST_F(halo_arrivals_of, what_cannot_come_changes_nothing) {
  const std::string cells = "the halo of block (0, 1) of 1 x 3: cells of step ";
  EXPECT_THAT(error_of(errc::invalid_state, 2, west),
              AllOf(HasSubstr(cells + "2 from side (0, -1) are 2 steps ahead: step 0 has not been unpacked"),
                    HasSubstr("a neighbour sends a step when it has unpacked the one before")));
  EXPECT_THAT(error_of(errc::invalid_state, -1, west),
              HasSubstr(cells + "-1 from side (0, -1), but steps begin with 0"));
  EXPECT_THAT(error_of(errc::invalid_argument, 0, 10),
              HasSubstr(cells + "0 from side (-1, 0), where it has no neighbour"));
  EXPECT_THAT(error_of(errc::invalid_argument, 0, 13), HasSubstr("from side (0, 0), where it has no neighbour"));
  for (const int none : {-1, 27, 1000})
    EXPECT_THAT(error_of(errc::invalid_argument, 0, none),
                HasSubstr("from side number " + std::to_string(none) + ", which is none"));
  EXPECT_THAT(error_of(errc::invalid_argument, 0, west, 5), HasSubstr("from side (0, -1) are 5 cells in place of 4"));
  EXPECT_THAT(error_of(errc::invalid_argument, 0, west, -1), HasSubstr("are no object in place of 4"));
  come(0, west);
  EXPECT_THAT(error_of(errc::invalid_state, 0, west), HasSubstr(cells + "0 from side (0, -1) come twice"));
  come(1, west);
  EXPECT_THAT(error_of(errc::invalid_state, 1, west), HasSubstr("come twice"));
  come(0, east);
  next();
  EXPECT_THAT(error_of(errc::invalid_state, 0, east),
              HasSubstr(cells + "0 from side (0, 1) again: that step has been unpacked, 1 is next"));
  EXPECT_THAT(halo_error(errc::invalid_state, [&] { halo_arrivals().arrived(halo_layout(), 0, west, 4); }),
              HasSubstr("a halo of no block is used"));
}

TEST_F(halo_arrivals_of, steps_are_unpacked_in_order_and_whole) {
  const auto unpack = [&](std::int64_t k) {
    return halo_error(errc::invalid_state, [&] { steps_.check_unpack(of_, k); });
  };
  EXPECT_THAT(unpack(0), HasSubstr("the halo of block (0, 1) of 1 x 3: step 0 is to be unpacked, and nothing has come "
                                   "from side (0, -1), side (0, 1)"));
  come(0, west);
  EXPECT_THAT(unpack(0), HasSubstr("nothing has come from side (0, 1)"));
  EXPECT_THAT(unpack(1), HasSubstr("step 1 is to be unpacked, and step 0 is next"));
}

} // namespace
} // namespace tern::global::detail
