// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/models/model_text.hpp>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#define XXH_INLINE_ALL // so that no library is needed where Tern runs
#include <xxhash.h>

namespace tern::hetero::detail {
namespace {

using json = nlohmann::ordered_json;

constexpr const char* header_name = "tern models";
constexpr std::string_view before_crc = R"(,"crc":")", after_crc = R"("})";
constexpr std::size_t crc_digits = 16;

// Writing -------------------------------------------------------------------------------------------------------------

std::string hexadecimal(std::uint64_t value) {
  std::string text(crc_digits, '0');
  for (std::size_t i = crc_digits; value != 0; value >>= 4) text[--i] = "0123456789abcdef"[value & 15];
  return text;
}

json list_of(const sample_history& of) {
  json all = json::array();
  for (const float x : of.samples()) {
    const double rounded = std::round(double{x} * 1e3) / 1e3;
    if (rounded >= 1e3 || rounded == std::floor(rounded))
      all.push_back(static_cast<std::uint64_t>(std::min(std::round(rounded), 1e18)));
    else
      all.push_back(rounded);
  }
  return all;
}

std::string header_line() { return json{{header_name, model_text_version}}.dump() + "\n"; }

void put(std::string& text, const json& line) {
  std::string one = line.dump(-1, ' ', false, json::error_handler_t::replace); // names may be in any encoding
  one.pop_back();                                                              // the closing brace
  const std::uint64_t crc = XXH3_64bits(one.data(), one.size());
  text.append(one).append(before_crc).append(hexadecimal(crc)).append(after_crc).append("\n");
}

json line_of(const model_key& key, const kernel_model& m) {
  return {{"kernel", key.kernel.name},
          {"text", hexadecimal(key.kernel.text)},
          {"device", key.device},
          {"size", hexadecimal(key.size)},
          {"uses", m.size.text},
          {"bytes", m.size.bytes},
          {"last", m.last},
          {"ns", list_of(m.times)}};
}

// Reading -------------------------------------------------------------------------------------------------------------

std::optional<std::uint64_t> number_in(std::string_view hexadecimal_digits) {
  std::uint64_t value = 0;
  const char* const end = hexadecimal_digits.data() + hexadecimal_digits.size();
  const auto [rest, bad] = std::from_chars(hexadecimal_digits.data(), end, value, 16);
  if (hexadecimal_digits.size() != crc_digits || bad != std::errc() || rest != end) return std::nullopt;
  return value;
}

// What the line says, without its checksum; discarded if that is wrong.
json checked(std::string_view line) {
  const std::size_t tail = before_crc.size() + crc_digits + after_crc.size();
  if (line.size() <= tail || !line.ends_with(after_crc)) return json(json::value_t::discarded);
  const std::string_view rest = line.substr(0, line.size() - tail), end = line.substr(rest.size());
  if (!end.starts_with(before_crc) ||
      number_in(end.substr(before_crc.size(), crc_digits)) != XXH3_64bits(rest.data(), rest.size()))
    return json(json::value_t::discarded);
  return json::parse(std::string(rest) + "}", nullptr, false);
}

// Throw json::exception where a member is missing or of another type.
std::uint64_t hash_at(const json& line, const char* name) {
  const auto value = number_in(line.at(name).get_ref<const std::string&>());
  if (!value) throw json::other_error::create(501, std::string(name) + " is no hash", &line);
  return *value;
}
std::int64_t integer_at(const json& line, const char* name) {
  const json& value = line.at(name);
  if (!value.is_number_integer()) throw json::other_error::create(501, std::string(name) + " is no integer", &line);
  return value.get<std::int64_t>();
}
sample_history history_at(const json& line, const char* name) {
  sample_history h;
  for (const json& x : line.at(name).get_ref<const json::array_t&>()) h.restore(x.get<double>());
  return h;
}

void take(model_set& into, const json& line) {
  if (line.contains("kernel")) {
    model_key key{{line.at("kernel").get<std::string>(), hash_at(line, "text")},
                  line.at("device").get<std::string>(),
                  hash_at(line, "size")};
    kernel_model m;
    m.size = {key.size, static_cast<std::uint64_t>(integer_at(line, "bytes")), line.at("uses").get<std::string>()};
    m.times = history_at(line, "ns");
    m.last = integer_at(line, "last");
    into.kernels.insert_or_assign(std::move(key), std::move(m));
  } else if (line.contains("link")) {
    const auto last = integer_at(line, "last");
    model_set::dated_link link; // whole, before it is taken
    const auto ends = std::pair(line.at("link").get<std::string>(), line.at("to").get<std::string>());
    if (const auto found = into.links.find(ends); found != into.links.end()) link = found->second;
    link.last = std::max(link.last, last);
    if (line.contains("range")) {
      link_model::size_range r;
      r.bytes = history_at(line, "bytes");
      r.times = history_at(line, "ns");
      link.link.restore(static_cast<int>(integer_at(line, "range") & 63), r);
    } else {
      link.link.restore_both_ways(history_at(line, "both ways"));
    }
    into.links.insert_or_assign(ends, std::move(link));
  } else {
    into.power.insert_or_assign(
        line.at("power").get<std::string>(),
        power_model{line.at("busy").get<double>(), line.at("idle").get<double>(), false, integer_at(line, "last")});
  }
}

parsed_models::header kind_of(std::string_view line) {
  if (std::string(line) + "\n" == header_line()) return parsed_models::header::right;
  const json found = json::parse(line, nullptr, false);
  const bool versioned = found.is_object() && found.contains(header_name) && found[header_name].is_number_integer();
  return versioned ? parsed_models::header::other_version : parsed_models::header::damaged;
}

} // namespace

std::string text_of(const model_set& models) {
  std::string text = header_line();
  for (const auto& [key, m] : models.kernels) put(text, line_of(key, m));
  for (const auto& [ends, m] : models.links) {
    const json link{{"link", ends.first}, {"to", ends.second}, {"last", m.last}};
    for (const auto& [k, range] : m.link.ranges()) {
      json line = link;
      line.update({{"range", k}, {"bytes", list_of(range.bytes)}, {"ns", list_of(range.times)}});
      put(text, line);
    }
    if (m.link.both_ways().size() > 0) {
      json line = link;
      line["both ways"] = list_of(m.link.both_ways());
      put(text, line);
    }
  }
  for (const auto& [device, m] : models.power)
    put(text, {{"power", device}, {"busy", m.busy}, {"idle", m.idle}, {"last", m.last}});
  return text;
}

parsed_models parse_models(std::string_view text) {
  parsed_models all;
  if (text.empty()) return all;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    if (++number == 1) {
      all.first = kind_of(line);
      if (all.first != parsed_models::header::right) return all;
      continue;
    }
    const json content = checked(line);
    try {
      if (!content.is_object()) throw json::other_error::create(501, "no object", &content);
      take(all.models, content);
    } catch (const json::exception&) { // its checksum is right, but it is no model
      all.wrong_lines.push_back(number);
    }
  }
  return all;
}

std::string json_of(const model_set& models, std::int64_t now) {
  json kernels = json::array(), links = json::array(), power = json::array();
  for (const auto& [key, m] : models.kernels) {
    json one = line_of(key, m);
    one.update({{"median", m.times.median()},
                {"spread", m.times.spread()},
                {"p95", m.times.quantile(0.95)},
                {"age", now - m.last}});
    kernels.push_back(std::move(one));
  }
  for (const auto& [ends, m] : models.links) {
    json one{{"from", ends.first}, {"to", ends.second}, {"age", now - m.last}};
    if (const auto line = m.link.line()) {
      one["latency"] = line->latency;
      if (line->per_byte > 0) one["bytes_per_second"] = 1e9 / line->per_byte;
    }
    one["both_ways_factor"] = m.link.both_ways_factor();
    links.push_back(std::move(one));
  }
  for (const auto& [device, m] : models.power)
    power.push_back({{"device", device}, {"busy", m.busy}, {"idle", m.idle}, {"age", now - m.last}});
  return json{{"kernels", std::move(kernels)}, {"links", std::move(links)}, {"power", std::move(power)}}.dump(
      2, ' ', false, json::error_handler_t::replace);
}

} // namespace tern::hetero::detail
