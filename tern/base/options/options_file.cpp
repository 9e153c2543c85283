// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>

#include <nlohmann/json.hpp>

#include <tern/base/error.hpp>
#include <tern/base/options/option_table.hpp>

namespace tern {
namespace {

using nlohmann::json;

std::string read_text(const std::string& path, const std::string& origin) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  try {
    file.exceptions(std::ios::badbit);
    text.assign(std::istreambuf_iterator<char>(file), {});
  } catch (const std::ios_base::failure&) { // a directory opens but cannot be read
    file.clear(std::ios::failbit);
  }
  if (file.is_open() && !file.bad() && !(file.fail() && !file.eof())) return text;
  const std::string reason = errno ? std::generic_category().message(errno) : "cannot be read";
  throw error(errc::io, "cannot read the options file " + path + " (" + origin + "): " + reason,
              "give the path of a JSON file such as {\"workers\": 4}");
}

/// nlohmann's text without its own number in front: "parse error at line 2, column 5: …".
std::string without_tag(std::string_view text) {
  const auto bracket = text.find("] ");
  return std::string(text.starts_with("[json.") && bracket != text.npos ? text.substr(bracket + 2) : text);
}

bool nests_deeper(const json& given, int levels) {
  if (!given.is_structured()) return false;
  return levels == 0 ||
         std::any_of(given.begin(), given.end(), [&](const json& x) { return nests_deeper(x, levels - 1); });
}

/// What was given, for a message. `dump` calls itself for each level, and a file may have more of
/// them than the stack has room for.
std::string text_of(const json& given) {
  if (given.is_string()) return given.get<std::string>();
  if (nests_deeper(given, 8)) return given.is_array() ? "[…]" : "{…}";
  return given.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// The value if the JSON type fits the option; a whole number fits an option for numbers.
std::optional<option_value> value_from(const detail::option_declaration& option, const json& given) {
  switch (option.default_value().index()) {
  case 0:
    return given.is_boolean() ? std::optional<option_value>(given.get<bool>()) : std::nullopt;
  case 1:
  case 2:
    return given.is_number_integer() ? detail::parse_value(option, given.dump()) : std::nullopt;
  case 3:
    return given.is_number() ? detail::parse_value(option, given.dump()) : std::nullopt;
  default:
    return given.is_string() ? std::optional<option_value>(given.get<std::string>()) : std::nullopt;
  }
}

} // namespace

void options::read_file(const std::string& path, const std::string& origin) {
  const std::string text = read_text(path, origin);
  json content;
  try {
    content = json::parse(text, nullptr, true, /*ignore_comments=*/true);
  } catch (const json::exception& failure) {
    throw error(errc::invalid_option, "the options file " + path + " is no JSON: " + without_tag(failure.what()),
                "it should read {\"workers\": 4, …}; // comments are allowed");
  }
  if (!content.is_object())
    throw error(errc::invalid_option,
                "the options file " + path + " holds " + content.type_name() + " where an object is needed",
                "it should read {\"workers\": 4, …}");
  const auto table = detail::option_table::all();
  for (const auto& [key, given] : content.items()) {
    const auto at = table.find(key);
    if (at == table.end() || key == options_file.name() || key == help_option.name()) {
      std::vector<std::string> names;
      for (const auto& [name, option] : table) names.push_back(name);
      const std::string hint = at == table.end() ? detail::nearest(key, names, "") : "give it on the command line";
      throw error(errc::invalid_option, "unknown option \"" + key + "\" in file " + path,
                  hint.empty() ? "--tern-help lists all" : hint);
    }
    auto value = value_from(*at->second, given);
    if (!value || !at->second->accepts(*value))
      detail::refuse_value(*at->second, text_of(given), (given.is_string() ? "a text in file " : "in file ") + path);
    set_value(*at->second, std::move(*value), "file " + path);
  }
}

} // namespace tern
