// SPDX-License-Identifier: GPL-3.0-or-later
#include "apps/mesh/output/picture.hpp"
#include "apps/mesh/output/vtu.hpp"

#include "apps/mesh/domain/domain.hpp"
#include <tern/base/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <unistd.h>

namespace {

using mesh::gathered_mesh;
using tern::errc;
using testing::HasSubstr;

/// The sea around a square island in the middle of `box`, in 40 x 40 squares of two triangles.
struct sample {
  mesh::domain sea;
  gathered_mesh triangles;
  explicit sample(const mesh::bounding_box& box, std::uint16_t ranks = 3) {
    auto x = [&](double share) { return box.west + share * (box.east - box.west); };
    auto y = [&](double share) { return box.south + share * (box.north - box.south); };
    sea = mesh::make_domain(
        {{{{x(0.25), y(0.25)}, {x(0.75), y(0.25)}, {x(0.75), y(0.75)}, {x(0.25), y(0.75)}}}, "test"}, box);
    constexpr std::uint32_t n = 40;
    for (std::uint32_t j = 0; j <= n; ++j)
      for (std::uint32_t i = 0; i <= n; ++i)
        triangles.points.push_back(
            {sea.low.x + (sea.high.x - sea.low.x) * i / n, sea.low.y + (sea.high.y - sea.low.y) * j / n});
    for (std::uint32_t j = 0; j < n; ++j)
      for (std::uint32_t i = 0; i < n; ++i) {
        if (i >= n / 4 && i < 3 * n / 4 && j >= n / 4 && j < 3 * n / 4) continue;
        std::uint32_t k = j * (n + 1) + i;
        for (const auto& t : {std::array{k, k + 1, k + n + 2}, std::array{k, k + n + 2, k + n + 1}}) {
          triangles.triangles.push_back(t);
          triangles.rank.push_back(static_cast<std::uint16_t>(j * ranks / n));
          triangles.group.push_back(j / 4);
        }
      }
  }
};

class output : public testing::Test {
protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  static std::string content(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  template <class F> static tern::error error_of(F&& write) {
    try {
      write();
    } catch (const tern::error& e) {
      return e;
    }
    ADD_FAILURE() << "no error";
    return tern::error(errc::internal, "none");
  }
  /// {width, height}, after a look at the signature and the end.
  static std::pair<unsigned, unsigned> png_size(const std::string& path) {
    std::string png = content(path);
    EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
    EXPECT_EQ(png.substr(png.size() - 8, 4), "IEND");
    auto number = [&](std::size_t at) {
      unsigned value = 0;
      for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(png[at + i]);
      return value;
    };
    return {number(16), number(20)};
  }

  std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("mesh_output_test_" + std::to_string(::getpid()));
};

/// The values of an appended array of a .vtu, found by its name.
template <class T> std::vector<T> appended(const std::string& vtu, const std::string& name, const std::string& type) {
  auto at = vtu.find("type=\"" + type + "\" Name=\"" + name + "\"");
  EXPECT_NE(at, std::string::npos) << name;
  auto offset = std::stoull(vtu.substr(vtu.find("offset=\"", at) + 8));
  auto start = vtu.find("encoding=\"raw\">\n_") + std::strlen("encoding=\"raw\">\n_") + offset;
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, vtu.data() + start, sizeof bytes);
  EXPECT_LE(start + 8 + bytes, vtu.size());
  std::vector<T> values(bytes / sizeof(T));
  std::memcpy(values.data(), vtu.data() + start + 8, values.size() * sizeof(T));
  return values;
}

TEST_F(output, vtu_reads_back) {
  sample s({0, 0, 2, 2});
  write_vtu(path("m.vtu"), s.triangles, s.sea);
  const std::string vtu = content(path("m.vtu"));
  const std::size_t cells = s.triangles.triangles.size();
  EXPECT_THAT(vtu.substr(0, 2000), HasSubstr("NumberOfCells=\"" + std::to_string(cells) + "\""));
  EXPECT_TRUE(vtu.ends_with("</AppendedData>\n</VTKFile>\n"));

  auto points = appended<double>(vtu, "points", "Float64");
  ASSERT_EQ(points.size(), 3 * s.triangles.points.size());
  for (std::size_t i = 0; i < s.triangles.points.size(); ++i) {
    EXPECT_EQ(points[3 * i], s.triangles.points[i].x);
    EXPECT_EQ(points[3 * i + 1], s.triangles.points[i].y);
    EXPECT_EQ(points[3 * i + 2], 0);
  }
  auto connectivity = appended<std::int32_t>(vtu, "connectivity", "Int32");
  ASSERT_EQ(connectivity.size(), 3 * cells);
  EXPECT_EQ(0, std::memcmp(connectivity.data(), s.triangles.triangles.data(), 12 * cells));
  auto offsets = appended<std::int64_t>(vtu, "offsets", "Int64");
  ASSERT_EQ(offsets.size(), cells);
  for (std::size_t i = 0; i < cells; ++i) EXPECT_EQ(offsets[i], static_cast<std::int64_t>(3 * i + 3));
  EXPECT_EQ(appended<std::uint8_t>(vtu, "types", "UInt8"), std::vector<std::uint8_t>(cells, 5));
  EXPECT_EQ(appended<std::uint16_t>(vtu, "rank", "UInt16"), s.triangles.rank);
  EXPECT_EQ(appended<std::uint32_t>(vtu, "group", "UInt32"), s.triangles.group);
  const double dx = (s.sea.high.x - s.sea.low.x) / 40, dy = (s.sea.high.y - s.sea.low.y) / 40;
  for (float size : appended<float>(vtu, "size", "Float32")) EXPECT_NEAR(size, std::hypot(dx, dy), 1e-5);
  for (float angle : appended<float>(vtu, "angle", "Float32"))
    EXPECT_NEAR(angle, std::atan(std::min(dx / dy, dy / dx)) * 57.29577951308232, 1e-4);
}

TEST_F(output, pictures_of_any_shape) {
  const mesh::bounding_box boxes[] = {{0, 0, 10, 8}, {0, 0, 40, 5}, {0, 0, 2, 30}, {20, 35, 20.001, 35.001}};
  for (const auto& box : boxes)
    for (auto colour : {mesh::colour_by::rank, mesh::colour_by::size}) {
      sample s(box, 40);
      mesh::picture_style style;
      style.colour = colour;
      style.width = 700;
      write_picture(path("m.png"), s.triangles, s.sea, style);
      auto [width, height] = png_size(path("m.png"));
      EXPECT_GE(width, 180U);
      EXPECT_LE(width, 700U);
      EXPECT_LE(height, 700U);
    }
}

TEST_F(output, picture_options) {
  sample s({0, 0, 10, 8});
  mesh::picture_style style;
  style.inset_degrees = mesh::point{100, 100}; // outside: moved to the nearest place inside
  style.inset_km = 1e9;
  style.title = "A title";
  write_picture(path("a.png"), s.triangles, s.sea, style);
  EXPECT_EQ(png_size(path("a.png")).first, 2000U);
  style.inset = false;
  style.subtitle = std::string(400, 'w');
  write_picture(path("b.png"), s.triangles, s.sea, style);
  EXPECT_GT(content(path("b.png")).size(), 1000U);
}

TEST_F(output, empty_and_odd_meshes) {
  sample s({0, 0, 10, 8});
  gathered_mesh none;
  write_vtu(path("n.vtu"), none, s.sea);
  write_picture(path("n.png"), none, s.sea);
  gathered_mesh bad = s.triangles;
  bad.rank.pop_back();
  EXPECT_EQ(error_of([&] { write_vtu(path("x.vtu"), bad, s.sea); }).code(), errc::invalid_argument);
  bad = s.triangles;
  bad.triangles[5][1] = 1U << 30;
  EXPECT_THAT(error_of([&] { write_picture(path("x.png"), bad, s.sea); }).message(), HasSubstr("1073741824"));
}

TEST_F(output, unwritable_places) {
  sample s({0, 0, 10, 8});
  const std::string nowhere = path("none/m.vtu");
  auto missing = error_of([&] { write_vtu(nowhere, s.triangles, s.sea); });
  EXPECT_EQ(missing.code(), errc::io);
  EXPECT_THAT(missing.message(), HasSubstr("cannot create " + nowhere + ": No such file or directory"));
  auto directory = error_of([&] { write_picture(folder_.string(), s.triangles, s.sea); });
  EXPECT_THAT(directory.message(), HasSubstr("Is a directory"));
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  auto full = error_of([&] { write_vtu("/dev/full", s.triangles, s.sea); });
  EXPECT_EQ(full.code(), errc::io);
  EXPECT_THAT(full.message(), HasSubstr("/dev/full: No space left on device"));
  EXPECT_THAT(error_of([&] { write_picture("/dev/full", s.triangles, s.sea); }).message(), HasSubstr("No space left"));
}

} // namespace
