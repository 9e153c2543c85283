// SPDX-License-Identifier: Apache-2.0
#include "apps/nbody/bodies/csv.hpp"

#include "apps/common/output_file.hpp"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include <tern/base/error.hpp>

namespace nbody {
namespace {

constexpr const char* columns = "mass,x,y,z,vx,vy,vz";

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

class reader {
public:
  explicit reader(std::string path) : path_(std::move(path)) {}

  void line(std::string_view text) {
    ++number_;
    text = trimmed(text);
    if (text.empty() || text.front() == '#') return;
    if (all.empty() && !named_ && text.substr(0, 4) == "mass") {
      named_ = true;
      return;
    }
    double value[8] = {};
    std::size_t n = 0;
    for (std::string_view rest = text;; ++n) {
      const auto comma = rest.find(',');
      const auto word = trimmed(rest.substr(0, comma));
      if (n < 8) value[n] = number(word);
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
    ++n;
    if (n != 7 && n != 8) refuse("it has " + std::to_string(n) + " columns");
    if (!(value[0] > 0)) refuse(fmt::format("the mass is {}, which is not positive", value[0]));
    if (value[7] < 0 || value[7] > 255 || value[7] != std::floor(value[7]))
      refuse(fmt::format("the label is {}, which is no whole number from 0 to 255", value[7]));
    all.push(static_cast<std::uint32_t>(all.size()), static_cast<std::uint8_t>(value[7]), value[0],
             {value[1], value[2], value[3]}, {value[4], value[5], value[6]});
  }

  bodies all;

private:
  double number(std::string_view word) const {
    double value = 0;
    const auto [end, failed] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (failed != std::errc() || end != word.data() + word.size() || !std::isfinite(value))
      refuse("'" + std::string(word) + "' is no finite number");
    return value;
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw tern::error(tern::errc::invalid_data, path_ + ":" + std::to_string(number_) + ": " + why,
                      std::string("a line is ") + columns + ", with a label from 0 to 255 behind it or none");
  }

  std::string path_;
  std::size_t number_ = 0;
  bool named_ = false;
};

} // namespace

bodies read_csv(const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    throw tern::error(tern::errc::io, "cannot read " + path + ": " + why, "check the path and its permissions");
  };
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) refuse("it is a folder");
  errno = 0;
  std::ifstream in(path);
  if (!in) refuse(std::strerror(errno));
  reader lines(path);
  for (std::string text; std::getline(in, text);) lines.line(text);
  if (in.bad()) refuse(std::strerror(errno));
  if (lines.all.empty())
    throw tern::error(tern::errc::invalid_data, path + " has no bodies", std::string("a line for each: ") + columns);
  return std::move(lines.all);
}

void write_csv(const std::string& path, const bodies& all) {
  std::vector<std::uint32_t> order(all.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return all.id[a] < all.id[b]; });
  apps::output_file file(path);
  file.put(std::string(columns) + ",label\n");
  for (const auto i : order)
    file.put(fmt::format("{},{},{},{},{},{},{},{}\n", all.mass[i], all.x[i], all.y[i], all.z[i], all.vx[i], all.vy[i],
                         all.vz[i], all.label[i]));
  file.close();
}

} // namespace nbody
