// SPDX-License-Identifier: GPL-3.0-or-later
#include "apps/mesh/domain/input.hpp"

#include <tern/base/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#ifndef MESH_TEST_LAND
#error "define MESH_TEST_LAND as the path of data/land-50m.json"
#endif

namespace {

using mesh::read_land;
using tern::errc;
using testing::HasSubstr;

class input : public testing::Test {
protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& content) {
    std::string path = (folder_ / "land.json").string();
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  mesh::land_polygons read(const std::string& content, const std::string& object = {}) {
    return read_land(file(content), object);
  }
  /// The error that reading `content` throws.
  tern::error error_of(const std::string& content) { return error_of_path(file(content)); }
  static tern::error error_of_path(const std::string& path) {
    try {
      read_land(path);
    } catch (const tern::error& e) {
      EXPECT_THAT(e.message(), HasSubstr(path));
      EXPECT_FALSE(e.hint().empty());
      return e;
    }
    ADD_FAILURE() << "no error";
    return tern::error(errc::internal, "none");
  }

  std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("mesh_input_test_" + std::to_string(::getpid()));
};

double signed_area(const std::vector<std::array<double, 2>>& r) {
  double twice = 0;
  for (std::size_t i = 0; i < r.size(); ++i) {
    const auto &p = r[i], &q = r[(i + 1) % r.size()];
    twice += p[0] * q[1] - p[1] * q[0];
  }
  return twice / 2;
}

const std::string square = R"([[0,0],[4,0],[4,4],[0,4],[0,0]])";
const std::string hole = R"([[1,1],[3,1],[3,3],[1,3],[1,1]])";

TEST_F(input, geojson_in_every_wrapping) {
  const std::string polygon = R"({"type":"Polygon","coordinates":[)" + square + "]}";
  const std::string multi = R"({"type":"MultiPolygon","coordinates":[[)" + square + "],[" + hole + "]]}";
  EXPECT_EQ(read(polygon).rings.size(), 1U);
  EXPECT_EQ(read(multi).rings.size(), 2U);
  EXPECT_EQ(read(R"({"type":"Feature","properties":{},"geometry":)" + polygon + "}").rings.size(), 1U);
  EXPECT_EQ(read(R"({"type":"GeometryCollection","geometries":[)" + polygon + "," + multi + "]}").rings.size(), 3U);
  EXPECT_EQ(
      read(
          R"({"type":"FeatureCollection","features":[{"type":"Feature","geometry":)" + multi +
          R"(},{"type":"Feature","geometry":null},{"type":"Feature","geometry":{"type":"Point","coordinates":[1,1]}}]})")
          .rings.size(),
      2U);
}

TEST_F(input, rings_are_open_and_directed) {
  auto land = read(R"({"type":"Polygon","coordinates":[[[0,0],[0,4],[4,4],[4,4],[4,0],[0,0]],)" + hole + "]}");
  ASSERT_EQ(land.rings.size(), 2U);
  EXPECT_EQ(land.rings[0].size(), 4U);
  EXPECT_DOUBLE_EQ(signed_area(land.rings[0]), 16);
  EXPECT_DOUBLE_EQ(signed_area(land.rings[1]), -4);
}

TEST_F(input, degenerate_rings_are_counted_and_left_out) {
  auto land = read(R"({"type":"MultiPolygon","coordinates":[[)" + square +
                   R"(],[[[7,7],[8,8],[7,7]]],[[[5,5],[6,6],[7,7],[5,5]]]]})");
  EXPECT_EQ(land.rings.size(), 1U);
  EXPECT_EQ(land.skipped, 2U);
}

TEST_F(input, topojson_quantised_and_not) {
  auto plain = read(R"({"type":"Topology","arcs":[[[0,0],[4,0],[4,4]],[[0,0],[0,4],[4,4]]],
    "objects":{"a":{"type":"Polygon","arcs":[[0,-2]]}}})");
  ASSERT_EQ(plain.rings.size(), 1U);
  EXPECT_DOUBLE_EQ(signed_area(plain.rings[0]), 16);
  auto quantised = read(R"({"type":"Topology","transform":{"scale":[0.5,0.25],"translate":[10,20]},
    "arcs":[[[0,0],[8,0],[0,8],[-8,0],[0,-8]]],
    "objects":{"a":{"type":"GeometryCollection","geometries":[{"type":"MultiPolygon","arcs":[[[0]]]},{"type":null}]}}})");
  ASSERT_EQ(quantised.rings.size(), 1U);
  EXPECT_EQ(quantised.rings[0][2], (std::array<double, 2>{14, 22}));
}

TEST_F(input, topojson_object_is_chosen) {
  const std::string both = R"({"type":"Topology","arcs":[[[0,0],[4,0],[4,4],[0,0]]],"objects":{
    "land":{"type":"Polygon","arcs":[[0]]},"countries":{"type":"MultiPolygon","arcs":[[[0]],[[0]]]}}})";
  EXPECT_EQ(read(both).rings.size(), 1U);
  EXPECT_EQ(read(both, "countries").rings.size(), 2U);
  try {
    read(both, "lakes");
    FAIL();
  } catch (const tern::error& e) {
    EXPECT_EQ(e.code(), errc::not_found);
    EXPECT_THAT(e.hint(), HasSubstr("countries, land"));
  }
}

TEST_F(input, a_ring_over_the_meridian_is_at_both_ends) {
  auto land = read(R"({"type":"Polygon","coordinates":[[[178,0],[-179,0],[-179,2],[178,2],[178,0]]]})");
  ASSERT_EQ(land.rings.size(), 2U);
  for (const auto& ring : land.rings) EXPECT_NEAR(signed_area(ring), 6, 1e-9);
  EXPECT_NEAR(std::fabs(land.rings[0][0][0] - land.rings[1][0][0]), 360, 1e-12);
}

TEST_F(input, shipped_land) {
  auto land = read_land(MESH_TEST_LAND);
  EXPECT_GT(land.rings.size(), 1400U);
  EXPECT_THAT(land.source, HasSubstr("(land)"));
}

TEST_F(input, unreadable_files) {
  auto missing = error_of_path((folder_ / "none.json").string());
  EXPECT_EQ(missing.code(), errc::io);
  EXPECT_THAT(missing.message(), HasSubstr("No such file"));
  auto directory = error_of_path(folder_.string());
  EXPECT_EQ(directory.code(), errc::io);
  EXPECT_THAT(directory.message(), HasSubstr("Is a directory"));
}

TEST_F(input, not_json) {
  EXPECT_THAT(error_of("").message(), HasSubstr("is empty"));
  EXPECT_THAT(error_of(" \n\t").message(), HasSubstr("is empty"));
  auto cut = error_of(R"({"type":"Polygon","coordinates":[[[0,0],[4,)");
  EXPECT_EQ(cut.code(), errc::invalid_data);
  EXPECT_THAT(cut.message(), HasSubstr("line 1, column"));
  EXPECT_THAT(cut.message(), HasSubstr("unexpected end of input"));
  EXPECT_THAT(error_of("lon,lat\n1,2\n").message(), HasSubstr("not JSON"));
  EXPECT_THAT(error_of(R"({"type":"Polygon","coordinates":[[[1e999,0]]]})").message(), HasSubstr("not JSON"));
}

TEST_F(input, neither_format) {
  EXPECT_THAT(error_of("[1,2,3]").message(), HasSubstr("neither GeoJSON nor TopoJSON"));
  EXPECT_THAT(error_of(R"({"a":1})").message(), HasSubstr("neither GeoJSON nor TopoJSON"));
  EXPECT_THAT(error_of(R"({"type":"Recipe"})").message(), HasSubstr("'Recipe'"));
  EXPECT_THAT(error_of(R"({"type":"Topology"})").message(), HasSubstr("'arcs'"));
  EXPECT_THAT(error_of(R"({"type":"FeatureCollection"})").message(), HasSubstr("'features'"));
  EXPECT_THAT(error_of(R"({"type":"Polygon"})").message(), HasSubstr("'coordinates'"));
}

TEST_F(input, damaged_arcs) {
  auto with = [&](const std::string& index) {
    return error_of(
        R"({"type":"Topology","arcs":[[[0,0],[4,0],[4,4],[0,0]],[[9,9],[8,8]]],"objects":{"land":{"type":"Polygon","arcs":[[)" +
        index + "]]}}}");
  };
  EXPECT_THAT(with("2").message(), HasSubstr("arc 2 does not exist: the file has 2 arcs"));
  EXPECT_THAT(with("-3").message(), HasSubstr("arc -3 does not exist"));
  EXPECT_THAT(with("-9223372036854775808").message(), HasSubstr("does not exist"));
  EXPECT_THAT(with("18446744073709551615").message(), HasSubstr("does not exist"));
  EXPECT_THAT(with("0.5").message(), HasSubstr("an arc's index is 0.5"));
  EXPECT_THAT(with("0,1").message(), HasSubstr("does not begin where"));
}

TEST_F(input, bad_coordinates_name_the_polygon) {
  auto with = [&](const std::string& coordinate) {
    return error_of(R"({"type":"MultiPolygon","coordinates":[[)" + square + "],[[[0,0],[1,0]," + coordinate + "]]]}");
  };
  for (const char* bad :
       {"[1,\"x\"]", "[1,null]", "[1]", "7", "[181,0]", "[0,-90.1]", "[500000,4000000]", "[1e300,1]"}) {
    auto e = with(bad);
    EXPECT_EQ(e.code(), errc::invalid_data) << bad;
    EXPECT_THAT(e.message(), HasSubstr("polygon 1, ring 0")) << bad;
  }
  EXPECT_THAT(with("[500000,4000000]").hint(), HasSubstr("EPSG:4326"));
}

TEST_F(input, no_polygon) {
  EXPECT_THAT(error_of(R"({"type":"FeatureCollection","features":[]})").message(), HasSubstr("no land polygon"));
  EXPECT_THAT(error_of(R"({"type":"LineString","coordinates":[[0,0],[1,1]]})").message(), HasSubstr("no land polygon"));
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += R"({"type":"GeometryCollection","geometries":[)";
  for (int i = 0; i < 100000; ++i) deep += "]}";
  EXPECT_THAT(error_of(deep).message(), HasSubstr("64 deep"));
}

} // namespace
