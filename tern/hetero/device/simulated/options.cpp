// SPDX-License-Identifier: Apache-2.0
// What simulated devices are like, as the option hetero-simulated says it.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <tern/base/options/option_table.hpp>
#include <tern/hetero/device/simulated/simulated_device.hpp>

namespace tern::hetero::detail {
namespace {

constexpr int most_devices = 64;

enum class kind { size, rate, time, factor, watts, share, slowdown, outlier, drift, whole, fault, choice };

struct word {
  std::string_view name;
  kind is;
  void (*set)(simulated_settings& s, double value);
  void (*set_second)(simulated_settings& s, double value) = nullptr; ///< of two, as in 0.01x100
};
constexpr word words[] = {
    {"bandwidth", kind::rate, [](simulated_settings& s, double v) { s.bandwidth = v; }},
    {"peer-bandwidth", kind::rate, [](simulated_settings& s, double v) { s.peer_bandwidth = v; }},
    {"latency", kind::time, [](simulated_settings& s, double v) { s.latency = v; }},
    {"memory", kind::size, [](simulated_settings& s, double v) { s.memory = static_cast<std::size_t>(v); }},
    {"launch", kind::time, [](simulated_settings& s, double v) { s.launch = v; }},
    {"item", kind::time, [](simulated_settings& s, double v) { s.item = v; }},
    {"notice", kind::time, [](simulated_settings& s, double v) { s.notice = v; }},
    {"waits", kind::time, [](simulated_settings& s, double v) { s.waits = v; }},
    {"speed", kind::factor, [](simulated_settings& s, double v) { s.speed = v; }},
    {"units", kind::whole, [](simulated_settings& s, double v) { s.units = static_cast<int>(v); }},
    {"fuse", kind::whole, [](simulated_settings& s, double v) { s.fuse = static_cast<int>(v); }},
    {"power", kind::watts, [](simulated_settings& s, double v) { s.power = v; }},
    {"idle-power", kind::watts, [](simulated_settings& s, double v) { s.idle_power = v; }},
    {"noise", kind::share, [](simulated_settings& s, double v) { s.unsteady.noise = v; }},
    {"outlier", kind::outlier, [](simulated_settings& s, double v) { s.unsteady.outlier_share = v; },
     [](simulated_settings& s, double v) { s.unsteady.outlier_factor = v; }},
    {"slow-first", kind::slowdown, [](simulated_settings& s, double v) { s.unsteady.first_factor = v; }},
    {"drift", kind::drift, [](simulated_settings& s, double v) { s.unsteady.drift_factor = v; },
     [](simulated_settings& s, double v) { s.unsteady.drift_at = v; }},
    {"unit-memory", kind::size, [](simulated_settings& s, double v) { s.unit_memory = static_cast<std::size_t>(v); }},
    {"fail-allocation", kind::fault,
     [](simulated_settings& s, double v) { s.faults.allocation = static_cast<std::int64_t>(v); }},
    {"fail-copy", kind::fault, [](simulated_settings& s, double v) { s.faults.copy = static_cast<std::int64_t>(v); }},
    {"fail-kernel", kind::fault,
     [](simulated_settings& s, double v) { s.faults.kernel = static_cast<std::int64_t>(v); }},
    {"skip", kind::choice, [](simulated_settings& s, double v) { s.skip = v != 0; }},
    {"lose", kind::fault, [](simulated_settings& s, double v) { s.faults.lose = static_cast<std::int64_t>(v); }},
};

struct unit {
  std::string_view name;
  double factor;
};
constexpr unit sizes[] = {
    {"k", 1024.0}, {"M", 1024.0 * 1024}, {"G", 1024.0 * 1024 * 1024}, {"T", 1024.0 * 1024 * 1024 * 1024}, {"", 1}};
constexpr unit times[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}; // "s" last: the others end in it
constexpr unit plain[] = {{"", 1}};

struct rule {
  double least, most;
  const char* allowed;
};
constexpr rule rule_of(kind is) {
  switch (is) {
  case kind::size:
    return {1, 0x1p50, "bytes from 1 to 1024T, with or without k, M, G or T (powers of 1024) behind the number: 512M"};
  case kind::rate:
    return {0, 0x1p50,
            "bytes a second to 1024T, with or without k, M, G or T (powers of 1024) behind the number: 4G; "
            "or 0, no limit"};
  case kind::time:
    return {0, 1e12, "a time from 0ns to 1000s, with ns, us, ms or s behind the number: 10us"};
  case kind::factor:
    return {1e-6, 1e6, "a number from 0.000001 to 1000000"};
  case kind::share:
    return {0, 1, "a number from 0 to 1"};
  case kind::slowdown:
    return {1, 1e6, "a number from 1 to 1000000"};
  case kind::outlier:
    return {0, 1, "a share from 0 to 1 and how many times as long: 0.01x100"};
  case kind::drift:
    return {1e-6, 1e6, "how many times as long, and from when: 2@0.5s"};
  case kind::watts:
    return {0, 1e6, "watts, a number from 0 to 1000000"};
  case kind::whole:
    return {1, 1e6, "a whole number from 1 to 1000000"};
  case kind::choice:
    return {0, 1, "true or false"};
  case kind::fault:
    break;
  }
  return {1, 1e15, "a whole number from 1, which may have @ and the number of a device behind it: 3@0"};
}

std::optional<double> parse_number(std::string_view text) {
  if (text.empty() || text.find_first_not_of("0123456789.") != text.npos) return std::nullopt;
  double value = 0;
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}
template <std::size_t N> std::optional<double> parse_with_unit(std::string_view text, const unit (&units)[N]) {
  for (const unit& u : units)
    if (text.ends_with(u.name)) {
      const auto number = parse_number(text.substr(0, text.size() - u.name.size()));
      return number ? std::optional(*number * u.factor) : std::nullopt;
    }
  return text == "0" ? std::optional(0.0) : std::nullopt;
}

std::optional<double> parse_value(kind is, std::string_view text) {
  if (is == kind::choice)
    return text == "true" ? std::optional(1.0) : text == "false" ? std::optional(0.0) : std::nullopt;
  const auto value = is == kind::time                       ? parse_with_unit(text, times)
                     : is == kind::size || is == kind::rate ? parse_with_unit(text, sizes)
                                                            : parse_with_unit(text, plain);
  const rule r = rule_of(is);
  if (!value || !(*value >= r.least && *value <= r.most)) return std::nullopt;
  if (is != kind::time && is != kind::rate && is != kind::factor && is != kind::watts && is != kind::share &&
      is != kind::slowdown && *value != std::floor(*value))
    return std::nullopt;
  return value;
}

std::string quoted(std::string_view text) {
  constexpr std::size_t most = 60;
  std::string result = "\"";
  for (const char c : text.substr(0, most)) result += c >= ' ' && c <= '~' ? c : '?';
  return result + (text.size() > most ? "…\"" : "\"");
}

[[noreturn]] void refuse(const std::string& what, std::string hint) {
  throw error(errc::invalid_option, what, std::move(hint));
}

void parse_item(std::string_view item, std::vector<simulated_settings>& all, std::vector<std::string>& seen) {
  const std::size_t equals = item.find('=');
  const std::string_view name = item.substr(0, equals);
  if (item.empty()) refuse("a word is missing", "write WORD=VALUE between commas: 2:bandwidth=4G,latency=10us");
  const auto* const found =
      std::find_if(std::begin(words), std::end(words), [&](const word& w) { return w.name == name; });
  if (found == std::end(words)) {
    std::vector<std::string> names;
    for (const word& w : words) names.emplace_back(w.name);
    refuse("there is no word " + quoted(name), tern::detail::nearest_of(name, names, "there are"));
  }
  const rule r = rule_of(found->is);
  if (equals == item.npos) refuse(std::string(name) + " has no value", "allowed: " + std::string(r.allowed));
  const std::string_view text = item.substr(equals + 1);
  const auto refuse_value = [&] {
    refuse(std::string(name) + " cannot be " + quoted(text), "allowed: " + std::string(r.allowed));
  };
  // It may be given once for each device, and once for all of them before that.
  std::size_t at = text.find('@');
  if (found->is == kind::drift && at != text.npos) at = text.find('@', at + 1); // the first is its own
  const std::string once = std::string(name) + std::string(text.substr(std::min(at, text.size())));
  if (std::find(seen.begin(), seen.end(), once) != seen.end()) refuse(once + " is given twice", "leave one out");
  seen.push_back(once);
  std::string_view first = text.substr(0, at), second;
  std::optional<double> value, other;
  if (found->set_second) {
    const std::size_t between = std::min(first.find(found->is == kind::drift ? '@' : 'x'), first.size());
    second = first.substr(std::min(between + 1, first.size()));
    first = first.substr(0, between);
    value = parse_value(found->is == kind::drift ? kind::factor : kind::share, first);
    other = parse_value(found->is == kind::drift ? kind::time : kind::factor, second);
    if (!other) refuse_value();
  } else {
    value = parse_value(found->is, first);
  }
  if (!value) refuse_value();
  const auto set = [&](simulated_settings& s) {
    found->set(s, *value);
    if (other) found->set_second(s, *other);
  };
  if (at == text.npos) {
    for (simulated_settings& each : all) set(each);
    return;
  }
  const auto which = parse_number(text.substr(at + 1));
  if (!which || *which != std::floor(*which)) refuse_value();
  if (*which >= static_cast<double>(all.size()))
    refuse(std::string(name) + " is for device " + std::string(text.substr(at + 1, 20)) + " of " +
               std::to_string(all.size()),
           "devices are counted from 0");
  set(all[static_cast<std::size_t>(*which)]);
}

} // namespace

namespace {

std::vector<simulated_settings> parse_entry(std::string_view text) {
  if (text.empty()) return {};
  const std::size_t colon = text.find(':');
  const auto count = parse_number(text.substr(0, colon));
  if (!count || *count > most_devices || *count != std::floor(*count))
    refuse("the number of devices cannot be " + quoted(text.substr(0, colon)),
           "allowed: a whole number from 0 to " + std::to_string(most_devices) +
               ", then a colon and words, if there are any: 2:bandwidth=4G,latency=10us");
  std::vector<simulated_settings> all(static_cast<std::size_t>(*count));
  std::vector<std::string> seen;
  for (std::size_t from = colon; from != text.npos;) {
    const std::size_t comma = text.find(',', from + 1);
    parse_item(text.substr(from + 1, comma == text.npos ? comma : comma - from - 1), all, seen);
    from = comma;
  }
  return all;
}

} // namespace

std::vector<simulated_settings> parse_simulated(std::string_view text) {
  const std::size_t end = std::min(text.find(';'), text.size());
  std::vector<simulated_settings> first = parse_entry(text.substr(0, end));
  for (std::size_t from = end; from < text.size();) {
    const std::size_t next = std::min(text.find(';', from + 1), text.size());
    static_cast<void>(parse_entry(text.substr(from + 1, next - from - 1)));
    from = next;
  }
  return first;
}

} // namespace tern::hetero::detail

namespace tern::hetero {

const option<std::string> hetero_simulated{
    "hetero-simulated",
    "",
    "devices to simulate, for tests and experiments, and what they are like: 2, or "
    "2:bandwidth=4G,latency=10us,memory=1G,launch=5us,speed=2; empty: none; with semicolons between them, entries for "
    "ranks, of which rank r has number r, and the first again after the last: 2:speed=4;2:speed=1",
    {.verify = [](const std::string& text, const options&) { static_cast<void>(detail::parse_simulated(text)); }}};

} // namespace tern::hetero
