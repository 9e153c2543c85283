// SPDX-License-Identifier: GPL-3.0-or-later
#include "apps/mesh/domain/input.hpp"

#include <tern/base/error.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>

namespace mesh {
namespace {

using json = nlohmann::json;
using position = std::array<double, 2>;
using ring = std::vector<position>;
using tern::errc;
using tern::error;

constexpr int deepest_collection = 64;
constexpr const char* wanted_formats = "give land polygons as GeoJSON or TopoJSON, longitude and latitude in degrees "
                                       "(for example apps/mesh/data/land-50m.json)";

std::string read_file(const std::string& path) {
  auto refuse = [&](const char* what, int number) -> error {
    return error(errc::io, std::string(what) + " the land file " + path + ": " + std::strerror(number),
                 "check the path and its permissions");
  };
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) throw refuse("cannot open", errno);
  std::string content;
  std::vector<char> block(std::size_t{1} << 18);
  while (std::size_t n = std::fread(block.data(), 1, block.size(), file.get())) content.append(block.data(), n);
  if (std::ferror(file.get())) throw refuse("cannot read", errno);
  return content;
}

/// Where in the file we are, for messages.
struct place {
  std::string path, object;
  std::size_t feature = 0; ///< of a FeatureCollection or GeometryCollection; counted from 0
  std::size_t polygon = 0; ///< in the whole file; counted from 0
  std::size_t ring = 0;
  std::string text() const {
    return "polygon " + std::to_string(polygon) + (object.empty() ? "" : " of object '" + object + "'") + ", ring " +
           std::to_string(ring) + ", in feature " + std::to_string(feature) + " of " + path;
  }
};

[[noreturn]] void refuse(const place& at, const std::string& what, const std::string& hint) {
  throw error(errc::invalid_data, at.text() + ": " + what, hint.empty() ? wanted_formats : hint);
}

double number(const json& value, const place& at) {
  if (!value.is_number()) refuse(at, "a coordinate is " + value.dump().substr(0, 40) + ", not a number", {});
  return value.get<double>();
}

position checked(double longitude, double latitude, const place& at) {
  // Dequantised coordinates of the outermost cells come out a rounding error beyond the limit or
  // short of it.
  auto settle = [](double value, double limit) {
    return std::fabs(std::fabs(value) - limit) < 1e-9 ? std::copysign(limit, value) : value;
  };
  longitude = settle(longitude, 180);
  latitude = settle(latitude, 90);
  if (!(std::fabs(longitude) <= 180) || !(std::fabs(latitude) <= 90))
    refuse(at, "(" + text(longitude) + ", " + text(latitude) + ") is no longitude and latitude",
           "coordinates must be degrees, longitude in [-180, 180] and latitude in [-90, 90] (EPSG:4326); reproject the "
           "file with ogr2ogr -t_srs EPSG:4326");
  // In steps of 2^-40 degrees (0.1 micrometres) a full turn is added and taken away without
  // rounding, so that copies of a point on either end of the map agree.
  constexpr double steps = 1099511627776.0;
  return {std::round(longitude * steps) / steps, latitude};
}

double signed_area(const ring& points) {
  double twice = 0;
  const position& o = points.front();
  for (std::size_t i = 1; i + 1 < points.size(); ++i)
    twice += (points[i][0] - o[0]) * (points[i + 1][1] - o[1]) - (points[i][1] - o[1]) * (points[i + 1][0] - o[0]);
  return twice / 2;
}

void remove_repeats(ring& points) {
  points.erase(std::unique(points.begin(), points.end()), points.end());
  while (points.size() > 1 && points.front() == points.back()) points.pop_back();
}

bool bounds_area(const ring& points) {
  if (points.size() < 3) return false;
  double low[2] = {1e300, 1e300}, high[2] = {-1e300, -1e300};
  for (const auto& p : points)
    for (int k = 0; k < 2; ++k) {
      low[k] = std::min(low[k], p[k]);
      high[k] = std::max(high[k], p[k]);
    }
  double extent = std::max(high[0] - low[0], high[1] - low[1]);
  // Not the signed area: it may be zero for a ring that crosses itself. The search for crossings
  // must see that ring and report it.
  double twice = 0;
  const position& o = points.front();
  for (std::size_t i = 1; i + 1 < points.size(); ++i)
    twice += std::fabs((points[i][0] - o[0]) * (points[i + 1][1] - o[1]) -
                       (points[i][1] - o[1]) * (points[i + 1][0] - o[0]));
  return twice > 2e-14 * extent * extent; // on a line: as good as two points
}

/// Makes a ring continuous that crosses the 180 degree meridian: one with a step of more than 180
/// degrees between two points. Its longitudes then go beyond 180 degrees. A ring around a pole is
/// closed along the pole.
/// \return whether the ring crosses the meridian and, made continuous, bounds an area.
bool unwrap(const ring& points, ring& result) {
  result.clear();
  if (points.size() < 3) return false;
  int turns = 0;
  auto step = [&](const position& from, const position& to) {
    if (from[0] - to[0] > 180) ++turns;
    if (to[0] - from[0] > 180) --turns;
  };
  bool jumps = false;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (i > 0) step(points[i - 1], points[i]);
    jumps |= turns != 0;
    result.push_back({points[i][0] + 360.0 * turns, points[i][1]});
  }
  step(points.back(), points.front());
  if (!jumps && turns == 0) return false;
  if (turns != 0) {
    double latitudes = 0;
    for (const auto& p : points) latitudes += p[1];
    double pole = latitudes < 0 ? -90 : 90, first = points.front()[0], last = first + 360.0 * turns;
    result.insert(result.end(), {{last, points.front()[1]}, {last, pole}, {first, pole}});
  }
  remove_repeats(result);
  return bounds_area(result);
}

class reader {
public:
  reader(land_polygons& out, place at) : out_(out), at_(std::move(at)) {}

  void topology(const json& root, const std::string& wanted) {
    auto arcs = root.find("arcs");
    auto objects = root.find("objects");
    if (arcs == root.end() || !arcs->is_array() || objects == root.end() || !objects->is_object())
      throw error(errc::invalid_data, at_.path + " says it is TopoJSON but has no list 'arcs' or no 'objects'",
                  wanted_formats);
    arcs_ = &*arcs;
    read_transform(root);
    decoded_.assign(arcs_->size(), {});
    std::string names;
    for (const auto& entry : objects->items()) names += (names.empty() ? "" : ", ") + entry.key();
    std::string only = wanted.empty() && objects->contains("land") ? "land" : wanted;
    if (!only.empty() && !objects->contains(only))
      throw error(errc::not_found, at_.path + " has no object '" + only + "'", "it has: " + names);
    if (!only.empty()) out_.source += " (" + only + ")";
    for (const auto& entry : objects->items())
      if (only.empty() || entry.key() == only) {
        at_.object = entry.key();
        at_.feature = 0;
        geometry(entry.value(), 0);
      }
  }

  /// Any GeoJSON object, or a TopoJSON geometry once `topology` has set the arcs.
  void geometry(const json& value, int depth) {
    if (value.is_null()) return; // a feature without a place is allowed
    if (depth > deepest_collection)
      throw error(errc::invalid_data, at_.path + " nests collections more than 64 deep", wanted_formats);
    auto type = value.is_object() ? value.find("type") : value.end();
    if (!value.is_object() || type == value.end() || !(type->is_string() || type->is_null()))
      throw error(errc::invalid_data,
                  at_.path + ": feature " + std::to_string(at_.feature) + " is no geometry: it has no 'type'",
                  wanted_formats);
    if (type->is_null()) return;
    const std::string name = *type;
    if (name == "FeatureCollection") return each(value, "features", depth);
    if (name == "GeometryCollection") return each(value, "geometries", depth);
    if (name == "Feature") {
      auto inner = value.find("geometry");
      if (inner != value.end()) geometry(*inner, depth + 1);
      return;
    }
    if (name != "Polygon" && name != "MultiPolygon") return; // points and lines bound no land
    const char* key = arcs_ ? "arcs" : "coordinates";
    const json& list = member_list(value, key);
    if (name == "Polygon") return polygon(list);
    for (const auto& one : list) polygon(one);
  }

private:
  void read_transform(const json& root) {
    auto transform = root.find("transform");
    if (transform == root.end() || transform->is_null()) return;
    quantised_ = true;
    for (auto [key, target] : {std::pair{"scale", &scale_}, std::pair{"translate", &translate_}}) {
      const json pair = transform->is_object() ? transform->value(key, json()) : json();
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number() || !pair[1].is_number())
        throw error(errc::invalid_data, at_.path + ": the transform's '" + key + "' is not two numbers",
                    wanted_formats);
      *target = {pair[0].get<double>(), pair[1].get<double>()};
    }
  }

  const json& member_list(const json& value, const char* key) {
    auto list = value.find(key);
    if (list == value.end() || !list->is_array())
      throw error(errc::invalid_data,
                  at_.path + ": feature " + std::to_string(at_.feature) + " has no list '" + key + "'", wanted_formats);
    return *list;
  }

  void each(const json& value, const char* key, int depth) {
    const json& list = member_list(value, key);
    std::size_t index = 0;
    for (const auto& one : list) {
      if (depth == 0) at_.feature = index++;
      geometry(one, depth + 1);
    }
  }

  void polygon(const json& rings) {
    at_.ring = 0;
    if (!rings.is_array()) refuse(at_, "its rings are not a list", {});
    bool outer_left_out = false;
    for (const auto& one : rings) {
      ring points = arcs_ ? joined(one) : listed(one);
      remove_repeats(points);
      if (outer_left_out || !keep(std::move(points), at_.ring == 0)) {
        ++out_.skipped;
        outer_left_out |= at_.ring == 0;
      }
      ++at_.ring;
    }
    ++at_.polygon;
  }

  /// Adds a ring in the right direction, and where it steps over the 180 degree meridian a copy at
  /// each end of the map.
  /// \return whether it is a proper ring.
  bool keep(ring points, bool outer) {
    ring continuous;
    bool steps_over = unwrap(points, continuous);
    if (steps_over) points.swap(continuous);
    if (!steps_over && !bounds_area(points)) return false;
    if ((signed_area(points) > 0) != outer) std::reverse(points.begin(), points.end());
    if (!steps_over) {
      out_.rings.push_back(std::move(points));
      return true;
    }
    auto [low, high] = std::minmax_element(points.begin(), points.end());
    for (int turns = -2; turns <= 2; ++turns) {
      if ((*high)[0] + 360.0 * turns <= -180 || (*low)[0] + 360.0 * turns >= 180) continue;
      ring copy = points;
      for (auto& p : copy) p[0] += 360.0 * turns;
      out_.rings.push_back(std::move(copy));
    }
    return true;
  }

  position point_of(const json& value) {
    if (!value.is_array() || value.size() < 2) refuse(at_, "a point is not a list of two coordinates", {});
    return {number(value[0], at_), number(value[1], at_)};
  }

  ring listed(const json& list) {
    if (!list.is_array()) refuse(at_, "the ring is not a list of points", {});
    ring points;
    points.reserve(list.size());
    for (const auto& value : list) {
      position p = point_of(value);
      points.push_back(checked(p[0], p[1], at_));
    }
    return points;
  }

  const ring& arc(std::size_t index) {
    ring& points = decoded_[index];
    const json& list = (*arcs_)[index];
    if (!points.empty()) return points;
    if (!list.is_array()) refuse(at_, "arc " + std::to_string(index) + " is not a list of points", {});
    points.reserve(list.size());
    double x = 0, y = 0;
    for (const auto& value : list) {
      position p = point_of(value);
      if (quantised_) {
        x += p[0];
        y += p[1];
        p = {x * scale_[0] + translate_[0], y * scale_[1] + translate_[1]};
      }
      points.push_back(checked(p[0], p[1], at_));
    }
    return points;
  }

  ring joined(const json& list) {
    if (!list.is_array()) refuse(at_, "the ring is not a list of arcs", {});
    ring points;
    for (const auto& value : list) {
      if (!value.is_number_integer()) refuse(at_, "an arc's index is " + value.dump().substr(0, 40), {});
      // A negative index ~i means arc i backwards. An unsigned beyond int64 comes out negative:
      // refuse it by its type.
      auto index = value.get<std::int64_t>();
      bool wrapped = value.is_number_unsigned() && index < 0;
      auto which = static_cast<std::uint64_t>(index < 0 ? ~index : index);
      if (wrapped || which >= decoded_.size())
        refuse(at_,
               "arc " + value.dump() + " does not exist: the file has " + std::to_string(decoded_.size()) + " arcs",
               "the file is damaged; fetch it again");
      ring piece = arc(which);
      if (index < 0) std::reverse(piece.begin(), piece.end());
      if (piece.empty()) continue;
      if (!points.empty() && points.back() != piece.front())
        refuse(at_, "arc " + value.dump() + " does not begin where the arc before it ends",
               "the file is damaged; fetch it again");
      points.insert(points.end(), piece.begin() + (points.empty() ? 0 : 1), piece.end());
    }
    return points;
  }

  land_polygons& out_;
  place at_;
  const json* arcs_ = nullptr;
  bool quantised_ = false;
  position scale_ = {1, 1}, translate_ = {0, 0};
  std::vector<ring> decoded_;
};

json parse(const std::string& content, const std::string& path) {
  try {
    return json::parse(content);
  } catch (const json::exception& e) {
    std::string what = e.what(); // "[json.exception.parse_error.101] parse error at line 1, column 7: …"
    if (auto end = what.find("] "); what.starts_with("[json.") && end != std::string::npos) what.erase(0, end + 2);
    throw error(errc::invalid_data,
                path + " is not JSON or was cut short (" + std::to_string(content.size()) +
                    " bytes): " + what.substr(0, 300),
                wanted_formats);
  }
}

} // namespace

land_polygons read_land(const std::string& path, const std::string& object) {
  const std::string content = read_file(path);
  if (content.find_first_not_of(" \t\r\n") == std::string::npos)
    throw error(errc::invalid_data, path + " is empty", wanted_formats);
  const json root = parse(content, path);
  auto type = root.is_object() ? root.find("type") : root.end();
  if (!root.is_object() || type == root.end() || !type->is_string())
    throw error(errc::invalid_data, path + " is JSON but neither GeoJSON nor TopoJSON: it has no 'type'",
                wanted_formats);
  land_polygons land;
  land.source = path;
  place at;
  at.path = path;
  const std::string name = *type;
  constexpr std::array known = {"FeatureCollection", "Feature",      "GeometryCollection",
                                "Polygon",           "MultiPolygon", "Point",
                                "MultiPoint",        "LineString",   "MultiLineString"};
  if (name == "Topology")
    reader(land, at).topology(root, object);
  else if (std::find(known.begin(), known.end(), name) == known.end())
    throw error(errc::invalid_data,
                path + " is JSON of type '" + name.substr(0, 40) + "', neither GeoJSON nor TopoJSON", wanted_formats);
  else
    reader(land, at).geometry(root, 0);
  if (land.rings.empty())
    throw error(
        errc::invalid_data,
        land.source + " has no land polygon" +
            (land.skipped ? "; " + std::to_string(land.skipped) + " rings have fewer than three distinct points" : ""),
        wanted_formats);
  return land;
}

} // namespace mesh
