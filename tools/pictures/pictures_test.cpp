// SPDX-License-Identifier: Apache-2.0
/// \file
/// That what is drawn is what was given: pixels of finished pictures.
#include "tools/pictures/pictures.hpp"
#include "tools/pictures/size_picture.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>

#include <cairo.h>
#include <gtest/gtest.h>

#include "tools/pictures/canvas.hpp"

namespace {

using namespace tern::pictures;

constexpr std::uint32_t blue = 0x0073b3, vermillion = 0xd65e00, idle = 0xe0e3e8;

bool close_to(std::uint32_t a, std::uint32_t b) {
  for (int shift = 0; shift < 24; shift += 8)
    if (std::abs(static_cast<int>(a >> shift & 255) - static_cast<int>(b >> shift & 255)) > 3) return false;
  return true;
}

class image {
public:
  explicit image(const std::string& path) : surface_(cairo_image_surface_create_from_png(path.c_str())) {
    EXPECT_EQ(cairo_surface_status(surface_.get()), CAIRO_STATUS_SUCCESS) << path;
  }
  int width() const { return cairo_image_surface_get_width(surface_.get()); }
  int height() const { return cairo_image_surface_get_height(surface_.get()); }
  std::uint32_t at(int x, int y) const {
    const auto* row = cairo_image_surface_get_data(surface_.get()) +
                      static_cast<std::ptrdiff_t>(y) * cairo_image_surface_get_stride(surface_.get());
    return reinterpret_cast<const std::uint32_t*>(row)[x] & 0xffffff;
  }
  /// How many pixels of the column have this colour.
  int in_column(int x, std::uint32_t of, int from, int to) const {
    int n = 0;
    for (int y = from; y < to; ++y) n += close_to(at(x, y), of);
    return n;
  }
  std::set<std::uint32_t> colours() const {
    std::set<std::uint32_t> all;
    for (int y = 0; y < height(); ++y)
      for (int x = 0; x < width(); ++x) all.insert(at(x, y));
    return all;
  }

private:
  struct release {
    void operator()(cairo_surface_t* s) const { cairo_surface_destroy(s); }
  };
  std::unique_ptr<cairo_surface_t, release> surface_;
};

class pictures : public testing::Test {
protected:
  pictures() {
    std::string name = (std::filesystem::temp_directory_path() / "tern-pictures-XXXXXX").string();
    if (!mkdtemp(name.data())) std::abort();
    folder_ = name;
  }
  ~pictures() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  template <class Picture> image drawn(const Picture& p) {
    const std::string path = folder_ / "p.png";
    draw(p, path);
    image made(path);
    EXPECT_EQ(made.width(), 1600);
    EXPECT_EQ(made.height(), 1000);
    return made;
  }
  std::filesystem::path folder_;
};

// The axes of panels: from x = 130 to 1390; the first begins at y = 176, the second ends at y =
// 916.
constexpr int left = 130, wide = 1260;

} // namespace

TEST_F(pictures, bars_are_as_high_as_workers_are_busy) {
  busy_picture p{"title", "more", {{"before", {100, 50, 0, 25}, 100}, {"after", {45, 45, 40, 45}, 50}}, 2, 43};
  const image made = drawn(p);
  const auto middle = [](int worker) { return left + wide * (2 * worker + 1) / 8; };
  const int full = made.in_column(middle(0), vermillion, 176, 520);
  EXPECT_GT(full, 280);
  EXPECT_NEAR(made.in_column(middle(1), vermillion, 176, 520), full / 2, 8); // lines cross the bars
  EXPECT_EQ(made.in_column(middle(2), vermillion, 176, 520), 0);
  EXPECT_NEAR(made.in_column(middle(3), vermillion, 176, 520), full / 4, 8);
  EXPECT_NEAR(made.in_column(middle(2), idle, 176, 520), full, 8);
  EXPECT_NEAR(made.in_column(middle(3), idle, 176, 520), full * 3 / 4, 12);
  // The same scale below, in the other colour.
  EXPECT_NEAR(made.in_column(middle(0), blue, 560, 917), full * 0.45, 8);
  EXPECT_NEAR(made.in_column(middle(2), blue, 560, 917), full * 0.40, 8);
  EXPECT_EQ(made.in_column(middle(0), vermillion, 560, 917), 0);
}

TEST_F(pictures, more_workers_than_pixels_become_a_profile) {
  busy_picture p{"title", "", {{"all", {}, 100}}, 100, 0};
  for (int i = 0; i < 126'000; ++i) p.panels[0].busy.push_back(i < 63'000 ? (i % 2 ? 100 : 60) : 20);
  const image made = drawn(p);
  const int low = made.in_column(left + 3 * wide / 4, blue, 176, 917);
  EXPECT_NEAR(made.in_column(left + wide / 4, blue, 176, 917), 3 * low, 12) << "as far as the least is busy";
  const std::uint32_t tint = 0x8cc0dd; // between the least and the most
  EXPECT_NEAR(made.in_column(left + wide / 4, tint, 176, 917), 2 * low, 12);
  EXPECT_EQ(made.in_column(left + 3 * wide / 4, tint, 176, 917), 0);
  EXPECT_NEAR(made.in_column(left + 3 * wide / 4, idle, 176, 917), 4 * low, 12);
}

TEST_F(pictures, each_run_has_its_line) {
  course_picture p{"title", "more", {}, 10};
  for (const double level : {1.2, 1.5, 2.0})
    p.courses.push_back({"run", 100, {{0, level, 0}, {50, level, 10}, {100, level, 20}}});
  const image made = drawn(p);
  const auto colours = made.colours();
  for (const std::uint32_t hue : {blue, vermillion, 0x009e73u})
    EXPECT_TRUE(std::any_of(colours.begin(), colours.end(), [&](std::uint32_t c) { return close_to(c, hue); })) << hue;
  // Imbalance 2 is above 1.5, which is above 1.2, in the upper panel.
  const auto height_of = [&](std::uint32_t hue) {
    for (int y = 156; y < 500; ++y)
      if (close_to(made.at(400, y), hue)) return y;
    return -1;
  };
  EXPECT_GT(height_of(0x009e73), 0);
  EXPECT_GT(height_of(vermillion), height_of(0x009e73));
  EXPECT_GT(height_of(blue), height_of(vermillion));
}

// Ten times as long at ten times the size: as far up as across, measured in decades.
TEST_F(pictures, times_stand_over_sizes) {
  size_picture p{"title", "more", {}};
  p.series.push_back({"slow", {{1e6, 1e-3, 1e-4}, {1e3, 1e-6, 0}, {1e9, 1, 0}}});
  p.series.push_back({"quick", {{1e3, 1e-7, 0}, {1e9, 1e-1, 0}}});
  const image made = drawn(p);
  const auto first_in_column = [&](int x, std::uint32_t hue) {
    for (int y = 130; y < 916; ++y)
      if (close_to(made.at(x, y), hue)) return y;
    return -1;
  };
  for (const int x : {300, 550, 1000}) {
    EXPECT_GT(first_in_column(x, blue), 0) << x;
    EXPECT_GT(first_in_column(x, vermillion), first_in_column(x, blue)) << x << ": ten times as quick is below";
  }
  EXPECT_LT(first_in_column(1000, blue), first_in_column(550, blue));
}

TEST_F(pictures, nothing_is_too_odd_to_be_drawn) {
  drawn(busy_picture{"", "", {{"", {}, 0}}, 1, 0});
  drawn(busy_picture{"", "", {{"", {0}, 0}, {"", {0, 0}, 0}}, 7, 0});
  drawn(busy_picture{std::string(500, 'W'), std::string(500, 'W'), {{std::string(300, 'W'), {1e-9}, 2e-9}}, 1, 3e-9});
  drawn(busy_picture{"", "", {{"", std::vector<double>(1'000'000, 4e9), 4e9}, {"", {1, 2}, 2}}, 64, 1e-3});
  drawn(busy_picture{"", "", {{"", std::vector<double>(1261, 1), 1}, {"", {1, 2}, 2}}, 1, 1});
  drawn(course_picture{"", "", {{"", 0, {}}}, 0});
  drawn(course_picture{"", "", {{"no moments", 5, {}}, {"one", 5, {{5, 0, 7}}}}, 100});
  course_picture many{"", "", {}, 0};
  for (int i = 0; i < 30; ++i)
    many.courses.push_back({std::string(100, 'x') + "ü", 1e-7, {{0, 1e9, 0}, {1e-7, 1, ~std::uint64_t{0}}}});
  drawn(many);
  drawn(size_picture{});
  drawn(size_picture{"", "", {{"none", {}}, {"one", {{1, 1e-9, 5}}}}});
  size_picture crowd{std::string(500, 'W'), "", {}};
  for (int i = 0; i < 60; ++i) crowd.series.push_back({std::string(100, 'x'), {{1e15, 1e6, 1e9}, {1, 1e-9, 0}}});
  drawn(crowd);
}

TEST_F(pictures, a_place_that_cannot_be_written_is_named) {
  const std::string path = folder_ / "no/p.png";
  try {
    draw(busy_picture{"", "", {{"", {1}, 1}}, 1, 0}, path);
    FAIL() << "no error";
  } catch (const std::runtime_error& e) {
    EXPECT_EQ(std::string(e.what()).find("cannot write " + path + ": "), 0u) << e.what();
  }
}
