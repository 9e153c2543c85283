// SPDX-License-Identifier: Apache-2.0
/// \file
/// Reading a policy's parameters.
#include <tern/base/policy_parameters.hpp>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/base/options/option_table.hpp>

namespace tern {
namespace {

template <class T> std::optional<T> parse(std::string_view text) {
  T value{};
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

// The fewest digits that make the same number again.
template <class T> std::string shown(T x) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, x).ptr};
}

template <class T> std::string bounds(const char* what, T least, T most) {
  if (most == std::numeric_limits<T>::max() || (std::is_floating_point_v<T> && most > std::numeric_limits<T>::max()))
    return std::string(what) + ", at least " + shown(least);
  return std::string(what) + " from " + shown(least) + " to " + shown(most);
}

struct unit {
  std::string_view name;
  double in_a_second;
};
constexpr unit units[] = {{"ns", 1e9}, {"us", 1e6}, {"ms", 1e3}, {"s", 1}, {"", 1}}; // "s" late: the others end in it

} // namespace

policy_parameters::policy_parameters(std::string of, std::string_view text, const char* what)
    : of_(std::string(what) + " " + of) {
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view one = text.substr(0, comma);
    const std::size_t equals = one.find('=');
    if (equals == 0 || equals == one.npos || comma + 1 == text.size())
      throw error(errc::invalid_option, of_ + " cannot have the parameter \"" + std::string(one) + "\"",
                  "give parameters as NAME=VALUE, with commas between them");
    const std::string name(one.substr(0, equals));
    if (!given_.emplace(name, one.substr(equals + 1)).second)
      throw error(errc::invalid_option, of_ + " has been given the parameter " + name + " twice", "give each one once");
    text = comma == text.npos ? std::string_view() : text.substr(comma + 1);
  }
}

double policy_parameters::number(const std::string& name, double otherwise, double least, double most) {
  const std::string* text = find(name, shown(otherwise));
  if (!text) return otherwise;
  const std::optional<double> value = parse<double>(*text);
  if (!value || !(*value >= least && *value <= most)) bad(name, *text, bounds("a number", least, most));
  return *value;
}

int policy_parameters::count(const std::string& name, int otherwise, int least, int most) {
  const std::string* text = find(name, shown(otherwise));
  if (!text) return otherwise;
  const std::optional<int> value = parse<int>(*text);
  if (!value || *value < least || *value > most) bad(name, *text, bounds("a whole number", least, most));
  return *value;
}

double policy_parameters::seconds(const std::string& name, double otherwise) {
  const std::string* text = find(name, shown(otherwise) + "s");
  if (!text) return otherwise;
  for (const unit& u : units) {
    if (!text->ends_with(u.name)) continue;
    const std::optional<double> value = parse<double>(std::string_view(*text).substr(0, text->size() - u.name.size()));
    if (!value || !(*value >= 0) || !std::isfinite(*value)) break;
    return *value / u.in_a_second; // rounds once, so that 300ns is what 300e-9 is in a program
  }
  bad(name, *text, "seconds, or a number with ns, us, ms or s");
}

std::string policy_parameters::word(const std::string& name, const std::string& otherwise, const std::string& choices) {
  const std::string* text = find(name, otherwise);
  if (!text) return otherwise;
  const bool one = !text->empty() && text->find('|') == text->npos;
  if (!one || ("|" + choices + "|").find("|" + *text + "|") == std::string::npos) bad(name, *text, choices);
  return *text;
}

void policy_parameters::finish() const {
  for (const auto& [name, value] : given_) {
    if (asked_.count(name)) continue;
    std::string there;
    std::vector<std::string> names;
    for (const auto& [asked, otherwise] : asked_) {
      there += (there.empty() ? "" : ", ") + asked + "=" + otherwise;
      names.push_back(asked);
    }
    const std::string near = tern::detail::nearest(name, names, "");
    throw error(errc::invalid_option, of_ + " has no parameter \"" + name + "\"",
                there.empty() ? "it has none" : near + (near.empty() ? "" : " ") + "it has, by default: " + there);
  }
}

const std::string* policy_parameters::find(const std::string& name, const std::string& shown) {
  asked_[name] = shown;
  const auto found = given_.find(name);
  return found == given_.end() ? nullptr : &found->second;
}

void policy_parameters::bad(const std::string& name, const std::string& value, const std::string& wanted) const {
  throw error(errc::invalid_option, of_ + ": parameter " + name + " cannot be \"" + value + "\"", "allowed: " + wanted);
}

policy_text split_policy(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == text.npos) return {std::string(text), {}};
  return {std::string(text.substr(0, colon)), std::string(text.substr(colon + 1))};
}

} // namespace tern
