// SPDX-License-Identifier: Apache-2.0
#include <tern/net/sim_world.hpp>

#include <algorithm>
#include <bitset>
#include <charconv>
#include <cmath>
#include <optional>

#include <tern/base/error.hpp>
#include <tern/base/options/option_table.hpp>
#include <tern/net/transport/sim/network_model.hpp>

namespace tern::sim {
namespace {

constexpr double longest = 1000; // of a duration; with the other limits no clock of picoseconds runs over
constexpr double latest = 1e6;   // of a moment, and of a pause
constexpr double most_bandwidth = 1e15;
constexpr double most_factor = 1e6;
constexpr int most_slots = 1'000'000;
constexpr std::int64_t most_links = 16'000'000; // half a gigabyte

// ---- texts of numbers

// What a user wrote, fit for a message: short, and nothing that a terminal would obey.
std::string quoted(std::string_view text) {
  constexpr std::size_t most = 60;
  std::string result = "\"";
  for (const char c : text.substr(0, most))
    if (c >= ' ' && c <= '~')
      result += c;
    else {
      const auto byte = static_cast<unsigned char>(c);
      result += {'\\', 'x', "0123456789abcdef"[byte / 16], "0123456789abcdef"[byte % 16]};
    }
  return result + (text.size() > most ? "…\"" : "\"");
}

// `text` times ten to the power of `shift`. The exponent in the text is changed, so that 300ns is
// what 300e-9 is in a program; multiplying would round a second time.
std::optional<double> parse_real(std::string_view text, int shift = 0) {
  if (text.empty() || text.find_first_not_of("0123456789.eE+-") != text.npos || text[0] == '-') return std::nullopt;
  const auto complete = [](std::string_view t, auto& value) {
    const auto [stop, failure] = std::from_chars(t.data(), t.data() + t.size(), value);
    return failure == std::errc() && stop == t.data() + t.size();
  };
  double value = 0;
  const std::size_t e = text.find_first_of("eE");
  if (shift == 0 || e == text.npos) {
    const std::string whole = std::string(text) + (shift == 0 ? "" : "e" + std::to_string(shift));
    if (!complete(whole, value)) return std::nullopt;
  } else {
    int exponent = 0;
    std::string_view digits = text.substr(e + 1);
    if (digits.size() > 1 && digits[0] == '+' && digits[1] != '-') digits.remove_prefix(1);
    if (!complete(digits, exponent) || std::abs(static_cast<long>(exponent)) > 10'000) return std::nullopt;
    if (!complete(std::string(text.substr(0, e)) + "e" + std::to_string(exponent + shift), value)) return std::nullopt;
  }
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

struct unit {
  std::string_view name;
  int power;
};
constexpr unit times[] = {{"ns", -9}, {"us", -6}, {"ms", -3}, {"s", 0}}; // "s" last: the others end in it
constexpr unit rates[] = {{"k", 3}, {"M", 6}, {"G", 9}, {"", 0}};

template <std::size_t N> std::optional<double> parse_with_unit(std::string_view text, const unit (&units)[N]) {
  for (const unit& u : units)
    if (text.ends_with(u.name)) return parse_real(text.substr(0, text.size() - u.name.size()), u.power);
  return text == "0" ? std::optional(0.0) : std::nullopt;
}

template <class T> std::optional<T> parse_whole(std::string_view text) {
  T value{};
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

// The fewest digits that make the same number again; no '+', which means something in a pause.
std::string real_text(double x) {
  char text[32];
  std::string result(text, std::to_chars(text, text + sizeof text, x == 0 ? 0.0 : x).ptr); // no "-0"
  result.erase(std::remove(result.begin(), result.end(), '+'), result.end());
  return result;
}

// The same digits with the largest unit that leaves something before the point.
template <std::size_t N> std::string text_with_unit(double x, const unit (&units)[N], std::string_view otherwise) {
  if (!(x > 0) || !std::isfinite(x)) return real_text(x) + std::string(otherwise);
  char buffer[32];
  const std::string_view text(
      buffer, static_cast<std::size_t>(
                  std::to_chars(buffer, buffer + sizeof buffer, x, std::chars_format::scientific).ptr - buffer));
  const std::size_t e = text.find('e');
  std::string digits(text.substr(0, e));
  std::erase(digits, '.');
  int exponent = std::stoi(std::string(text.substr(e + 1)));
  const unit* best = nullptr;
  for (const unit& u : units)
    if (exponent >= u.power && (!best || u.power > best->power)) best = &u;
  if (!best || exponent - best->power > 15) return real_text(x) + std::string(otherwise);
  exponent -= best->power;
  const auto before = static_cast<std::size_t>(exponent) + 1; // digits before the point
  if (digits.size() < before) digits.append(before - digits.size(), '0');
  if (digits.size() > before) digits.insert(before, ".");
  return digits + std::string(best->name);
}
std::string time_text(double seconds) { return text_with_unit(seconds, times, "s"); }
std::string rate_text(double rate) { return text_with_unit(rate, rates, ""); }

// ---- words

enum class kind { whole, seed, number, time, rate, topology, faults };

struct word {
  std::string_view name;
  kind is;
  double least = 0, most = 0;
  int& (*whole)(world&) = nullptr;
  double& (*real)(world&) = nullptr;
};

// In the order in which they are written.
constexpr word words[] = {
    {"ranks", kind::whole, 1, most_ranks, [](world& w) -> int& { return w.ranks; }},
    {"workers", kind::whole, 1, 1024, [](world& w) -> int& { return w.workers; }},
    {"apart", kind::whole, 0, 1, [](world& w) -> int& { return w.apart; }},
    {"seed", kind::seed},
    {"preempt", kind::number, 0, 0.99, nullptr, [](world& w) -> double& { return w.preempt; }},
    {"step", kind::time, 1e-9, 0.1, nullptr, [](world& w) -> double& { return w.step; }},
    {"latency", kind::time, 0, longest, nullptr, [](world& w) -> double& { return w.network.latency; }},
    {"overhead", kind::time, 0, longest, nullptr, [](world& w) -> double& { return w.network.overhead; }},
    {"gap", kind::time, 0, longest, nullptr, [](world& w) -> double& { return w.network.gap; }},
    {"bandwidth", kind::rate, 1, most_bandwidth, nullptr, [](world& w) -> double& { return w.network.bandwidth; }},
    {"topology", kind::topology},
    {"taper", kind::number, 1e-6, 1, nullptr, [](world& w) -> double& { return w.network.taper; }},
    {"hop", kind::time, 0, longest, nullptr, [](world& w) -> double& { return w.network.hop; }},
    {"host", kind::whole, 1, most_ranks, [](world& w) -> int& { return w.network.host; }},
    {"jitter", kind::number, 0, 100, nullptr, [](world& w) -> double& { return w.network.jitter; }},
    {"slots", kind::whole, 0, most_slots, [](world& w) -> int& { return w.slots; }},
    {"faults", kind::faults},
};
constexpr std::string_view fault_words[] = {"delay", "reorder", "slow", "pause", "crash"};

template <class Range> std::string listed(const Range& range) {
  std::string list;
  for (const auto& each : range) list += (list.empty() ? "" : ", ") + std::string(each);
  return list;
}
std::vector<std::string> word_names() {
  std::vector<std::string> names;
  for (const word& each : words) names.emplace_back(each.name);
  return names;
}

std::string time_rule(double least, double most) {
  return "a time from " + time_text(least) + " to " + time_text(most) +
         ", with ns, us, ms or s behind the number: 1.5us";
}

std::string rule(const word& of) {
  switch (of.is) {
  case kind::whole:
    return "a whole number from " + real_text(of.least) + " to " + std::to_string(static_cast<int>(of.most));
  case kind::seed:
    return "a whole number from 0 to 18446744073709551615";
  case kind::number:
    return "a number from " + real_text(of.least) + " to " + real_text(of.most);
  case kind::time:
    return time_rule(of.least, of.most);
  case kind::rate:
    return "bytes a second, from 1 to 1000000G, with or without k, M or G behind the number: 12.5G";
  case kind::topology:
    return "flat, fat-tree:DOWN[:DOWN…] (switches from the leaves up; at most 16 levels) or dragonfly:P:A:H, where "
           "each "
           "number is a whole one from 1 to 1000000";
  case kind::faults:
    break;
  }
  return "none, or some of these with colons between: delay[=TIME], reorder[=TIME], slow[=[RANK][@FACTOR]], "
         "pause[=[RANK][@TIME][+TIME]], crash[=[RANK][@TIME]]";
}

[[noreturn]] void refuse(std::string message, std::string hint) {
  throw error(errc::invalid_option, "simulated world: " + std::move(message), std::move(hint));
}
[[noreturn]] void refuse_value(std::string_view name, std::string_view value, const std::string& allowed) {
  refuse(std::string(name) + " cannot be " + quoted(value), "allowed: " + allowed);
}
[[noreturn]] void refuse_word(std::string_view what, std::string_view name, const std::vector<std::string>& names) {
  const std::string near = tern::detail::nearest(name, names, "");
  refuse("there is no " + std::string(what) + " " + quoted(name),
         (near.empty() ? "" : near + " ") + "there are " + listed(names));
}
std::string fault_name(std::string_view name) { return "the fault " + std::string(name); }
std::string factor_rule() { return "a number from 1 to " + std::to_string(static_cast<int>(most_factor)); }

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == text.npos) return parts;
    text.remove_prefix(at + 1);
  }
}

// [RANK][@FIRST][+SECOND], of which at least one is there. The + of an exponent is none.
struct three {
  std::string_view rank;
  std::optional<std::string_view> first, second;
};
three parse_three(std::string_view text) {
  three result;
  for (std::size_t i = text.size(); i-- > 0;)
    if (text[i] == '+' && (i == 0 || (text[i - 1] != 'e' && text[i - 1] != 'E'))) {
      result.second = text.substr(i + 1);
      text = text.substr(0, i);
      break;
    }
  if (const std::size_t at = text.find('@'); at != text.npos) {
    result.first = text.substr(at + 1);
    text = text.substr(0, at);
  }
  result.rank = text;
  return result;
}

void parse_fault(std::string_view item, fault_settings& to, std::bitset<2>& seen) {
  const word& faults = words[std::size(words) - 1];
  const std::size_t equals = item.find('=');
  const std::string_view name = item.substr(0, equals);
  const auto value = equals == item.npos ? std::nullopt : std::optional(item.substr(equals + 1));
  if (item.empty()) refuse("faults has an empty item", "allowed: " + rule(faults));
  if (std::find(std::begin(fault_words), std::end(fault_words), name) == std::end(fault_words))
    refuse_word("fault", name, {std::begin(fault_words), std::end(fault_words)});
  const auto time = [&](std::string_view text, double most) {
    const auto seconds = parse_with_unit(text, times);
    if (!seconds) refuse_value(fault_name(name), text, time_rule(0, most));
    return *seconds;
  };
  if (name == "delay" || name == "reorder") {
    const bool which = name == "reorder";
    if (seen[which]) refuse(fault_name(name) + " is given twice", "leave one out");
    seen[which] = true;
    (which ? to.reorder : to.delay) = value ? time(*value, longest) : (which ? default_reorder : default_delay);
    return;
  }
  const three parts = parse_three(value.value_or(""));
  if ((value && value->empty()) || (parts.second && name != "pause"))
    refuse_value(fault_name(name), *value, rule(faults));
  int rank = -1;
  if (!parts.rank.empty()) {
    const auto number = parse_whole<int>(parts.rank);
    if (!number || *number < 0) refuse_value(fault_name(name) + "'s rank", parts.rank, "a rank, 0 to one below ranks");
    rank = *number;
  }
  if (name == "slow") {
    const auto factor = parts.first ? parse_real(*parts.first) : std::optional(0.0);
    if (!factor || (parts.first && *factor < 1)) refuse_value("the fault slow's factor", *parts.first, factor_rule());
    to.slow.push_back({rank, *factor});
    return;
  }
  const double at = parts.first ? time(*parts.first, latest) : -1;
  if (name == "crash")
    to.crash.push_back({rank, at});
  else
    to.pause.push_back({rank, at, parts.second ? time(*parts.second, latest) : -1});
}

fault_settings parse_faults(std::string_view text) {
  fault_settings result;
  std::bitset<2> seen;
  if (text != "none")
    for (const std::string_view item : split(text, ':')) parse_fault(item, result, seen);
  return result;
}

void parse_item(const word& of, std::string_view value, world& to) {
  const auto take = [&](const auto& parsed, auto& target) {
    if (!parsed) refuse_value(of.name, value, rule(of));
    target = *parsed;
  };
  switch (of.is) {
  case kind::whole:
    return take(parse_whole<int>(value), of.whole(to));
  case kind::seed:
    return take(parse_whole<std::uint64_t>(value), to.seed);
  case kind::number:
    return take(parse_real(value), of.real(to));
  case kind::time:
    return take(parse_with_unit(value, times), of.real(to));
  case kind::rate:
    return take(parse_with_unit(value, rates), of.real(to));
  case kind::topology:
    detail::parse_topology(value); // refused here, where the word is known
    to.network.topology = value;
    return;
  case kind::faults:
    to.faults = parse_faults(value);
  }
}

std::string text_of(const word& of, const world& from) {
  auto& w = const_cast<world&>(from); // the table's functions only find the place
  switch (of.is) {
  case kind::whole:
    return std::to_string(of.whole(w)); // NOLINT(clang-analyzer-core.CallAndMessage): each kind has its function
  case kind::seed:
    return std::to_string(w.seed);
  case kind::number:
    return real_text(of.real(w));
  case kind::time:
    return time_text(of.real(w));
  case kind::rate:
    return rate_text(of.real(w));
  case kind::topology:
    return w.network.topology;
  case kind::faults:
    break;
  }
  std::string text;
  const auto add = [&](std::string_view name, const std::string& value) {
    text += (text.empty() ? "" : ":") + std::string(name) + (value.empty() ? "" : "=" + value);
  };
  const fault_settings& f = w.faults;
  if (f.delay != 0) add("delay", f.delay == default_delay ? "" : time_text(f.delay));
  if (f.reorder != 0) add("reorder", f.reorder == default_reorder ? "" : time_text(f.reorder));
  const auto rank_text = [](int rank) { return rank < 0 ? std::string() : std::to_string(rank); };
  const auto moment = [](char before, double at) { return at < 0 ? std::string() : before + time_text(at); };
  for (const auto& s : f.slow) add("slow", rank_text(s.rank) + (s.factor == 0 ? "" : "@" + real_text(s.factor)));
  for (const auto& p : f.pause) add("pause", rank_text(p.rank) + moment('@', p.at) + moment('+', p.seconds));
  for (const auto& c : f.crash) add("crash", rank_text(c.rank) + moment('@', c.at));
  return text.empty() ? "none" : text;
}

void check_faults(const world& w) {
  const auto rank = [&](std::string_view name, int r) {
    if (r < -1 || r >= w.ranks)
      refuse(fault_name(name) + " names rank " + std::to_string(r) + ", and there is none",
             "ranks are 0 to " + std::to_string(w.ranks - 1) + "; without a rank the seed chooses");
  };
  const auto time = [](std::string_view name, double t, double most) {
    if (!(t >= 0 && t <= most)) refuse_value(fault_name(name), time_text(t), time_rule(0, most));
  };
  const auto once = [&](std::string_view name, const auto& list) {
    std::vector<int> named;
    for (const auto& each : list) {
      rank(name, each.rank);
      if (each.rank >= 0) named.push_back(each.rank);
    }
    std::sort(named.begin(), named.end());
    if (const auto twin = std::adjacent_find(named.begin(), named.end()); twin != named.end())
      refuse(fault_name(name) + " names rank " + std::to_string(*twin) + " twice", "leave one out");
    if (list.size() > static_cast<std::size_t>(w.ranks))
      refuse(fault_name(name) + " is there " + std::to_string(list.size()) + " times for " + std::to_string(w.ranks) +
                 " ranks",
             "give it once for each rank at most");
  };
  time("delay", w.faults.delay, longest);
  time("reorder", w.faults.reorder, longest);
  once("slow", w.faults.slow);
  once("crash", w.faults.crash);
  for (const auto& s : w.faults.slow)
    if (s.factor != 0 && !(s.factor >= 1 && s.factor <= most_factor))
      refuse_value("the fault slow's factor", real_text(s.factor), factor_rule());
  for (const auto& p : w.faults.pause) {
    rank("pause", p.rank);
    if (p.at != -1) time("pause", p.at, latest);
    if (p.seconds != -1) time("pause", p.seconds, latest);
  }
  for (const auto& c : w.faults.crash)
    if (c.at != -1) time("crash", c.at, latest);
}

// \pre numbers in range. At most `limit`: products of many numbers.
std::int64_t product(std::initializer_list<std::int64_t> numbers, std::int64_t limit) {
  std::int64_t result = 1;
  for (const std::int64_t n : numbers) result = n != 0 && result > limit / n ? limit : result * n;
  return result;
}

void check_topology(const world& w) {
  const detail::topology shape = detail::parse_topology(w.network.topology);
  if (shape.is != detail::topology::kind::fat_tree && w.network.taper != 1)
    refuse("taper is " + real_text(w.network.taper) + ", and topology " + w.network.topology + " has no uplinks",
           "leave taper out, or choose topology=fat-tree:DOWN[:DOWN…]");
  if (shape.is == detail::topology::kind::flat) return;
  const std::int64_t hosts = (w.ranks + w.network.host - 1) / w.network.host;
  std::int64_t space = 1;
  std::string more = "make its numbers larger";
  if (shape.is == detail::topology::kind::fat_tree) {
    double rate = 1;
    for (std::size_t i = 0; i < shape.numbers.size(); ++i) {
      space = product({space, shape.numbers[i]}, most_ranks);
      rate = std::min(rate * w.network.taper * shape.numbers[i], 1.0 * most_ranks);
      if (i + 1 < shape.numbers.size() && rate < 1 - 1e-9)
        refuse("with taper=" + real_text(w.network.taper) + " the uplinks of level " + std::to_string(i + 1) +
                   " of topology " + w.network.topology + " are slower than a network card",
               "choose a larger taper, or more ports for the levels below");
    }
    more += " or add a level";
  } else {
    const std::int64_t p = shape.numbers[0], a = shape.numbers[1], h = shape.numbers[2];
    const std::int64_t groups = a * h + 1; // each pair of groups has one link
    space = product({p, a, groups}, most_ranks);
    // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): none of the numbers is 0
    const std::int64_t used = std::min(groups, (hosts - 1) / product({p, a}, most_ranks) + 1);
    if (const auto links = product({used, a, a}, most_links + 1) + product({used, used}, most_links + 1);
        links > most_links)
      refuse("topology " + w.network.topology + " has more than " + std::to_string(most_links) + " links",
             "put more ranks on each router (the first number), or more routers into fewer groups");
  }
  if (space < hosts)
    refuse("topology " + w.network.topology + " has room for " + std::to_string(space) + " hosts, and " +
               std::to_string(w.ranks) + " ranks need " + std::to_string(hosts),
           more + ", or put more ranks on each host (host=" + std::to_string(w.network.host) + ")");
}

} // namespace

detail::topology detail::parse_topology(std::string_view text) {
  const word& self = *std::find_if(std::begin(words), std::end(words), [](auto& x) { return x.is == kind::topology; });
  // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): it is in the table
  const auto refused = [&] { refuse_value(self.name, text, rule(self)); };
  const std::vector<std::string_view> parts = split(text, ':');
  topology result;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const auto number = parse_whole<int>(parts[i]);
    if (!number || *number < 1 || *number > most_ranks || i > most_levels) refused();
    result.numbers.push_back(*number);
  }
  if (parts[0] == "flat" && parts.size() == 1)
    result.is = topology::kind::flat;
  else if (parts[0] == "fat-tree" && parts.size() > 1)
    result.is = topology::kind::fat_tree;
  else if (parts[0] == "dragonfly" && parts.size() == 4)
    result.is = topology::kind::dragonfly;
  else
    refused();
  return result;
}

world parse_world(std::string_view text, world base) {
  std::bitset<std::size(words)> seen;
  if (!text.empty())
    for (const std::string_view item : split(text, ',')) {
      if (item.empty())
        refuse("an item is empty in " + quoted(text), "write WORD=VALUE,WORD=VALUE without blanks: ranks=4,seed=7");
      const std::size_t equals = item.find('=');
      const std::string_view name = item.substr(0, equals);
      const auto* const of =
          std::find_if(std::begin(words), std::end(words), [&](const word& each) { return each.name == name; });
      if (of == std::end(words)) refuse_word("word", name, word_names());
      if (equals == item.npos)
        refuse(std::string(name) + " has no value", "write " + std::string(name) + "=VALUE; allowed: " + rule(*of));
      const auto index = static_cast<std::size_t>(of - words);
      if (seen[index]) refuse(std::string(name) + " is given twice", "leave one out");
      seen[index] = true;
      parse_item(*of, item.substr(equals + 1), base);
    }
  check(base);
  return base;
}

std::string to_string(const world& w) {
  const world defaults;
  std::string text;
  for (const word& each : words) {
    const std::string value = text_of(each, w);
    if (each.name != "ranks" && each.name != "seed" && value == text_of(each, defaults)) continue;
    text += (text.empty() ? "" : ",") + std::string(each.name) + "=" + value;
  }
  return text;
}

void check(const world& w) {
  auto& places = const_cast<world&>(w); // the table's functions only find the place
  for (const word& each : words) {
    if (!each.whole && !each.real) continue;
    const double value = each.whole ? each.whole(places) : each.real(places);
    if (!(value >= each.least && value <= each.most)) refuse_value(each.name, text_of(each, w), rule(each));
  }
  if (w.apart == 1 && w.workers == 1)
    refuse("with apart=1 the only worker of each rank would look after messages and do nothing else",
           "give workers=2 or more, or leave apart out");
  check_topology(w);
  check_faults(w);
}

} // namespace tern::sim
