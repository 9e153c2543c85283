// SPDX-License-Identifier: Apache-2.0
// Halos of all shapes against a serial model, on each kind of device: one rank, whose blocks hand
// their parts to each other.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/cuda.hpp"
#include "tests/hetero/support/tasks.hpp"
#include <tern/global/halo.hpp>
#include <tern/hetero/hetero_task.hpp>

namespace tern::global {
namespace {

using hetero::machine;
using grid_place = std::array<std::int64_t, 3>;
struct halo_block {};

/// Blocks of different sizes, whose cells are numbered through.
template <class T, int N> class halo_grid {
public:
  halo_grid(const halo_shape<N>& shape, bool parts) : shape_(shape) {
    for (std::size_t d = 0; d < N; ++d) grid_[3 - N + d] = shape.grid[d];
    for_each_block([&](const grid_place& at) {
      halo_shape<N> s = shape_;
      for (std::size_t d = 0; d < N; ++d) {
        s.block[d] = at[3 - N + d];
        s.cells[d] = size_of(at[3 - N + d], 3 - N + d);
      }
      halos_.emplace_back(s, [&](const indices<N>& i) {
        return mobile_ptr<halo_block>(mobile::object_id(static_cast<std::uint64_t>(number(whole(i)) + 1)));
      });
      extents<N> size = halos_.back().field_size(), low{};
      if (parts) { // of a larger object
        for (std::int64_t& e : size) e += 3;
        for (std::int64_t& e : low) e = 2;
      }
      const hetero_object<T, N> all(size, T{-1});
      extents<N> high = low;
      for (std::size_t d = 0; d < N; ++d) high[d] += halos_.back().field_size()[d];
      fields_.push_back(all.part(low, high));
      const auto v = fields_.back().host(access_mode::read_write).get();
      for_each_cell(at, 0, [&](const grid_place& c) { element(v, c) = T(first(at, c)); });
    });
  }

  /// All blocks pack, and each hands each part to the block that it is for.
  void exchange() {
    for (std::size_t b = 0; b < halos_.size(); ++b)
      for (const halo_part<T>& part : halos_[b].pack(fields_[b])) {
        hetero_object<T> sent(part.cells.count());
        submit([](host_view<const T, 1> from, host_view<T, 1> to) { std::copy(from.begin(), from.end(), to.begin()); },
               read(part.cells), write(sent));
        const auto to = static_cast<std::size_t>(part.template to<halo_block>().id().bits - 1);
        const bool complete = halos_[to].arrived(halos_[b].step(), part.from, std::move(sent));
        EXPECT_EQ(complete, halos_[to].complete(0));
      }
    for (std::size_t b = 0; b < halos_.size(); ++b) {
      EXPECT_TRUE(halos_[b].complete(0));
      halos_[b].unpack(0, fields_[b]);
      EXPECT_EQ(halos_[b].step(), 1);
    }
  }

  void check(const std::string& what) {
    for_each_block([&](const grid_place& at) {
      const auto v = fields_[static_cast<std::size_t>(number(at))].host(access_mode::read).get();
      int wrong = 0;
      for_each_cell(at, shape_.width, [&](const grid_place& c) {
        if (element(v, c) != expected(at, c)) ++wrong;
      });
      EXPECT_EQ(wrong, 0) << what << ": in block " << at[0] << ", " << at[1] << ", " << at[2];
    });
  }

private:
  static grid_place whole(const indices<N>& i) {
    grid_place p{0, 0, 0};
    for (std::size_t d = 0; d < N; ++d) p[3 - N + d] = i[d];
    return p;
  }
  std::int64_t size_of(std::int64_t block, std::size_t d) const {
    return d < 3 - N ? 1 : shape_.cells[d - (3 - N)] + block % 2;
  }
  std::int64_t number(const grid_place& at) const { return (at[0] * grid_[1] + at[1]) * grid_[2] + at[2]; }
  std::int64_t all(std::size_t d) const {
    std::int64_t n = 0;
    for (std::int64_t b = 0; b < grid_[d]; ++b) n += size_of(b, d);
    return n;
  }
  /// What is in a cell of a block, before.
  std::int64_t first(const grid_place& at, const grid_place& cell) const {
    grid_place global = cell;
    for (std::size_t d = 0; d < 3; ++d)
      for (std::int64_t b = 0; b < at[d]; ++b) global[d] += size_of(b, d);
    return (global[0] * all(1) + global[1]) * all(2) + global[2];
  }
  T expected(const grid_place& at, const grid_place& cell) const {
    grid_place there = cell, block = at;
    int apart = 0;
    for (std::size_t d = 0; d < 3; ++d) {
      const std::int64_t n = size_of(at[d], d), step = cell[d] < 0 ? -1 : cell[d] >= n ? 1 : 0;
      if (step == 0) continue;
      ++apart;
      block[d] += step;
      if (block[d] < 0 || block[d] >= grid_[d]) {
        if (!shape_.periodic[d - (3 - N)]) return T{-1};
        block[d] = (block[d] + grid_[d]) % grid_[d];
      }
      there[d] = step < 0 ? cell[d] + size_of(block[d], d) : cell[d] - n;
    }
    return apart > static_cast<int>(shape_.sides) ? T{-1} : T(first(block, there));
  }
  template <class F> void for_each_block(const F& f) const {
    for (std::int64_t z = 0; z < grid_[0]; ++z)
      for (std::int64_t y = 0; y < grid_[1]; ++y)
        for (std::int64_t x = 0; x < grid_[2]; ++x) f(grid_place{z, y, x});
  }
  template <class F> void for_each_cell(const grid_place& at, std::int64_t around, const F& f) const {
    grid_place low{}, high{};
    for (std::size_t d = 0; d < 3; ++d) {
      const std::int64_t w = d < 3 - N ? 0 : around;
      low[d] = -w;
      high[d] = size_of(at[d], d) + w;
    }
    for (std::int64_t z = low[0]; z < high[0]; ++z)
      for (std::int64_t y = low[1]; y < high[1]; ++y)
        for (std::int64_t x = low[2]; x < high[2]; ++x) f(grid_place{z, y, x});
  }
  template <class View> auto& element(const View& v, const grid_place& c) const {
    const std::int64_t w = shape_.width;
    if constexpr (N == 1)
      return v(c[2] + w);
    else if constexpr (N == 2)
      return v(c[1] + w, c[2] + w);
    else
      return v(c[0] + w, c[1] + w, c[2] + w);
  }

  halo_shape<N> shape_;
  grid_place grid_{1, 1, 1};
  std::vector<halo<T, N>> halos_;
  std::vector<hetero_view<T, N>> fields_;
};

template <class T, int N> void check_halo(const halo_shape<N>& shape, bool parts) {
  std::string what =
      "width " + std::to_string(shape.width) + ", sides " + std::to_string(static_cast<int>(shape.sides));
  for (std::size_t d = 0; d < N; ++d)
    what += ", " + std::to_string(shape.cells[d]) + (shape.periodic[d] ? " cells around " : " cells in ") +
            std::to_string(shape.grid[d]) + " blocks";
  halo_grid<T, N> all(shape, parts);
  all.exchange();
  all.check(what);
}

class halos_on : public testing::TestWithParam<const char*> {
protected:
  void SetUp() override {
    kind_ = GetParam();
    if (kind_ == "cuda") driver_.emplace();
    if (kind_.starts_with("opencl") && !hetero::there_is_opencl()) GTEST_SKIP() << "no OpenCL device";
  }
  machine here() const {
    machine m{.devices = kind_ == "opencl_buffers" ? "opencl" : kind_, .cuda = kind_ == "cuda"};
    if (kind_ == "simulated") m.simulated = "2";
    if (kind_ == "opencl_buffers") m.opencl_memory = "buffers";
    return m;
  }
  bool on_host() const { return kind_ == "host"; }
  std::string kind_;
  std::optional<hetero::mock_cuda> driver_;
};
INSTANTIATE_TEST_SUITE_P(halo, halos_on, testing::Values("host", "simulated", "opencl", "opencl_buffers", "cuda"),
                         [](const auto& i) { return std::string(i.param); });

constexpr std::array halo_side_kinds{halo_sides::faces, halo_sides::edges, halo_sides::corners};

TEST_P(halos_on, of_a_line) {
  hetero::on(here(), [&] {
    for (std::int64_t width = 1; width <= 3; ++width)
      for (std::int64_t grid = 1; grid <= 3; ++grid)
        for (const bool periodic : {false, true}) {
          const halo_shape<1> s{.cells = {width + 2}, .grid = {grid}, .width = width, .periodic = {periodic}};
          check_halo<int, 1>(s, false);
          check_halo<double, 1>(s, true);
        }
  });
}

TEST_P(halos_on, of_a_plane) {
  hetero::on(here(), [&] {
    for (std::int64_t width = 1; width <= 3; ++width)
      for (const halo_sides sides : halo_side_kinds)
        for (int i = 0; i < 36; ++i) {
          if (!on_host() && (i + width) % 5 != 0) continue;
          const halo_shape<2> s{.cells = {width + i % 3, width + 3},
                                .grid = {1 + i / 4 % 3, 1 + i / 12},
                                .width = width,
                                .sides = sides,
                                .periodic = {i % 2 == 1, i % 4 >= 2}};
          check_halo<int, 2>(s, i % 3 == 0);
          if (i % 4 == 0) check_halo<float, 2>(s, i % 3 == 1);
        }
  });
}

TEST_P(halos_on, of_a_box) {
  hetero::on(here(), [&] {
    for (std::int64_t width = 1; width <= 3; ++width)
      for (const halo_sides sides : halo_side_kinds)
        for (int i = 0; i < 64; ++i) {
          if (i % (on_host() ? 5 : 21) != static_cast<int>(width)) continue;
          const halo_shape<3> s{.cells = {width + i % 3, width + 1, width + i % 2},
                                .grid = {1 + i % 2, 1 + i / 2 % 2, 1 + i / 4 % 2 * 2},
                                .width = width,
                                .sides = sides,
                                .periodic = {i / 8 % 2 == 1, i / 16 % 2 == 1, i / 32 % 2 == 1}};
          check_halo<double, 3>(s, i % 2 == 0);
          if (i % 3 == 0) check_halo<float, 3>(s, i % 2 == 1);
        }
  });
}

// Rows of more cells than a group has items, and more rows than a group has.
TEST_P(halos_on, of_large_blocks) {
  hetero::on(here(), [&] {
    check_halo<int, 2>({.cells = {300, 530}, .grid = {1, 2}, .width = 2, .periodic = {true, true}}, true);
    check_halo<float, 3>(
        {.cells = {20, 70, 33}, .grid = {1, 1, 1}, .sides = halo_sides::corners, .periodic = {true, true, true}}, true);
  });
}

TEST(halo, says_what_is_wrong) {
  hetero::on({}, [] {
    const auto one = [](const indices<2>&) { return mobile_ptr<halo_block>(mobile::object_id(0, 1)); };
    const auto none = [](const indices<2>&) { return mobile_ptr<halo_block>(); };
    const halo_shape<2> shape{.cells = {3, 4}, .grid = {1, 1}, .periodic = {true, false}};
    using testing::HasSubstr;
    EXPECT_THAT(
        hetero::text_of_error([&] { static_cast<void>(halo<int, 2>(shape, none)); }),
        HasSubstr("the halo of block (0, 0) of 1 x 1: there is no object for the neighbour at (0, 0), beyond side "
                  "(-1, 0)"));
    halo_shape<2> wide = shape;
    wide.width = 4;
    EXPECT_THAT(hetero::text_of_error([&] { static_cast<void>(halo<int, 2>(wide, one)); }),
                HasSubstr("is 4 wide, and the block has 3 cells in dimension 0"));
    halo<int, 2> h(shape, one);
    const hetero_object<int, 2> field({5, 6}, 1), other({5, 5}, 1);
    other.name("other");
    EXPECT_THAT(
        hetero::text_of_error([&] { static_cast<void>(h.pack(other)); }),
        AllOf(HasSubstr("other"), HasSubstr("has extents 5 x 5, and 3 x 4 cells with ghost layers have 5 x 6")));
    EXPECT_THAT(hetero::text_of_error([&] { h.unpack(0, field); }),
                HasSubstr("nothing has come from side (-1, 0), side (1, 0)"));
    const auto parts = h.pack(field);
    ASSERT_EQ(parts.size(), 2u);
    EXPECT_FALSE(h.arrived(0, parts[0].from, hetero_object<int>(4, 1)));
    EXPECT_THAT(hetero::text_of_error([&] { h.arrived(0, parts[0].from, hetero_object<int>(4, 1)); }),
                HasSubstr("cells of step 0 from side (1, 0) come twice"));
    EXPECT_THAT(hetero::text_of_error([&] { h.arrived(0, parts[1].from, hetero_object<int>()); }),
                HasSubstr("are no object in place of 4"));
    EXPECT_TRUE(h.arrived(0, parts[1].from, hetero_object<int>(4, 1)));
    EXPECT_THAT(hetero::text_of_error([&] { h.unpack(0, other); }), HasSubstr("has extents 5 x 5"));
    h.unpack(0, field);
    halo<int, 2> nothing;
    EXPECT_THAT(hetero::text_of_error([&] { static_cast<void>(nothing.pack(field)); }),
                HasSubstr("a halo of no block is used"));
    wait_all();
  });
}

// A block with no neighbours has nothing to wait for.
TEST(halo, of_a_block_alone) {
  hetero::on({}, [] {
    halo<float, 1> h({.cells = {5}, .grid = {1}}, [](const indices<1>&) { return mobile_ptr<halo_block>(); });
    const hetero_object<float> field(7, 2.0f);
    EXPECT_TRUE(h.pack(field).empty());
    for (std::int64_t k = 0; k < 3; ++k) {
      EXPECT_TRUE(h.complete(k));
      h.unpack(k, field);
    }
    EXPECT_EQ(h.step(), 3);
    EXPECT_EQ(h.sides(), 0);
  });
}

} // namespace
} // namespace tern::global
